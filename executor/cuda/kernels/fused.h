// Activations with a bias, and the gradients of activations. fused_TYPE.cu defines T and includes this.
#include "elementwise.h"

// fused_args are of y = f(x + bias), or of y = f(dy, x + bias). Either of dy and bias may be null; the bias is one row
// of width elements, which divides n.
struct fused_args {
	const void *dy, *x, *bias;
	void *y;
	i64 n, width;
	divider by; // width
	f32 alpha;
};

// column returns the place of element i in its row.
DEV inline i64 column(const fused_args &a, i64 i) {
	if (a.n < 1ll << 31) return (u32)i - divide((u32)i, a.by) * a.by.d;
	return i % a.width;
}

template <typename F> DEV inline void fused_loop(const fused_args &a) {
	const int W = vector<T>::width;
	const T *dy = (const T *)a.dy, *x = (const T *)a.x, *bias = (const T *)a.bias;
	T *y = (T *)a.y;
	i64 first = global_thread(), step = global_threads(), done = 0;
	if (aligned16(dy) && aligned16(x) && aligned16(bias) && aligned16(y) && (!bias || a.width % W == 0)) {
		i64 packs = a.n / W;
		for (i64 i = first; i < packs; i += step) {
			pack<T, W> p = ((const pack<T, W> *)x)[i], g = p, b = p, q;
			if (dy) g = ((const pack<T, W> *)dy)[i];
			if (bias) b = *(const pack<T, W> *)(bias + column(a, i * W));
UNROLL
			for (int j = 0; j < W; j++) {
				f32 at = bias ? load(p.v[j]) + load(b.v[j]) : load(p.v[j]);
				q.v[j] = store<T>(F::of(load(g.v[j]), at, a.alpha));
			}
			((pack<T, W> *)y)[i] = q;
		}
		done = packs * W;
	}
	for (i64 i = done + first; i < a.n; i += step) {
		f32 at = load(x[i]);
		if (bias) at += load(bias[column(a, i)]);
		y[i] = store<T>(F::of(dy ? load(dy[i]) : 0.0f, at, a.alpha));
	}
}

// FUSED makes kernel NAME_TYPE: expr of the gradient g, the operand x and the attribute alpha.
#define FUSED(name, expr)                                                                                 \
	struct name##_function {                                                                              \
		DEV static f32 of(f32 g, f32 x, f32 alpha) { return (void)g, (void)alpha, (expr); }               \
	};                                                                                                    \
	KERNEL(JOIN(name, T), fused_args) { fused_loop<name##_function>(a); }

// gelu_slope is the normal distribution's integral plus x times its density.
DEV inline f32 gelu_slope(f32 x) {
	return fused(0.5f, erf_of(x * 0.707106781f), 0.5f) + x * (0.398942280f * exponential(-0.5f * x * x));
}
// gelu_tanh_slope is the slope of 0.5*x*(1+tanh(v)), v = 0.797884561*(x + 0.044715*x^3).
DEV inline f32 gelu_tanh_slope(f32 x) {
	f32 t = tanh_of(0.797884561f * fused(0.044715f * x * x, x, x));
	f32 inner = fused(3 * 0.044715f * 0.797884561f * x, x, 0.797884561f);
	return fused(0.5f, t, 0.5f) + 0.5f * x * ((1 - t) * (1 + t)) * inner;
}
// swish_slope is the slope of x*sigmoid(alpha*x).
DEV inline f32 swish_slope(f32 x, f32 alpha) {
	f32 s = sigmoid(alpha * x);
	return s * (1 + alpha * x * (1 - s));
}

FUSED(biasgelu, 0.5f * x * (1.0f + erf_of(x * 0.707106781f)))
FUSED(fastgelu, 0.5f * x * (1.0f + tanh_of(0.797884561f * fused(0.044715f * x * x, x, x))))
FUSED(gelugrad, g *gelu_slope(x))
FUSED(fastgelugrad, g *gelu_tanh_slope(x))
FUSED(quickgelugrad, g *swish_slope(x, alpha))
FUSED(relugrad, x > 0 ? g : 0)
FUSED(leakyrelugrad, x > 0 ? g : g *alpha)
FUSED(sigmoidgrad, g *x *(1 - x))
FUSED(biasadd, x + g)
FUSED(tanhgrad, g *((1 - x) * (1 + x)))
