// What every kernel includes: names for threads, blocks, barriers and half types that mean the same on
// the device (CUDA C without any toolkit, compiled to PTX by clang) and on the host (plain C++ with MEMOPT_HOST
// defined, where host.h runs the threads of a block one after the other).
//
// A kernel takes one struct by value:
//
//	struct fill_args { float *y; i64 n; float value; };
//	KERNEL(fill, fill_args) {
//		for (i64 i = global_thread(); i < a.n; i += global_threads()) a.y[i] = a.value;
//	}
//
// Pointers are members of that struct and never lie in memory. The Go side packs the members in order.
#ifndef MEMOPT_H
#define MEMOPT_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "integers have the wanted sizes");

#define WARP 32

// UNROLL before a loop asks for it to be unrolled.
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

#ifdef MEMOPT_HOST
#include "host.h"
#else
#include "device.h"
#endif

// global_thread numbers the threads of the grid's first dimension.
DEV inline i64 global_thread() { return (i64)block_x() * block_size() + thread_x(); }
DEV inline i64 global_threads() { return (i64)grid_x() * block_size(); }

// bits_of and from_bits take a float for an integer of the same bits and back.
DEV inline u32 bits_of(f32 x) { return __builtin_bit_cast(u32, x); }
DEV inline f32 from_bits(u32 x) { return __builtin_bit_cast(f32, x); }
DEV inline u64 bits_of(f64 x) { return __builtin_bit_cast(u64, x); }
DEV inline f64 from_bits64(u64 x) { return __builtin_bit_cast(f64, x); }

// f16 and bf16 are storage only: kernels compute in f32.
struct f16 { u16 bits; };
struct bf16 { u16 bits; };

#define F32_INF from_bits(0x7f800000u)
#define F32_NAN from_bits(0x7fc00000u)

DEV inline f32 load(f32 x) { return x; }
DEV inline f32 load(bf16 x) { return from_bits((u32)x.bits << 16); }
DEV inline f32 load(f16 x) { return half_to_float(x.bits); }
DEV inline f64 load(f64 x) { return x; }
DEV inline i64 load(i64 x) { return x; }
DEV inline i32 load(i32 x) { return x; }
DEV inline u8 load(u8 x) { return x; }

// store<T> rounds to nearest, ties to even.
template <typename T> struct storer { template <typename V> DEV static T of(V x) { return (T)x; } };
template <> struct storer<f16> { DEV static f16 of(f32 x) { return f16{float_to_half(x)}; } };
template <> struct storer<bf16> {
	DEV static bf16 of(f32 x) {
		u32 u = bits_of(x);
		if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{(u16)(u >> 16 | 0x40u)};
		return bf16{(u16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
	}
};
template <typename T, typename V> DEV inline T store(V x) { return storer<T>::of(x); }

// compute<T>::type is the type in which elements of a type are computed.
template <typename T> struct compute { typedef T type; };
template <> struct compute<f16> { typedef f32 type; };
template <> struct compute<bf16> { typedef f32 type; };

// pack is N elements that are read and written in one access.
template <typename T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };

// Elements of one access: 16 bytes, or 4 elements of the smaller types, so that unrolled code stays small.
template <typename T> struct vector { static const int width = sizeof(T) > 4 ? 16 / sizeof(T) : 4; };

// aligned16 reports whether an address is a multiple of 16.
DEV inline bool aligned16(const void *p) { return ((u64)p & 15) == 0; }

// divider divides by a constant: q = (mulhi(n, mul) + n) >> shift for n < 2^31 (Granlund and Montgomery 1994, section
// 4). The Go side makes it: divider.go.
struct divider { u32 d, mul, shift; };
DEV inline u32 divide(u32 n, const divider &by) { return (u32)(((u64)n * by.mul >> 32) + n) >> by.shift; }

// Sums over a warp and over a block of up to 1024 threads, the same on every thread; the order of additions is fixed.
template <typename T> DEV inline T warp_sum(T x) {
	for (int o = WARP / 2; o > 0; o >>= 1) x += shuffle_xor(x, o);
	return x;
}
template <typename T> DEV inline T warp_max(T x) {
	for (int o = WARP / 2; o > 0; o >>= 1) {
		T y = shuffle_xor(x, o);
		x = y > x || y != y ? y : x;
	}
	return x;
}

// block_sum needs block sizes that are multiples of a warp; partial has 32 elements of shared memory.
template <typename T> DEV inline T block_sum(T x, T *partial) {
	u32 lane = thread_x() % WARP, warp = thread_x() / WARP, warps = block_size() / WARP;
	x = warp_sum(x);
	barrier(); // partial may still be read
	if (lane == 0) partial[warp] = x;
	barrier();
	return warp_sum(lane < warps ? partial[lane] : (T)0);
}
template <typename T> DEV inline T block_max(T x, T *partial, T least) {
	u32 lane = thread_x() % WARP, warp = thread_x() / WARP, warps = block_size() / WARP;
	x = warp_max(x);
	barrier();
	if (lane == 0) partial[warp] = x;
	barrier();
	return warp_max(lane < warps ? partial[lane] : least);
}

#include "functions.h"
#endif
