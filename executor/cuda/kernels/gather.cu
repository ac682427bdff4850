// Gather, GatherElements and GatherND: first the indices become offsets, then rows are copied.
#include "move.h"

// offsets_args: tuple i of depth indices becomes sum of index*step, plus the sum of place*stride over i's places in the
// axes of box. An index counts from the end of its axis where it is negative, but for strict ones. One that is outside
// counts as 0; bad becomes the complement of the smallest position of such an index.
struct offsets_args {
	const void *at;
	i64 *to;
	u32 *bad;
	i64 n;
	i32 depth;
	u32 strict;
	axes box;
	i64 stride[MOVE_DIMS], dims[MOVE_DIMS], steps[MOVE_DIMS];
};

template <typename I> DEV inline void offsets_loop(const offsets_args &a) {
	const I *at = (const I *)a.at;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 sum = 0;
		walk(a.box, i, a.n, [&](int d, i64 r) { sum += r * a.stride[d]; });
		UNROLL
		for (int k = 0; k < MOVE_DIMS; k++) {
			if (k >= a.depth) break;
			i64 v = at[i * a.depth + k];
			v += v < 0 && !a.strict ? a.dims[k] : 0;
			if (v < 0 || v >= a.dims[k]) {
				i64 place = i * a.depth + k;
				atomic_max(a.bad, ~(u32)(place < 0xfffffffell ? place : 0xfffffffell));
				v = 0;
			}
			sum += v * a.steps[k];
		}
		a.to[i] = sum;
	}
}
KERNEL(offsets_i32, offsets_args) { offsets_loop<i32>(a); }
KERNEL(offsets_i64, offsets_args) { offsets_loop<i64>(a); }

// gather_args: element i of the n of y, which are rows of inner elements, count rows to a part, comes from x at
// part*stride + offset of the row + column. Offsets are in elements of which 2^shift are one here.
struct gather_args {
	const void *x;
	const i64 *offsets;
	void *y;
	i64 n, stride;
	u32 shift;
	axes box; // inner, count
};

template <typename E> DEV inline void gather_loop(const gather_args &a) {
	const E *x = (const E *)a.x;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		place at = place_of(a.box, i, a.n);
		((E *)a.y)[i] = x[at.part * a.stride + (a.offsets[at.row] >> a.shift) + at.col];
	}
}
SIZES(gather, gather_args, gather_loop)
