// Conversions between element types: cast_FROM_TO. Numbers that an integer type does not have become the nearest that
// it has, NaN becomes 0; integers become narrower ones by their lower bits; numbers other than 0 become true.
#include "elementwise.h"

struct truth { u8 bits; };

// odd_float rounds to f32 so that rounding again to 16 bits gives the result of one rounding: an inexact result gets an
// odd last bit (Boldo and Melquiond 2008).
DEV inline f32 odd_float(f64 x) {
	f32 y = (f32)x;
	if ((f64)y == x || y != y) return y;
	u32 bits = bits_of(y);
	f64 size = x < 0 ? -x : x, got = (f64)(y < 0 ? -y : y);
	if (got > size) bits--;
	return from_bits(bits | 1);
}

template <typename I> DEV inline I saturated(f64 x, f64 least, f64 most, I lowest, I highest) {
	return x >= most ? highest : x > least ? (I)x : x <= least ? lowest : (I)0;
}

template <typename To> struct converter;
template <> struct converter<f32> { template <typename V> DEV static f32 of(V x) { return (f32)x; } };
template <> struct converter<f64> { template <typename V> DEV static f64 of(V x) { return (f64)x; } };
template <> struct converter<f16> {
	template <typename V> DEV static f16 of(V x) { return store<f16>(odd_float((f64)x)); }
	DEV static f16 of(f32 x) { return store<f16>(x); }
};
template <> struct converter<bf16> {
	template <typename V> DEV static bf16 of(V x) { return store<bf16>(odd_float((f64)x)); }
	DEV static bf16 of(f32 x) { return store<bf16>(x); }
};
template <> struct converter<i32> {
	template <typename V> DEV static i32 of(V x) { return (i32)x; }
	DEV static i32 of(f32 x) { return of((f64)x); }
	DEV static i32 of(f64 x) { return saturated<i32>(x, -2147483648.0, 2147483647.0, -2147483647 - 1, 2147483647); }
};
template <> struct converter<i64> {
	template <typename V> DEV static i64 of(V x) { return (i64)x; }
	DEV static i64 of(f32 x) { return of((f64)x); }
	DEV static i64 of(f64 x) {
		return saturated<i64>(
		    x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1, 9223372036854775807ll);
	}
};
template <> struct converter<truth> { template <typename V> DEV static truth of(V x) { return truth{(u8)(x != 0)}; } };

template <typename From, typename To> DEV inline void cast_loop(const unary_args &a) {
	const From *x = (const From *)a.x;
	To *y = (To *)a.y;
	const int W = vector<From>::width < vector<To>::width ? vector<From>::width : vector<To>::width;
	i64 first = global_thread(), step = global_threads(), done = 0;
	if (aligned16(x) && aligned16(y)) {
		i64 packs = a.n / W;
		for (i64 i = first; i < packs; i += step) {
			pack<From, W> p = ((const pack<From, W> *)x)[i];
			pack<To, W> q;
			UNROLL
			for (int j = 0; j < W; j++) q.v[j] = converter<To>::of(load(p.v[j]));
			((pack<To, W> *)y)[i] = q;
		}
		done = packs * W;
	}
	for (i64 i = done + first; i < a.n; i += step) y[i] = converter<To>::of(load(x[i]));
}

#define CAST(from, to) KERNEL(cast_##from##_##to, unary_args) { cast_loop<from, to>(a); }
#define CASTS(from) \
	CAST(from, f32) CAST(from, f64) CAST(from, f16) CAST(from, bf16) CAST(from, i32) CAST(from, i64) CAST(from, truth)
CASTS(f32)
CASTS(f64)
CASTS(f16)
CASTS(bf16)
CASTS(i32)
CASTS(i64)
CASTS(u8)
