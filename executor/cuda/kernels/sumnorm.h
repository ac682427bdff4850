// Norms of sums of rows: SkipLayerNormalization, its simplified form, and EmbedLayerNormalization. One pass reads the addends and
// writes the sum and its norm, where an addition and a norm of their own would write the sum and read it again.
// sumnorm_TYPE.cu defines T.
#include "stats.h"
#include "bounds.h"

// Row r of the sum is the sum of row places[k][r % period[k]] of in[k], or of row r % period[k] where places[k] is null.
struct sumnorm_args {
	const void *in[3]; // null where left out, but for the first
	const i32 *places[3];
	const void *scale, *shift;
	void *y, *mean, *inv, *sum; // each may be null
	i64 rows, n;
	i64 period[3];
	f32 epsilon;
	u32 simple; // no mean is subtracted
	u32 mean_type, inv_type, wide;
};

// sum_rows are the rows that are added up.
struct sum_rows { const T *in[3]; };

DEV inline sum_rows rows_of_sum(const sumnorm_args &a, i64 r) {
	sum_rows s;
UNROLL
	for (int k = 0; k < 3; k++) {
		i64 at = r % a.period[k];
		if (a.places[k]) at = a.places[k][at];
		s.in[k] = a.in[k] ? (const T *)a.in[k] + at * a.n : 0;
	}
	return s;
}

template <int W> DEV inline void add_rows(const sum_rows &s, i64 i, f32 *v) {
UNROLL
	for (int k = 0; k < 3; k++) {
		if (!s.in[k]) continue;
		pack<T, W> p = *(const pack<T, W> *)(s.in[k] + i);
UNROLL
		for (int j = 0; j < W; j++) v[j] = k == 0 ? load(p.v[j]) : v[j] + load(p.v[j]);
	}
}

// sumnorm_put writes W elements of the norm and of the sum.
template <int W> DEV inline void sumnorm_put(const sumnorm_args &a, i64 r, i64 i, const f32 *v, f32 m, f32 inv) {
	pack<T, W> s, b, y, sum;
	s = *(const pack<T, W> *)((const T *)a.scale + i);
	if (a.shift) b = *(const pack<T, W> *)((const T *)a.shift + i);
UNROLL
	for (int j = 0; j < W; j++) {
		f32 h = (v[j] - m) * inv;
		y.v[j] = store<T>(a.shift ? fused(h, load(s.v[j]), load(b.v[j])) : h * load(s.v[j]));
		sum.v[j] = store<T>(v[j]);
	}
	if (a.y) *(pack<T, W> *)((T *)a.y + r * a.n + i) = y;
	if (a.sum) *(pack<T, W> *)((T *)a.sum + r * a.n + i) = sum;
}

template <int W> DEV inline void sumnorm_held(const sumnorm_args &a, i64 r, f32 *partial) {
	const u32 n = (u32)a.n;
	const sum_rows s = rows_of_sum(a, r);
	held<T, W> h;
UNROLL
	for (int k = 0; k < HELD / W; k++) {
		u32 i = held<T, W>::at(k);
UNROLL
		for (int j = 0; j < W; j++) h.v[k * W + j] = 0;
		if (i < n) add_rows<W>(s, i, h.v + k * W);
	}
	f32 m = a.simple ? 0 : team_sum(h.sum(), partial) / (f32)n;
	f32 inv = 1.0f / square_root(team_sum(squared_deviations(h, n, m), partial) / (f32)n + a.epsilon);
UNROLL
	for (int k = 0; k < HELD / W; k++) {
		u32 i = held<T, W>::at(k);
		if (i < n) sumnorm_put<W>(a, r, i, h.v + k * W, m, inv);
	}
	if (thread_x() == 0) put_stat(a.mean, a.mean_type, r, m), put_stat(a.inv, a.inv_type, r, inv);
}

// sumnorm_long adds the rows up anew in every pass: registers hold no row of this length.
template <int W> DEV inline void sumnorm_long(const sumnorm_args &a, i64 r, f32 *partial) {
	const sum_rows s = rows_of_sum(a, r);
	f32 m = 0, v = 0, at[W];
	const i64 first = (i64)thread_x() * W, step = (i64)block_size() * W;
	if (!a.simple) {
		for (i64 i = first; i < a.n; i += step) {
			add_rows<W>(s, i, at);
UNROLL
			for (int j = 0; j < W; j++) m += at[j];
		}
		m = team_sum(m, partial) / (f32)a.n;
	}
	for (i64 i = first; i < a.n; i += step) {
		add_rows<W>(s, i, at);
UNROLL
		for (int j = 0; j < W; j++) v += (at[j] - m) * (at[j] - m);
	}
	f32 inv = 1.0f / square_root(team_sum(v, partial) / (f32)a.n + a.epsilon);
	for (i64 i = first; i < a.n; i += step) {
		add_rows<W>(s, i, at);
		sumnorm_put<W>(a, r, i, at, m, inv);
	}
	if (thread_x() == 0) put_stat(a.mean, a.mean_type, r, m), put_stat(a.inv, a.inv_type, r, inv);
}

template <int W> DEV inline void sumnorm_rows(const sumnorm_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		if (a.n <= HELD * block_size()) sumnorm_held<W>(a, r, partial);
		else sumnorm_long<W>(a, r, partial);
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(sumnorm, T), sumnorm_args)
KERNEL(JOIN(sumnorm, T), sumnorm_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) sumnorm_rows<vector<T>::width>(a, partial);
	else sumnorm_rows<1>(a, partial);
}
