// Mean and spread of a row, for norms of rows that threads do not hold.
#ifndef MEMOPT_MOMENTS_H
#define MEMOPT_MOMENTS_H
#include "rows.h"

// row_mean is the mean of the n elements of a team's row, read W at a time.
template <int W, typename E> DEV inline f32 row_mean(const E *x, i64 n, f32 *partial) {
	f32 m = 0;
	for (i64 i = (i64)thread_x() * W; i < n; i += block_size() * W) {
		pack<E, W> p = *(const pack<E, W> *)(x + i);
UNROLL
		for (int j = 0; j < W; j++) m += load(p.v[j]);
	}
	return team_sum(m, partial) / (f32)n;
}

// row_spread is the mean of the squares of their distances from m.
template <int W, typename E> DEV inline f32 row_spread(const E *x, i64 n, f32 m, f32 *partial) {
	f32 v = 0;
	for (i64 i = (i64)thread_x() * W; i < n; i += block_size() * W) {
		pack<E, W> p = *(const pack<E, W> *)(x + i);
UNROLL
		for (int j = 0; j < W; j++) {
			f32 d = load(p.v[j]) - m;
			v += d * d;
		}
	}
	return team_sum(v, partial) / (f32)n;
}
#endif
