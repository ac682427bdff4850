// Sum, Mean, Max and Min of up to 16 operands of the same shape, in one pass: folded from the first to the last in the
// type that elements are computed in, and rounded once. variadic_TYPE.cu defines T and includes this.
#include "elementwise.h"

#define MAX_OPERANDS 16

struct variadic_args {
	const void *in[MAX_OPERANDS];
	void *y;
	i64 n;
	i32 count;
	f32 scale; // of the result; 1 for all but Mean
};

template <typename F> DEV inline void variadic_loop(const variadic_args &a) {
	typedef typename compute<T>::type C;
	const int W = vector<T>::width;
	T *y = (T *)a.y;
	i64 packs = a.n / W, step = global_threads();
	for (i64 i = global_thread(); i < packs; i += step) {
		C sum[W];
		pack<T, W> p = ((const pack<T, W> *)a.in[0])[i];
		UNROLL
		for (int j = 0; j < W; j++) sum[j] = load(p.v[j]);
		for (int k = 1; k < a.count; k++) {
			p = ((const pack<T, W> *)a.in[k])[i];
			UNROLL
			for (int j = 0; j < W; j++) sum[j] = F::of(sum[j], (C)load(p.v[j]));
		}
		UNROLL
		for (int j = 0; j < W; j++) p.v[j] = store<T>(a.scale == 1.0f ? sum[j] : (C)(sum[j] * a.scale));
		((pack<T, W> *)y)[i] = p;
	}
	for (i64 i = packs * W + global_thread(); i < a.n; i += step) {
		C sum = load(((const T *)a.in[0])[i]);
		for (int k = 1; k < a.count; k++) sum = F::of(sum, (C)load(((const T *)a.in[k])[i]));
		y[i] = store<T>(a.scale == 1.0f ? sum : (C)(sum * a.scale));
	}
}

struct variadic_sum { template <typename C> DEV static C of(C x, C z) { return x + z; } };
struct variadic_max { template <typename C> DEV static C of(C x, C z) { return x != x || x > z ? x : z; } };
struct variadic_min { template <typename C> DEV static C of(C x, C z) { return x != x || x < z ? x : z; } };

KERNEL(JOIN(fold_sum, T), variadic_args) { variadic_loop<variadic_sum>(a); }
KERNEL(JOIN(fold_max, T), variadic_args) { variadic_loop<variadic_max>(a); }
KERNEL(JOIN(fold_min, T), variadic_args) { variadic_loop<variadic_min>(a); }
