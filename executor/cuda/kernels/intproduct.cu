// Products of matrices of 8-bit integers, and convolutions of such, in 32-bit integers: of differences from zero points, which have
// 9 bits, so that the devices' products of four bytes do not fit. Tiles of TILE by TILE results are summed up in shared memory.
#include "integers.h"
#include "window.h"

#define TILE 64
#define DEPTH 16

// byte_element returns an integer of 8 bits, whose type is INT_8 or UINT_8.
DEV inline i32 byte_element(const void *p, u32 type, i64 i) {
	u8 v = ((const u8 *)p)[i];
	return type == INT_8 ? (i32)(i8)v : (i32)v;
}
DEV inline i32 byte_zero(const void *p, u32 type, i64 i) { return p ? byte_element(p, type, i) : 0; }

// Zero points and scales are one for all; or one for each row of A and column of B, the same for all matrices; or those of
// matrix z begin at number z*rows of A's, z*columns of B's.
enum { EACH_NONE, EACH_LINE, EACH_MATRIX };
DEV inline i64 each_of(u32 each, i64 line, i64 first) { return each == EACH_NONE ? 0 : each == EACH_LINE ? line : first + line; }

// int_product is y = A*B for a batch of matrices A [m, k], B [k, n].
struct int_product {
	const void *a, *b, *a_zero, *b_zero; // zero points may be null
	const void *a_scale, *b_scale, *y_scale, *y_zero;
	const i32 *bias; // of each row; may be null
	void *y;
	i64 m, n, k, batch, period; // matrix z of the batch is number z mod period of A
	i64 a_step, b_step;         // elements from one matrix to the next
	i64 rows, columns;
	u32 a_type, b_type, y_type; // INT_
	u32 a_scale_type, b_scale_type, y_scale_type;
	u32 a_zero_each, b_zero_each, a_scale_each, b_scale_each;
	u32 quantizes;
};

// int_convolution has a window's columns for B: depth rows of taps of channels.
struct int_convolution {
	int_product p;
	divider by_taps;
	window w;
};

DEV inline i32 a_element(const int_product &p, i64 z, i64 row, i64 k) {
	i64 zero = each_of(p.a_zero_each, row, z * p.rows);
	return byte_element(p.a, p.a_type, z * p.a_step + row * p.k + k) - byte_zero(p.a_zero, p.a_type, zero);
}

struct matrix_columns {
	const int_product &p;
	DEV i32 of(i64 z, i64 k, i64 column) const {
		i64 zero = each_of(p.b_zero_each, column, z * p.columns);
		return byte_element(p.b, p.b_type, z * p.b_step + k * p.n + column) - byte_zero(p.b_zero, p.b_type, zero);
	}
};

struct window_columns {
	const int_convolution &c;
	DEV i32 of(i64 z, i64 k, i64 column) const {
		i32 o[3], tap[3];
		u32 channel = divide((u32)k, c.by_taps);
		coordinates((u32)column, c.w.by_out, o);
		coordinates((u32)k - channel * c.by_taps.d, c.w.by_kernel, tap);
		i32 at = element(c.w, o, tap);
		if (at < 0) return 0;
		return byte_element(c.p.b, c.p.b_type, z * c.p.b_step + (i64)channel * volume(c.w.in) + at) - byte_zero(c.p.b_zero, c.p.b_type, 0);
	}
};

// put_result stores a sum, or quantizes it.
DEV inline void put_result(const int_product &p, i64 z, i64 row, i64 column, i32 sum) {
	i64 at = (z * p.m + row) * p.n + column, first = z % p.period * p.rows;
	if (!p.quantizes) {
		((i32 *)p.y)[at] = sum;
		return;
	}
	if (p.bias) sum += p.bias[first + row];
	f32 scale = stat(p.a_scale, p.a_scale_type, each_of(p.a_scale_each, row, first));
	scale = scale * stat(p.b_scale, p.b_scale_type, each_of(p.b_scale_each, column, z * p.columns)) / stat(p.y_scale, p.y_scale_type, 0);
	((u8 *)p.y)[at] = (u8)quantized((f32)sum * scale, byte_element(p.y_zero, p.y_type, 0), p.y_type);
}

// multiply_tiles has blocks of 256 threads, each of which makes 4 by 4 results of a tile. as has DEPTH*(TILE+1) numbers, bs DEPTH*TILE.
template <typename B> DEV inline void multiply_tiles(const int_product &p, const B &b, i32 *as, i32 *bs) {
	const u32 t = thread_x(), tx = t % 16, ty = t / 16;
	i64 down = (p.m + TILE - 1) / TILE, across = (p.n + TILE - 1) / TILE;
	for (i64 tile = block_x(); tile < p.batch * down * across; tile += grid_x()) {
		i64 z = tile / (down * across), top = tile / across % down * TILE, left = tile % across * TILE;
		i32 sum[4][4] = {};
		for (i64 k = 0; k < p.k; k += DEPTH) {
			UNROLL
			for (u32 j = 0; j < 4; j++) {
				u32 e = t + 256 * j, row = e / DEPTH, depth = e % DEPTH;
				bool in = top + row < p.m && k + depth < p.k;
				as[depth * (TILE + 1) + row] = in ? a_element(p, z % p.period, top + row, k + depth) : 0;
				u32 column = e % TILE, deep = e / TILE;
				in = left + column < p.n && k + deep < p.k;
				bs[deep * TILE + column] = in ? b.of(z, k + deep, left + column) : 0;
			}
			barrier();
			for (u32 d = 0; d < DEPTH; d++) {
				UNROLL
				for (u32 i = 0; i < 4; i++) {
					UNROLL
					for (u32 j = 0; j < 4; j++) sum[i][j] += as[d * (TILE + 1) + 4 * ty + i] * bs[d * TILE + tx + 16 * j];
				}
			}
			barrier();
		}
		UNROLL
		for (u32 i = 0; i < 4; i++) {
			UNROLL
			for (u32 j = 0; j < 4; j++) {
				i64 row = top + 4 * ty + i, column = left + tx + 16 * j;
				if (row < p.m && column < p.n) put_result(p, z, row, column, sum[i][j]);
			}
		}
	}
}

KERNEL(int_matmul, int_product) {
	SHARED(i32, as, DEPTH * (TILE + 1));
	SHARED(i32, bs, DEPTH * TILE);
	multiply_tiles(a, matrix_columns{a}, as, bs);
}

KERNEL(int_conv, int_convolution) {
	SHARED(i32, as, DEPTH * (TILE + 1));
	SHARED(i32, bs, DEPTH * TILE);
	multiply_tiles(a.p, window_columns{a}, as, bs);
}
