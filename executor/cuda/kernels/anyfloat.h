// Elementwise loops over operands of any float type: their types are numbers, those of stats.h. All threads take the
// same way at a switch, so that it costs little beside the memory access; else a kernel would be needed for each choice
// of types.
#ifndef MEMOPT_ANYFLOAT_H
#define MEMOPT_ANYFLOAT_H
#include "elementwise.h"
#include "stats.h"

// four are neighbouring elements, read and written in one access.
struct four { f32 v[4]; };

template <typename T> DEV inline four load_four(const void *x, i64 i) {
	pack<T, 4> p = ((const pack<T, 4> *)x)[i];
	four f;
	UNROLL
	for (int j = 0; j < 4; j++) f.v[j] = load(p.v[j]);
	return f;
}
template <typename T> DEV inline void store_four(void *y, i64 i, const four &f) {
	pack<T, 4> p;
	UNROLL
	for (int j = 0; j < 4; j++) p.v[j] = store<T>(f.v[j]);
	((pack<T, 4> *)y)[i] = p;
}

// stat4 returns elements 4i..4i+3 of an operand that aligned16 holds for; put_stat4 stores them where the
// output is there.
DEV inline four stat4(const void *x, u32 type, i64 i) {
	switch (type) {
	case STAT_F16: return load_four<f16>(x, i);
	case STAT_BF16: return load_four<bf16>(x, i);
	}
	return load_four<f32>(x, i);
}
DEV inline void put_stat4(void *y, u32 type, i64 i, const four &f) {
	if (!y) return;
	switch (type) {
	case STAT_F16: store_four<f16>(y, i, f); return;
	case STAT_BF16: store_four<bf16>(y, i, f); return;
	}
	store_four<f32>(y, i, f);
}

// any_loop calls f.four_at(i) for elements 4i..4i+3 of n where all operands are aligned, and f.one_at(i) for each
// element of the rest.
template <typename F> DEV inline void any_loop(i64 n, bool aligned, const F &f) {
	i64 first = global_thread(), step = global_threads(), done = 0;
	if (aligned) {
		for (i64 i = first; i < n / 4; i += step) f.four_at(i);
		done = n / 4 * 4;
	}
	for (i64 i = done + first; i < n; i += step) f.one_at(i);
}
#endif
