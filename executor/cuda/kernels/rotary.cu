// Rotary embeddings: pairs of elements of each head are turned by the angles of its position.
#include "elementwise.h"

// rotary_args: heads lie as [batch, outer, inner, size], where positions are the inner axis, or, where packed, the
// outer one.
struct rotary_args {
	const void *x, *cos, *sin;
	const i64 *positions; // rows of the angles: [batch, seq]; null: angles lie by batch entry and position
	void *y;
	i64 n;               // pairs, and elements that stay, of all heads
	i64 size, half, seq; // elements of a head, its pairs, positions
	i64 first, batch_step, seq_step; // of angles, without positions
	divider by_items, by_inner, by_outer; // items: pairs and elements that stay of a head
	u32 packed, interleaved;
};

template <typename T> DEV inline void rotary(const rotary_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row, out, batch;
		if (a.n < 1ll << 31)
			row = divide((u32)i, a.by_items), out = divide((u32)row, a.by_inner), batch = divide((u32)out, a.by_outer);
		else row = i / a.by_items.d, out = row / a.by_inner.d, batch = out / a.by_outer.d;
		i64 j = i - row * a.by_items.d, s = a.packed ? out - batch * a.by_outer.d : row - out * a.by_inner.d;
		const T *x = (const T *)a.x + row * a.size;
		T *y = (T *)a.y + row * a.size;
		if (j >= a.half) {
			y[j + a.half] = x[j + a.half];
			continue;
		}
		i64 at = a.first + batch * a.batch_step + s * a.seq_step;
		if (a.positions) at = a.positions[batch * a.seq + s] * a.half;
		f32 c = load(((const T *)a.cos)[at + j]), d = load(((const T *)a.sin)[at + j]);
		if (a.interleaved) {
			f32 u = load(x[2 * j]), v = load(x[2 * j + 1]);
			y[2 * j] = store<T>(u * c - v * d);
			y[2 * j + 1] = store<T>(u * d + v * c);
		} else {
			f32 u = load(x[j]), v = load(x[j + a.half]);
			y[j] = store<T>(u * c - v * d);
			y[j + a.half] = store<T>(u * d + v * c);
		}
	}
}
KERNEL(rotary_f32, rotary_args) { rotary<f32>(a); }
KERNEL(rotary_f16, rotary_args) { rotary<f16>(a); }
KERNEL(rotary_bf16, rotary_args) { rotary<bf16>(a); }
