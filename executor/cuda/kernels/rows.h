// Rows of n neighbouring elements, each the work of a team of threads: a warp, of which a block has block_rows(), or a
// block.
#ifndef MEMOPT_ROWS_H
#define MEMOPT_ROWS_H
#include "elementwise.h"

// HELD is how many elements of a row a thread keeps in registers.
#define HELD 8

// team_row numbers the grid's teams; a team goes on with the row team_rows() after its own.
DEV inline i64 team_row() { return (i64)block_x() * block_rows() + thread_y(); }
DEV inline i64 team_rows() { return (i64)grid_x() * block_rows(); }

// Sums and maxima over a team, the same on each of its threads. partial has 32 elements of shared memory.
DEV inline f32 team_sum(f32 x, f32 *partial) { return block_size() == WARP ? warp_sum(x) : block_sum(x, partial); }
DEV inline f32 team_max(f32 x, f32 *partial) {
	return block_size() == WARP ? warp_max(x) : block_max(x, partial, -F32_INF);
}

// tile_sum is the sum of a column of a block of block_rows() warps, the same on each of them; the order is that of the
// warps. partial has WARP elements for each.
DEV inline f32 tile_sum(f32 x, f32 *partial) {
	barrier(); // partial may still be read
	partial[thread_y() * WARP + thread_x()] = x;
	barrier();
	f32 s = partial[thread_x()];
	for (u32 i = 1; i < block_rows(); i++) s += partial[i * WARP + thread_x()];
	return s;
}

// larger_of is the larger number, or NaN where there is one.
template <typename C> DEV inline C larger_of(C x, C z) { return x != x || x > z ? x : z; }
template <typename C> DEV inline C smaller_of(C x, C z) { return x != x || x < z ? x : z; }

// held is a thread's share of a row of up to HELD elements per thread: packs of W, as many apart as the team has
// threads. Rows of W > 1 are a multiple of W long, so that all of them begin at a multiple of a pack.
template <typename T, int W> struct held {
	f32 v[HELD];
	DEV static u32 at(int k) { return (k * block_size() + thread_x()) * W; }
	// read gets the share; elements past the end are set to other.
	DEV void read(const T *x, u32 n, f32 other) {
UNROLL
		for (int k = 0; k < HELD / W; k++) {
			u32 i = at(k);
			if (i < n) {
				pack<T, W> p = *(const pack<T, W> *)(x + i);
UNROLL
				for (int j = 0; j < W; j++) v[k * W + j] = load(p.v[j]);
			} else {
UNROLL
				for (int j = 0; j < W; j++) v[k * W + j] = other;
			}
		}
	}
	DEV void write(T *y, u32 n) const {
UNROLL
		for (int k = 0; k < HELD / W; k++) {
			u32 i = at(k);
			if (i >= n) continue;
			pack<T, W> p;
UNROLL
			for (int j = 0; j < W; j++) p.v[j] = store<T>(v[k * W + j]);
			*(pack<T, W> *)(y + i) = p;
		}
	}
	DEV f32 max() const {
		f32 m = v[0];
UNROLL
		for (int j = 1; j < HELD; j++) m = larger_of(m, v[j]);
		return m;
	}
	DEV f32 sum() const {
		f32 s = v[0];
UNROLL
		for (int j = 1; j < HELD; j++) s += v[j];
		return s;
	}
};

// log_sum is the maximum m of some elements and s, the sum of e^(x-m). Minus infinity adds 0; infinity counts
// as 1.
struct log_sum { f32 m, s; };
DEV inline f32 exp_below(f32 x, f32 m) { return x == m ? 1.0f : exponential(x - m); }
DEV inline void log_add(log_sum &a, f32 x) {
	if (x == -F32_INF) return;
	if (x > a.m) {
		a.s = a.s * exponential(a.m - x) + 1.0f;
		a.m = x;
	} else {
		a.s += exp_below(x, a.m);
	}
}
DEV inline void log_merge(log_sum &a, const log_sum &b) {
	f32 m = larger_of(a.m, b.m);
	a.s = (a.s == 0 ? 0 : a.s * exp_below(a.m, m)) + (b.s == 0 ? 0 : b.s * exp_below(b.m, m));
	a.m = m;
}
// row_log_sum returns a long row's maximum, and its sum of e^(x-m): NaN where there is infinity.
template <typename T, int W> DEV inline log_sum row_log_sum(const T *x, i64 n, f32 *partial) {
	log_sum a = {-F32_INF, 0};
	for (i64 i = (i64)thread_x() * W; i < n; i += block_size() * W) {
		pack<T, W> p = *(const pack<T, W> *)(x + i);
UNROLL
		for (int j = 0; j < W; j++) log_add(a, load(p.v[j]));
	}
	f32 m = team_max(a.m, partial);
	f32 s = team_sum(a.s == 0 ? 0 : a.s * exp_below(a.m, m), partial);
	return log_sum{m, m == F32_INF ? F32_NAN : s};
}
#endif
