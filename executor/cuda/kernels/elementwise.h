// Loops of kernels that compute each element of the output from the elements of the operands at the same
// place, or at the place that broadcasting gives.
#ifndef MEMOPT_ELEMENTWISE_H
#define MEMOPT_ELEMENTWISE_H
#include "memopt.h"

// unary_args are of kernels with one operand; alpha and beta are the operator's attributes.
struct unary_args {
	const void *x;
	void *y;
	i64 n;
	f32 alpha, beta;
};

// unary_loop computes y[i] = F::of(x[i]) in the type that elements of X are computed in.
template <typename X, typename Y, typename F> DEV inline void unary_loop(const unary_args &a) {
	typedef typename compute<X>::type C;
	const int W = vector<X>::width < vector<Y>::width ? vector<X>::width : vector<Y>::width;
	const X *x = (const X *)a.x;
	Y *y = (Y *)a.y;
	i64 first = global_thread(), step = global_threads(), done = 0;
	if (aligned16(x) && aligned16(y)) {
		i64 packs = a.n / W;
		for (i64 i = first; i < packs; i += step) {
			pack<X, W> p = ((const pack<X, W> *)x)[i];
			pack<Y, W> q;
UNROLL
			for (int j = 0; j < W; j++) q.v[j] = store<Y>(F::template of<C>(load(p.v[j]), a.alpha, a.beta));
			((pack<Y, W> *)y)[i] = q;
		}
		done = packs * W;
	}
	for (i64 i = done + first; i < a.n; i += step) y[i] = store<Y>(F::template of<C>(load(x[i]), a.alpha, a.beta));
}

#define MAX_DIMS 8

// broadcast_args are of kernels with up to three operands that are broadcast to the output's n elements. Dims
// are the output's, the innermost first, neighbours merged where no operand tells them apart (broadcast.go).
struct broadcast_args {
	const void *in[3];
	void *y;
	i64 n;
	u32 one;     // bit i: operand i has one element
	u32 strided; // whether some operand has neither one element nor the output's shape
	i32 dims;
	divider by[MAX_DIMS];
	u32 stride[3][MAX_DIMS];
};

// places finds where the operands' elements for element i lie.
template <int N> DEV inline void places(const broadcast_args &a, i64 i, i64 *at) {
UNROLL
	for (int k = 0; k < N; k++) at[k] = 0;
	if (a.n < 1ll << 31) {
		u32 left = (u32)i;
UNROLL
		for (int d = 0; d < MAX_DIMS; d++) {
			if (d >= a.dims) break;
			u32 q = divide(left, a.by[d]), r = left - q * a.by[d].d;
UNROLL
			for (int k = 0; k < N; k++) at[k] += (i64)r * a.stride[k][d];
			left = q;
		}
		return;
	}
UNROLL
	for (int d = 0; d < MAX_DIMS; d++) {
		if (d >= a.dims) break;
		i64 q = i / a.by[d].d, r = i - q * a.by[d].d;
UNROLL
		for (int k = 0; k < N; k++) at[k] += r * a.stride[k][d];
		i = q;
	}
}

template <typename X, int N, int W>
DEV inline void fetch(const broadcast_args &a, int k, i64 i, typename compute<X>::type *out) {
	const X *x = (const X *)a.in[k];
	if (a.one >> k & 1) {
UNROLL
		for (int j = 0; j < W; j++) out[j] = load(x[0]);
		return;
	}
	pack<X, W> p = ((const pack<X, W> *)x)[i];
UNROLL
	for (int j = 0; j < W; j++) out[j] = load(p.v[j]);
}

// binary_loop computes y[i] = F::of(a, b).
template <typename X, typename Y, typename F> DEV inline void binary_loop(const broadcast_args &a) {
	typedef typename compute<X>::type C;
	const int W = vector<X>::width < vector<Y>::width ? vector<X>::width : vector<Y>::width;
	const X *x = (const X *)a.in[0], *z = (const X *)a.in[1];
	Y *y = (Y *)a.y;
	i64 first = global_thread(), step = global_threads();
	if (a.strided) {
		for (i64 i = first; i < a.n; i += step) {
			i64 at[2];
			places<2>(a, i, at);
			y[i] = store<Y>(F::template of<C>(load(x[at[0]]), load(z[at[1]])));
		}
		return;
	}
	i64 done = 0;
	if ((a.one & 1 || aligned16(x)) && (a.one & 2 || aligned16(z)) && aligned16(y)) {
		i64 packs = a.n / W;
		for (i64 i = first; i < packs; i += step) {
			C u[W], v[W];
			fetch<X, 2, W>(a, 0, i, u);
			fetch<X, 2, W>(a, 1, i, v);
			pack<Y, W> q;
UNROLL
			for (int j = 0; j < W; j++) q.v[j] = store<Y>(F::template of<C>(u[j], v[j]));
			((pack<Y, W> *)y)[i] = q;
		}
		done = packs * W;
	}
	for (i64 i = done + first; i < a.n; i += step)
		y[i] = store<Y>(F::template of<C>(load(x[a.one & 1 ? 0 : i]), load(z[a.one & 2 ? 0 : i])));
}

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)

// UNARY makes kernel NAME_TYPE for the type T: expr of x, alpha and beta. UNARY_TO has results of another type.
#define UNARY_TO(name, result, expr)                                             \
	struct name##_function {                                                     \
		template <typename C> DEV static auto of(C x, f32 alpha, f32 beta) {     \
			(void)alpha, (void)beta;                                             \
			return expr;                                                         \
		}                                                                        \
	};                                                                           \
	KERNEL(JOIN(name, T), unary_args) { unary_loop<T, result, name##_function>(a); }
#define UNARY(name, expr) UNARY_TO(name, T, (C)(expr))

// BINARY makes kernel NAME_TYPE: expr of x and z; BINARY_TO has results of another type.
#define BINARY_TO(name, result, expr)                                            \
	struct name##_function {                                                     \
		template <typename C> DEV static auto of(C x, C z) { return expr; }      \
	};                                                                           \
	KERNEL(JOIN(name, T), broadcast_args) { binary_loop<T, result, name##_function>(a); }
#define BINARY(name, expr) BINARY_TO(name, T, (C)(expr))
#endif
