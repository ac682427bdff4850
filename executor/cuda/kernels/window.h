// Windows that slide over planes of up to three axes: of convolutions and pools.
#ifndef MEMOPT_WINDOW_H
#define MEMOPT_WINDOW_H
#include "elementwise.h"

// window is a kernel at all its places over a plane: on every axis tap k of place o is element o*stride - begin +
// k*dilation of the input, and padding where there is none. Fewer than three axes are preceded by axes of length 1.
// Planes have fewer than 2^31 elements (window.go).
struct window {
	i32 in[3], out[3], kernel[3], stride[3], dilation[3], begin[3];
	divider by_in[2], by_out[2], by_kernel[2]; // of the last axis, and of the one before it
	divider by_stride[3];
};

DEV inline i32 volume(const i32 *d) { return d[0] * d[1] * d[2]; }

// quotient divides numbers below n.
DEV inline i64 quotient(i64 i, const divider &by, i64 n) { return n < 1ll << 31 ? (i64)divide((u32)i, by) : i / by.d; }

// at finds the coordinates of element i of a plane.
DEV inline void coordinates(u32 i, const divider *by, i32 *at) {
	u32 row = divide(i, by[0]), plane = divide(row, by[1]);
	at[2] = (i32)(i - row * by[0].d);
	at[1] = (i32)(row - plane * by[1].d);
	at[0] = (i32)plane;
}

// element returns where tap k of place o lies in a plane of the input, or -1 in padding.
DEV inline i32 element(const window &w, const i32 *o, const i32 *k) {
	i32 d = o[0] * w.stride[0] - w.begin[0] + k[0] * w.dilation[0];
	i32 h = o[1] * w.stride[1] - w.begin[1] + k[1] * w.dilation[1];
	i32 x = o[2] * w.stride[2] - w.begin[2] + k[2] * w.dilation[2];
	bool inside = (u32)d < (u32)w.in[0] && (u32)h < (u32)w.in[1] && (u32)x < (u32)w.in[2];
	return inside ? (d * w.in[1] + h) * w.in[2] + x : -1;
}

// taps finds the taps lo..hi-1 of axis i at place o that lie in the input, and the element under tap 0.
DEV inline i32 taps(const window &w, int i, i32 o, i32 *lo, i32 *hi) {
	i32 start = o * w.stride[i] - w.begin[i], d = w.dilation[i], left = w.in[i] - start;
	*lo = start < 0 ? (d - 1 - start) / d : 0;
	*hi = left <= 0 ? 0 : (w.kernel[i] - 1) * d >= left ? (left - 1) / d + 1 : w.kernel[i];
	if (*lo > *hi) *lo = *hi;
	return start;
}

// place returns the place of axis i whose tap k is element x of the input, or -1 where there is none.
DEV inline i32 place(const window &w, int i, i32 x, i32 k) {
	i32 far = x + w.begin[i] - k * w.dilation[i];
	if (far < 0) return -1;
	u32 q = divide((u32)far, w.by_stride[i]);
	return q * w.by_stride[i].d == (u32)far && q < (u32)w.out[i] ? (i32)q : -1;
}
#endif
