// The terms of the gradients of C = A/B before sums over the axes along which an operand was stretched: dC/B, and
// -dC*A/B^2.
#include "elementwise.h"

// divgrad_loop has the operands dC, B and, where N is 3, A.
template <typename X, typename Y, int N> DEV inline void divgrad_loop(const broadcast_args &a) {
	const int W = 4;
	Y *y = (Y *)a.y;
	i64 first = global_thread(), step = global_threads(), done = 0;
	bool aligned = aligned16(y);
	UNROLL
	for (int k = 0; k < N; k++) aligned = aligned && (a.one >> k & 1 || aligned16(a.in[k]));
	if (!a.strided && aligned) {
		for (i64 i = first; i < a.n / W; i += step) {
			f32 g[W], b[W], x[W];
			fetch<X, 3, W>(a, 0, i, g);
			fetch<X, 3, W>(a, 1, i, b);
			if (N == 3) fetch<X, 3, W>(a, 2, i, x);
			pack<Y, W> q;
			UNROLL
			for (int j = 0; j < W; j++) q.v[j] = store<Y>(N == 3 ? -g[j] * (x[j] / b[j] / b[j]) : g[j] / b[j]);
			((pack<Y, W> *)y)[i] = q;
		}
		done = a.n / W * W;
	}
	for (i64 i = done + first; i < a.n; i += step) {
		i64 at[3];
		if (a.strided) places<N>(a, i, at);
		else {
			UNROLL
			for (int k = 0; k < N; k++) at[k] = a.one >> k & 1 ? 0 : i;
		}
		f32 g = load(((const X *)a.in[0])[at[0]]), b = load(((const X *)a.in[1])[at[1]]);
		y[i] = store<Y>(N == 3 ? -g * (load(((const X *)a.in[2])[at[2]]) / b / b) : g / b);
	}
}

#define DIVGRAD(from, to)                                                                 \
	KERNEL(dividend_##from##_##to, broadcast_args) { divgrad_loop<from, to, 2>(a); }      \
	KERNEL(divisor_##from##_##to, broadcast_args) { divgrad_loop<from, to, 3>(a); }
DIVGRAD(f32, f32)
DIVGRAD(f16, f16)
DIVGRAD(bf16, bf16)
DIVGRAD(f16, f32)
DIVGRAD(bf16, f32)
