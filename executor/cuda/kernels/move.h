// What kernels that move data share: elements by size, and places in strided arrays.
#ifndef MEMOPT_MOVE_H
#define MEMOPT_MOVE_H
#include "memopt.h"

#define MOVE_DIMS 8

// word16 is sixteen bytes that are read and written in one access.
typedef u32 word16 __attribute__((vector_size(16)));

// fetch4 reads four neighbours at once. As a pack they would be read one by one: the compiler takes a struct apart
// first.
template <u32 bytes> struct word_of { typedef word16 type; };
template <> struct word_of<8> { typedef u64 type; };
template <> struct word_of<32> { struct alignas(32) type { word16 v[2]; }; };
template <typename T> DEV inline pack<T, 4> fetch4(const T *x) {
	return __builtin_bit_cast(pack<T, 4>, *(const typename word_of<4 * sizeof(T)>::type *)x);
}

// multiply rounds the product, and no compiler makes one rounding of it and of a sum that it is part of: so the host's
// results come out bit by bit.
#ifdef MEMOPT_HOST
DEV inline f32 multiply(f32 x, f32 y) { return x * y; }
DEV inline f64 multiply(f64 x, f64 y) { return x * y; }
#else
DEV inline f32 multiply(f32 x, f32 y) { f32 z; asm("mul.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y)); return z; }
DEV inline f64 multiply(f64 x, f64 y) { f64 z; asm("mul.rn.f64 %0, %1, %2;" : "=d"(z) : "d"(x), "d"(y)); return z; }
#endif

// axes are up to MOVE_DIMS dims, the innermost first (boxcopy.go packs them as part of a kernel's arguments).
struct axes {
	i32 n;
	divider by[MOVE_DIMS];
};

// walk calls f(d, r) for every axis d with the index r in it of element i of total, and returns what is left of i.
template <typename F> DEV inline i64 walk(const axes &x, i64 i, i64 total, F f) {
	if (total < 1ll << 31) {
		u32 left = (u32)i;
		UNROLL
		for (int d = 0; d < MOVE_DIMS; d++) {
			if (d >= x.n) break;
			u32 q = divide(left, x.by[d]);
			f(d, (i64)(left - q * x.by[d].d));
			left = q;
		}
		return left;
	}
	UNROLL
	for (int d = 0; d < MOVE_DIMS; d++) {
		if (d >= x.n) break;
		i64 q = i / x.by[d].d;
		f(d, i - q * x.by[d].d);
		i = q;
	}
	return i;
}

// place is element i of parts of rows of columns: the first two axes are columns and rows.
struct place {
	i64 col, row, part;
};
DEV inline place place_of(const axes &x, i64 i, i64 total) {
	if (total < 1ll << 31) {
		u32 q = divide((u32)i, x.by[0]), part = divide(q, x.by[1]);
		return {(i64)((u32)i - q * x.by[0].d), (i64)(q - part * x.by[1].d), (i64)part};
	}
	i64 q = i / x.by[0].d, part = q / x.by[1].d;
	return {i - q * x.by[0].d, q - part * x.by[1].d, part};
}

// SIZES defines a kernel for elements of 1, 2, 4, 8 and 16 bytes.
#define SIZES(name, args, loop)                     \
	KERNEL(name##_1, args) { loop<u8>(a); }         \
	KERNEL(name##_2, args) { loop<u16>(a); }        \
	KERNEL(name##_4, args) { loop<u32>(a); }        \
	KERNEL(name##_8, args) { loop<u64>(a); }        \
	KERNEL(name##_16, args) { loop<word16>(a); }
#endif
