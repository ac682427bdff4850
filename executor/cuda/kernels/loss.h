// Losses of labels [N, D] by scores [N, C, D], and their gradient by the scores. loss_TYPE.cu defines T. A label of -1
// is ignored.
#include "stats.h"
#include "bounds.h"

struct loss_args {
	const void *x;
	const void *labels, *weight;
	void *losses, *log_prob;
	i64 n, c, d;
	u32 plain; // scores are logarithms of probabilities already
	u32 weight_type, losses_type, wide;
};

DEV inline f32 label_weight(const void *weight, u32 type, i32 label) {
	return label < 0 ? 0 : weight ? stat(weight, type, label) : 1;
}

DEV inline f32 loss_of(const loss_args &a, i32 label, f32 score, f32 m, f32 s) {
	return -label_weight(a.weight, a.weight_type, label) * (score - m - s);
}

// lossrows has a team for each label, whose scores lie side by side.
template <int W> DEV inline void loss_rows(const loss_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.n; r += team_rows()) {
		i32 label = ((const i32 *)a.labels)[r];
		const T *x = (const T *)a.x + r * a.c;
		f32 m = 0, s = 0;
		if (!a.plain && (label >= 0 || a.log_prob)) {
			log_sum l = row_log_sum<T, W>(x, a.c, partial);
			m = l.m;
			s = logarithm(l.s);
		}
		if (thread_x() == 0)
			put_stat(a.losses, a.losses_type, r, label < 0 ? 0 : loss_of(a, label, load(x[label]), m, s));
		if (!a.log_prob) continue;
		for (i64 i = (i64)thread_x() * W; i < a.c; i += block_size() * W) {
			pack<T, W> p = *(const pack<T, W> *)(x + i);
UNROLL
			for (int j = 0; j < W; j++) p.v[j] = store<T>(load(p.v[j]) - m - s);
			*(pack<T, W> *)((T *)a.log_prob + r * a.c + i) = p;
		}
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(lossrows, T), loss_args)
KERNEL(JOIN(lossrows, T), loss_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) loss_rows<vector<T>::width>(a, partial);
	else loss_rows<1>(a, partial);
}

// losscolumns has a thread for each label.
KERNEL(JOIN(losscolumns, T), loss_args) {
	for (i64 t = global_thread(); t < a.n * a.d; t += global_threads()) {
		i64 sample = t / a.d, base = sample * a.c * a.d + (t - sample * a.d);
		i32 label = ((const i32 *)a.labels)[t];
		const T *x = (const T *)a.x + base;
		f32 m = 0, s = 0;
		if (!a.plain && (label >= 0 || a.log_prob)) {
			log_sum l = {-F32_INF, 0};
			for (i64 j = 0; j < a.c; j++) log_add(l, load(x[j * a.d]));
			m = l.m;
			s = m == F32_INF ? F32_NAN : logarithm(l.s);
		}
		put_stat(a.losses, a.losses_type, t, label < 0 ? 0 : loss_of(a, label, load(x[label * a.d]), m, s));
		if (!a.log_prob) continue;
		T *y = (T *)a.log_prob + base;
		for (i64 j = 0; j < a.c; j++) y[j * a.d] = store<T>(load(x[j * a.d]) - m - s);
	}
}

struct losssum_args {
	const void *losses; // f32
	const void *labels, *weight;
	void *y;       // the sum or mean of the losses
	void *weights; // f64: the sum of the labels' weights
	i64 n;
	u32 mean, weight_type, y_type;
};

// losssum is one block.
THREADS_AT_MOST(1024, JOIN(losssum, T), losssum_args)
KERNEL(JOIN(losssum, T), losssum_args) {
	SHARED(f64, partial, WARP);
	f64 s = 0, w = 0;
	for (i64 i = thread_x(); i < a.n; i += block_size()) {
		if (a.losses) s += (f64)((const f32 *)a.losses)[i];
		w += (f64)label_weight(a.weight, a.weight_type, ((const i32 *)a.labels)[i]);
	}
	s = block_sum(s, partial);
	w = block_sum(w, partial);
	if (thread_x() != 0) return;
	if (a.weights) *(f64 *)a.weights = w;
	put_stat(a.y, a.y_type, 0, (f32)(a.mean ? s / w : s));
}

struct lossgrad_args {
	const void *dy, *log_prob, *labels, *weight, *bias, *weights;
	void *dx;
	i64 n, c, d;
	u32 each; // dY has an element for each label
	u32 dy_type, weight_type, wide;
};

// factor returns what label number i's gradient is multiplied by.
DEV inline f32 factor(const lossgrad_args &a, i64 i, i32 label) {
	f32 w = label_weight(a.weight, a.weight_type, label), dy = stat(a.dy, a.dy_type, a.each ? i : 0);
	return a.weights ? (f32)((f64)dy * (f64)w / *(const f64 *)a.weights) : dy * w;
}

// grad_at returns the gradient of a class.
DEV inline f32 grad_at(f32 g, f32 log_prob, bool is_label, f32 bias) {
	f32 v = exponential(log_prob) * g;
	return (is_label ? v - g : v) + bias;
}

template <int W> DEV inline void lossgrad_rows(const lossgrad_args &a) {
	for (i64 r = team_row(); r < a.n; r += team_rows()) {
		i32 label = ((const i32 *)a.labels)[r];
		f32 g = label < 0 ? 0 : factor(a, r, label);
		const T *lp = (const T *)a.log_prob + r * a.c, *bias = (const T *)a.bias + r * a.c;
		for (i64 i = (i64)thread_x() * W; i < a.c; i += block_size() * W) {
			pack<T, W> p = *(const pack<T, W> *)(lp + i), q;
			if (a.bias) q = *(const pack<T, W> *)(bias + i);
UNROLL
			for (int j = 0; j < W; j++) {
				f32 b = a.bias ? load(q.v[j]) : 0;
				p.v[j] = store<T>(label < 0 ? b : grad_at(g, load(p.v[j]), i + j == label, b));
			}
			*(pack<T, W> *)((T *)a.dx + r * a.c + i) = p;
		}
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(lossgradrows, T), lossgrad_args)
KERNEL(JOIN(lossgradrows, T), lossgrad_args) {
	if (a.wide) lossgrad_rows<vector<T>::width>(a);
	else lossgrad_rows<1>(a);
}
KERNEL(JOIN(lossgradcolumns, T), lossgrad_args) {
	for (i64 i = global_thread(); i < a.n * a.c * a.d; i += global_threads()) {
		i64 plane = i / a.d, sample = plane / a.c, at = sample * a.d + (i - plane * a.d);
		i32 label = ((const i32 *)a.labels)[at];
		f32 b = a.bias ? load(((const T *)a.bias)[i]) : 0;
		f32 lp = load(((const T *)a.log_prob)[i]);
		((T *)a.dx)[i] = store<T>(label < 0 ? b : grad_at(factor(a, at, label), lp, plane - sample * a.c == label, b));
	}
}
