// Softmax of x + bias along rows, the bias stretched to x. biassoftmax_TYPE.cu defines T. The sum is not written: it is
// computed again in the second pass.
#include "rows.h"
#include "move.h"
#include "bounds.h"

struct biassoftmax_args {
	const void *x, *bias;
	void *y;
	i64 rows, n;
	axes lead; // of rows, with steps in the bias
	i64 lead_step[MOVE_DIMS];
	axes inner; // of elements of a row
	i64 inner_step[MOVE_DIMS];
	u32 plain; // a row of the bias lies as one of x
	u32 wide;
};

// biased loads W elements of x + bias from element i of a row on.
template <int W> DEV inline void biased(const biassoftmax_args &a, const T *x, const T *bias, i64 i, f32 *v) {
	pack<T, W> p = *(const pack<T, W> *)(x + i), b;
	if (a.plain) {
		b = *(const pack<T, W> *)(bias + i);
	} else {
UNROLL
		for (int j = 0; j < W; j++) {
			i64 at = 0;
			walk(a.inner, i + j, a.n, [&](int d, i64 r) { at += r * a.inner_step[d]; });
			b.v[j] = bias[at];
		}
	}
UNROLL
	for (int j = 0; j < W; j++) v[j] = load(p.v[j]) + load(b.v[j]);
}

template <int W> DEV inline void biassoftmax_rows(const biassoftmax_args &a, f32 *partial) {
	const i64 first = (i64)thread_x() * W, step = (i64)block_size() * W;
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *x = (const T *)a.x + r * a.n, *bias = (const T *)a.bias;
		T *y = (T *)a.y + r * a.n;
		i64 at = 0;
		walk(a.lead, r, a.rows, [&](int d, i64 i) { at += i * a.lead_step[d]; });
		bias += at;
		log_sum l = {-F32_INF, 0};
		f32 v[W];
		for (i64 i = first; i < a.n; i += step) {
			biased<W>(a, x, bias, i, v);
UNROLL
			for (int j = 0; j < W; j++) log_add(l, v[j]);
		}
		f32 m = team_max(l.m, partial), s = team_sum(l.s == 0 ? 0 : l.s * exp_below(l.m, m), partial);
		s = m == F32_INF ? F32_NAN : 1.0f / s;
		for (i64 i = first; i < a.n; i += step) {
			biased<W>(a, x, bias, i, v);
			pack<T, W> p;
UNROLL
			for (int j = 0; j < W; j++) p.v[j] = store<T>(exponential(v[j] - m) * s);
			*(pack<T, W> *)(y + i) = p;
		}
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(biassoftmax, T), biassoftmax_args)
KERNEL(JOIN(biassoftmax, T), biassoftmax_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) biassoftmax_rows<vector<T>::width>(a, partial);
	else biassoftmax_rows<1>(a, partial);
}
