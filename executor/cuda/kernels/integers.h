// Integers of 8, 16 and 32 bits whose type is a number: INT_ below, integerType in quantize.go.
#ifndef MEMOPT_INTEGERS_H
#define MEMOPT_INTEGERS_H
#include "anyfloat.h"

enum { INT_8, UINT_8, INT_16, UINT_16, INT_32 };

DEV inline i32 integer(const void *p, u32 type, i64 i) {
	switch (type) {
	case INT_8: return ((const i8 *)p)[i];
	case UINT_8: return ((const u8 *)p)[i];
	case INT_16: return ((const i16 *)p)[i];
	case UINT_16: return ((const u16 *)p)[i];
	}
	return ((const i32 *)p)[i];
}

// zero_point is integer, or 0 where it is left out.
DEV inline i32 zero_point(const void *p, u32 type, i64 i) { return p ? integer(p, type, i) : 0; }

// bounds_of returns the least and the largest number of a type of at most 16 bits.
DEV inline void bounds_of(u32 type, i32 *least, i32 *most) {
	i32 bits = type <= UINT_8 ? 8 : 16;
	bool none = type == UINT_8 || type == UINT_16;
	*least = none ? 0 : -(1 << (bits - 1));
	*most = none ? (1 << bits) - 1 : (1 << (bits - 1)) - 1;
}

// quantized returns x rounded, halves to even, plus a zero point, as the nearest number that a type has; NaN counts as
// 0.
DEV inline i32 quantized(f32 x, i32 zero, u32 type) {
	i32 least, most;
	bounds_of(type, &least, &most);
	f32 lo = (f32)(least - zero), hi = (f32)(most - zero);
	if (x != x) x = 0;
	x = x < lo ? lo : x > hi ? hi : x;
	return (i32)to_nearest(x) + zero;
}

DEV inline void put_quantized(void *y, u32 type, i64 i, i32 v) {
	switch (type) {
	case INT_8: ((i8 *)y)[i] = (i8)v; return;
	case UINT_8: ((u8 *)y)[i] = (u8)v; return;
	case INT_16: ((i16 *)y)[i] = (i16)v; return;
	case UINT_16: ((u16 *)y)[i] = (u16)v; return;
	}
	((i32 *)y)[i] = v;
}
#endif
