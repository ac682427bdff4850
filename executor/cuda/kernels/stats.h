// Statistics and other operands of one element per row or channel, whose type may differ from that of the elements.
#ifndef MEMOPT_STATS_H
#define MEMOPT_STATS_H
#include "rows.h"

enum { STAT_F32, STAT_F16, STAT_BF16 };

DEV inline f32 stat(const void *p, u32 type, i64 i) {
	if (type == STAT_F32) return ((const f32 *)p)[i];
	return type == STAT_F16 ? load(((const f16 *)p)[i]) : load(((const bf16 *)p)[i]);
}

// put_stat writes a statistic, unless nobody wants it.
DEV inline void put_stat(void *p, u32 type, i64 i, f32 v) {
	if (!p) return;
	if (type == STAT_F32) ((f32 *)p)[i] = v;
	else if (type == STAT_F16) ((f16 *)p)[i] = store<f16>(v);
	else ((bf16 *)p)[i] = store<bf16>(v);
}

// squared_deviations adds up the squares of a thread's share of a row of n elements, less m.
template <typename E, int W> DEV inline f32 squared_deviations(const held<E, W> &h, u32 n, f32 m) {
	f32 v = 0;
UNROLL
	for (int j = 0; j < HELD; j++) {
		f32 d = h.v[j] - m;
		v += held<E, W>::at(j / W) < n ? d * d : 0;
	}
	return v;
}
#endif
