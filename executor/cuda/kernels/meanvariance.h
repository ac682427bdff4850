// (x-m)/(sqrt(v) + 1e-9), m and v being the mean and the variance over any axes. meanvariance_TYPE.cu defines T.
#include "rows.h"
#include "move.h"
#include "bounds.h"

// meanvariance_args: a group is made of runs runs, each of inner neighbouring elements, or, where neighbours belong to
// neighbouring groups (columns), of one element for each of inner groups.
struct meanvariance_args {
	const void *x;
	void *y;
	i64 outs; // groups, or rows of inner groups
	i64 inner, runs, count; // count: elements of a group
	axes kept;
	i64 kept_step[MOVE_DIMS];
	axes fold;
	i64 fold_step[MOVE_DIMS];
	divider by_inner;
	u32 wide;
};

DEV inline i64 kept_place(const meanvariance_args &a, i64 i) {
	i64 at = 0;
	walk(a.kept, i, a.outs, [&](int d, i64 r) { at += r * a.kept_step[d]; });
	return at;
}
DEV inline i64 run_place(const meanvariance_args &a, i64 run) {
	i64 at = 0;
	walk(a.fold, run, a.runs, [&](int d, i64 r) { at += r * a.fold_step[d]; });
	return at;
}
// element_place returns where element i of a group lies.
DEV inline i64 element_place(const meanvariance_args &a, i64 i) {
	if (a.runs == 1) return i;
	i64 run = a.count < 1ll << 31 ? (i64)divide((u32)i, a.by_inner) : i / a.inner;
	return run_place(a, run) + i - run * a.inner;
}
DEV inline f32 inverse_deviation(f32 squares, i64 count) { return 1.0f / (square_root(squares / (f32)count) + 1e-9f); }

template <int W> DEV inline void meanvariance_rows(const meanvariance_args &a, f32 *partial) {
	const i64 first = (i64)thread_x() * W, step = (i64)block_size() * W;
	for (i64 r = team_row(); r < a.outs; r += team_rows()) {
		i64 base = kept_place(a, r);
		const T *x = (const T *)a.x + base;
		f32 m = 0, v = 0;
		for (i64 i = first; i < a.count; i += step) {
			pack<T, W> p = *(const pack<T, W> *)(x + element_place(a, i));
UNROLL
			for (int j = 0; j < W; j++) m += load(p.v[j]);
		}
		m = team_sum(m, partial) / (f32)a.count;
		for (i64 i = first; i < a.count; i += step) {
			pack<T, W> p = *(const pack<T, W> *)(x + element_place(a, i));
UNROLL
			for (int j = 0; j < W; j++) v += (load(p.v[j]) - m) * (load(p.v[j]) - m);
		}
		f32 inv = inverse_deviation(team_sum(v, partial), a.count);
		for (i64 i = first; i < a.count; i += step) {
			i64 at = element_place(a, i);
			pack<T, W> p = *(const pack<T, W> *)(x + at);
UNROLL
			for (int j = 0; j < W; j++) p.v[j] = store<T>((load(p.v[j]) - m) * inv);
			*(pack<T, W> *)((T *)a.y + base + at) = p;
		}
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(meanvariance, T), meanvariance_args)
KERNEL(JOIN(meanvariance, T), meanvariance_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) meanvariance_rows<vector<T>::width>(a, partial);
	else meanvariance_rows<1>(a, partial);
}

#define TILE_ROWS 8

// column_sum adds up the sums that the rows of a block's threads have of WARP columns; each thread gets its column's.
DEV inline f32 column_sum(f32 s, f32 *partial) {
	barrier(); // partial may still be read
	partial[thread_y() * WARP + thread_x()] = s;
	barrier();
	s = 0;
	for (u32 i = 0; i < TILE_ROWS; i++) s += partial[i * WARP + thread_x()];
	return s;
}

// meanvariancecolumns has blocks of a warp times TILE_ROWS threads, for WARP neighbouring groups.
KERNEL(JOIN(meanvariancecolumns, T), meanvariance_args) {
	SHARED(f32, partial, TILE_ROWS *WARP);
	i64 tiles = (a.inner + WARP - 1) / WARP;
	for (i64 t = block_x(); t < a.outs * tiles; t += grid_x()) {
		i64 row = t / tiles, column = (t - row * tiles) * WARP + thread_x(), runs = column < a.inner ? a.runs : 0;
		i64 base = kept_place(a, row) + column;
		const T *x = (const T *)a.x + base;
		f32 m = 0, v = 0;
		for (i64 r = thread_y(); r < runs; r += TILE_ROWS) m += load(x[run_place(a, r)]);
		m = column_sum(m, partial) / (f32)a.count;
		for (i64 r = thread_y(); r < runs; r += TILE_ROWS) {
			f32 d = load(x[run_place(a, r)]) - m;
			v += d * d;
		}
		f32 inv = inverse_deviation(column_sum(v, partial), a.count);
		for (i64 r = thread_y(); r < runs; r += TILE_ROWS) {
			i64 at = run_place(a, r);
			((T *)a.y)[base + at] = store<T>((load(x[at]) - m) * inv);
		}
	}
}
