// Copies between strided arrays: Transpose, Slice, Concat, Split, Expand, Tile and others are such copies. Elements
// count by their size; where runs of them lie together, several are one element of up to 16 bytes (boxcopy.go).
#include "move.h"

// move_args: for every index of the box, y[to_at + sum of index*to] = x[from_at + sum of index*from].
struct move_args {
	const void *x;
	void *y;
	i64 to_at, from_at, n;
	axes box;
	i64 to[MOVE_DIMS], from[MOVE_DIMS];
};

template <typename E> DEV inline void move_loop(const move_args &a) {
	const E *x = (const E *)a.x;
	E *y = (E *)a.y;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 t = a.to_at, f = a.from_at;
		walk(a.box, i, a.n, [&](int d, i64 r) {
			t += r * a.to[d];
			f += r * a.from[d];
		});
		y[t] = x[f];
	}
}
SIZES(move, move_args, move_loop)

#define TILE 32

// plane_args: box is the axes outside the plane. In the plane of rows x cols, y's columns lie together and x's rows:
// y[.. + r*to_row + c] = x[.. + r + c*from_col].
struct plane_args {
	const void *x;
	void *y;
	i64 to_at, from_at, tiles; // of all planes
	i64 to_row, from_col;
	u32 rows, cols;
	divider across, down; // tiles along cols and along rows
	axes box;
	i64 to[MOVE_DIMS], from[MOVE_DIMS];
};

// plane_loop transposes tiles through shared memory, so that reads and writes both are of neighbours. A block has 256
// threads: 8 rows of 32. The tile's rows are one longer than a warp, which puts the elements of a column into different
// banks.
template <typename E> DEV inline void plane_loop(const plane_args &a, E *tile) {
	const E *x = (const E *)a.x;
	E *y = (E *)a.y;
	u32 lane = thread_x() % TILE, first = thread_x() / TILE, step = block_size() / TILE;
	for (i64 i = block_x(); i < a.tiles; i += grid_x()) {
		u32 left = divide((u32)i, a.across), col = ((u32)i - left * a.across.d) * TILE;
		u32 plane = divide(left, a.down), row = (left - plane * a.down.d) * TILE;
		i64 t = a.to_at, f = a.from_at;
		walk(a.box, plane, 0, [&](int d, i64 r) {
			t += r * a.to[d];
			f += r * a.from[d];
		});
		for (u32 c = first; c < TILE; c += step)
			if (row + lane < a.rows && col + c < a.cols)
				tile[c * (TILE + 1) + lane] = x[f + row + lane + (i64)(col + c) * a.from_col];
		barrier();
		for (u32 r = first; r < TILE; r += step)
			if (row + r < a.rows && col + lane < a.cols)
				y[t + (i64)(row + r) * a.to_row + col + lane] = tile[lane * (TILE + 1) + r];
		barrier();
	}
}

#define PLANE(size, type)                             \
	KERNEL(plane_##size, plane_args) {                \
		SHARED(type, tile, TILE *(TILE + 1));         \
		plane_loop<type>(a, tile);                    \
	}
PLANE(1, u8)
PLANE(2, u16)
PLANE(4, u32)
PLANE(8, u64)
