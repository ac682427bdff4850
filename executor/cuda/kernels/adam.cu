// A step of Adam (Kingma, Ba: Adam, a method for stochastic optimization, 2015; executor/cpu/adam.go has the formulas),
// as two kernels: the numbers that all elements share, and the elements. Scalars stay on the device.
#include "anyfloat.h"

// adam_scalars is what the first kernel hands to the second.
struct adam_scalars {
	f32 rate;
	f32 inverse; // of what gradients are divided by
	f32 a, b;    // bias corrections
	f32 root_b;
	u32 update;
};

struct adam_prepare_args {
	const void *rate, *loss_scale, *norm; // floats; the last two may be null
	const i64 *count;
	const u8 *signal; // may be null
	adam_scalars *to;
	i64 *new_count; // may be null
	u32 rate_type, scale_type, norm_type;
	f32 alpha, beta, max_norm;
	u32 correct;
};

// unbiased returns 1 - x^count.
DEV inline f32 unbiased(f32 x, i64 count) {
	if (x <= 0) return 1.0f;
	return (f32)(1.0 - exponential((f64)count * logarithm((f64)x)));
}

KERNEL(adam_prepare_any, adam_prepare_args) {
	if (global_thread() != 0) return;
	i64 count = *a.count;
	f32 scale = a.loss_scale ? stat(a.loss_scale, a.scale_type, 0) : 1.0f;
	f32 norm = a.norm ? stat(a.norm, a.norm_type, 0) : 0.0f;
	if (norm > scale * a.max_norm) scale = norm / a.max_norm;
	adam_scalars s;
	s.rate = stat(a.rate, a.rate_type, 0);
	s.inverse = 1.0f / scale;
	bool corrects = a.correct && count > 0;
	s.a = corrects ? unbiased(a.alpha, count) : 1.0f;
	s.b = corrects ? unbiased(a.beta, count) : 1.0f;
	s.root_b = square_root(s.b);
	s.update = !a.signal || *a.signal != 0;
	*a.to = s;
	if (a.new_count) *a.new_count = count + s.update;
}

struct adam_args {
	const adam_scalars *with;
	const void *w, *g, *m, *v, *h;                         // h: the weight in 16 bits, which may be null
	void *new_m, *new_v, *new_w, *new_g, *new_h;           // null where not wanted
	i64 n;
	u32 w_type, g_type, m_type, v_type, h_type;
	u32 new_m_type, new_v_type, new_w_type, new_g_type, new_h_type;
	f32 alpha, beta, lambda, epsilon;
	u32 mode;
};

// adam_element replaces one element's weight, gradient (by what is added to the weight) and moments.
DEV inline void adam_element(const adam_args &a, const adam_scalars &s, f32 &w, f32 &g, f32 &m, f32 &v) {
	f32 x = g * s.inverse;
	m = a.alpha * m + (1.0f - a.alpha) * x;
	v = a.beta * v + (1.0f - a.beta) * x * x;
	if (a.mode == 0) {
		g = -s.rate * (m / s.a / (square_root(v / s.b) + a.epsilon) + a.lambda * w);
	} else {
		f32 p = s.rate * s.root_b / s.a * m / (square_root(v) + a.epsilon);
		g = -p - s.rate * a.lambda * (w - p);
	}
	w += g;
}

struct adam_stepper {
	const adam_args &a;
	adam_scalars s;
	DEV void one_at(i64 i) const {
		f32 w = stat(a.w, a.w_type, i), g = stat(a.g, a.g_type, i);
		f32 m = stat(a.m, a.m_type, i), v = stat(a.v, a.v_type, i);
		if (s.update) adam_element(a, s, w, g, m, v);
		put_stat(a.new_m, a.new_m_type, i, m);
		put_stat(a.new_v, a.new_v_type, i, v);
		put_stat(a.new_w, a.new_w_type, i, w);
		put_stat(a.new_g, a.new_g_type, i, g);
		if (a.new_h) put_stat(a.new_h, a.new_h_type, i, s.update ? w : stat(a.h, a.h_type, i));
	}
	DEV void four_at(i64 i) const {
		four w = stat4(a.w, a.w_type, i), g = stat4(a.g, a.g_type, i);
		four m = stat4(a.m, a.m_type, i), v = stat4(a.v, a.v_type, i);
		if (s.update) {
			UNROLL
			for (int j = 0; j < 4; j++) adam_element(a, s, w.v[j], g.v[j], m.v[j], v.v[j]);
		}
		put_stat4(a.new_m, a.new_m_type, i, m);
		put_stat4(a.new_v, a.new_v_type, i, v);
		put_stat4(a.new_w, a.new_w_type, i, w);
		put_stat4(a.new_g, a.new_g_type, i, g);
		if (a.new_h) put_stat4(a.new_h, a.new_h_type, i, s.update ? w : stat4(a.h, a.h_type, i));
	}
};

KERNEL(adam_any, adam_args) {
	bool aligned = aligned16(a.w) && aligned16(a.g) && aligned16(a.m) && aligned16(a.v) && aligned16(a.h) &&
	    aligned16(a.new_m) && aligned16(a.new_v) && aligned16(a.new_w) && aligned16(a.new_g) && aligned16(a.new_h);
	any_loop(a.n, aligned, adam_stepper{a, *a.with});
}
