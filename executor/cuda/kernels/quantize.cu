// QuantizeLinear and DequantizeLinear.
#include "integers.h"

// quantize_args: scales and zero points are one for all, or that of index a of an axis, or of index a/block. The data
// are seen as [outer, axis, inner].
struct quantize_args {
	const void *x, *scale, *zero; // zero may be null
	void *y;
	i64 n;
	i64 blocks;                  // on the axis; 0: scales are by index
	divider inner, axis, block;
	u32 one;                     // scale for all
	u32 x_type, scale_type, int_type; // x_type: the float's, or STAT_I32
};
#define STAT_I32 3

// scale_at returns which scale belongs to element i.
DEV inline i64 scale_at(const quantize_args &a, i64 i) {
	if (a.one) return 0;
	if (a.n >= 1ll << 31) {
		i64 row = i / a.inner.d, at = row % a.axis.d;
		return a.blocks ? (row / a.axis.d * a.blocks + at / a.block.d) * a.inner.d + i % a.inner.d : at;
	}
	u32 row = divide((u32)i, a.inner), outer = divide(row, a.axis), at = row - outer * a.axis.d;
	if (!a.blocks) return at;
	return ((i64)outer * a.blocks + divide(at, a.block)) * a.inner.d + ((u32)i - row * a.inner.d);
}

struct quantizer {
	const quantize_args &a;
	DEV i32 of(i64 i, f32 x) const {
		i64 k = scale_at(a, i);
		return quantized(x / stat(a.scale, a.scale_type, k), zero_point(a.zero, a.int_type, k), a.int_type);
	}
	DEV void one_at(i64 i) const {
		f32 x = a.x_type == STAT_I32 ? (f32)((const i32 *)a.x)[i] : stat(a.x, a.x_type, i);
		put_quantized(a.y, a.int_type, i, of(i, x));
	}
	// four_at is for floats.
	DEV void four_at(i64 i) const {
		four f = stat4(a.x, a.x_type, i);
		pack<u8, 4> bytes;
		pack<u16, 4> words;
		UNROLL
		for (int j = 0; j < 4; j++) {
			i32 v = of(4 * i + j, f.v[j]);
			bytes.v[j] = (u8)v, words.v[j] = (u16)v;
		}
		if (a.int_type <= UINT_8) ((pack<u8, 4> *)a.y)[i] = bytes;
		else ((pack<u16, 4> *)a.y)[i] = words;
	}
};

KERNEL(quantize_any, quantize_args) {
	any_loop(a.n, a.x_type != STAT_I32 && aligned16(a.x) && aligned16(a.y), quantizer{a});
}

struct dequantizer {
	const quantize_args &a;
	DEV f32 of(i64 i, i32 x) const {
		i64 k = scale_at(a, i);
		return (f32)(x - zero_point(a.zero, a.int_type, k)) * stat(a.scale, a.scale_type, k);
	}
	DEV void one_at(i64 i) const { put_stat(a.y, a.x_type, i, of(i, integer(a.x, a.int_type, i))); }
	// four_at is for types of at most 16 bits.
	DEV void four_at(i64 i) const {
		i32 v[4];
		if (a.int_type <= UINT_8) {
			pack<u8, 4> p = ((const pack<u8, 4> *)a.x)[i];
			UNROLL
			for (int j = 0; j < 4; j++) v[j] = a.int_type == INT_8 ? (i32)(i8)p.v[j] : (i32)p.v[j];
		} else {
			pack<u16, 4> p = ((const pack<u16, 4> *)a.x)[i];
			UNROLL
			for (int j = 0; j < 4; j++) v[j] = a.int_type == INT_16 ? (i32)(i16)p.v[j] : (i32)p.v[j];
		}
		four f;
		UNROLL
		for (int j = 0; j < 4; j++) f.v[j] = of(4 * i + j, v[j]);
		put_stat4(a.y, a.x_type, i, f);
	}
};

KERNEL(dequantize_any, quantize_args) {
	any_loop(a.n, a.int_type != INT_32 && aligned16(a.x) && aligned16(a.y), dequantizer{a});
}
