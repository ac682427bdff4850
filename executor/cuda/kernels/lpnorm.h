// Elements divided by their norm along an axis: rows, or columns of n elements that lie inner apart. lpnorm_TYPE.cu defines T.
#include "rows.h"
#include "bounds.h"

struct lpnorm_args {
	const void *x;
	void *y;
	u32 one; // the norm is the sum of absolute values, else the root of the sum of squares
	i64 rows, n, inner;
	u32 wide;
};

DEV inline f32 lpnorm_part(const lpnorm_args &a, f32 s, f32 x) { return a.one ? s + (x < 0 ? -x : x) : fused(x, x, s); }
DEV inline f32 lpnorm_of(const lpnorm_args &a, f32 s) { return a.one ? s : square_root(s); }
// What has norm 0 stays 0.
DEV inline f32 lpnorm_quotient(f32 x, f32 norm) { return norm == 0 ? 0 : x / norm; }

template <int W> DEV inline void lpnorm_rows(const lpnorm_args &a, f32 *partial) {
	const i64 first = (i64)thread_x() * W, step = (i64)block_size() * W;
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *x = (const T *)a.x + r * a.n;
		f32 s = 0;
		for (i64 i = first; i < a.n; i += step) {
			pack<T, W> p = *(const pack<T, W> *)(x + i);
UNROLL
			for (int j = 0; j < W; j++) s = lpnorm_part(a, s, load(p.v[j]));
		}
		s = lpnorm_of(a, team_sum(s, partial));
		for (i64 i = first; i < a.n; i += step) {
			pack<T, W> p = *(const pack<T, W> *)(x + i);
UNROLL
			for (int j = 0; j < W; j++) p.v[j] = store<T>(lpnorm_quotient(load(p.v[j]), s));
			*(pack<T, W> *)((T *)a.y + r * a.n + i) = p;
		}
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(lpnorm, T), lpnorm_args)
KERNEL(JOIN(lpnorm, T), lpnorm_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) lpnorm_rows<vector<T>::width>(a, partial);
	else lpnorm_rows<1>(a, partial);
}
KERNEL(JOIN(lpnormcolumns, T), lpnorm_args) {
	for (i64 c = global_thread(); c < a.rows * a.inner; c += global_threads()) {
		i64 row = c / a.inner, base = row * a.n * a.inner + (c - row * a.inner);
		const T *x = (const T *)a.x + base;
		T *y = (T *)a.y + base;
		f32 s = 0;
		for (i64 j = 0; j < a.n; j++) s = lpnorm_part(a, s, load(x[j * a.inner]));
		s = lpnorm_of(a, s);
		for (i64 j = 0; j < a.n; j++) y[j * a.inner] = store<T>(lpnorm_quotient(load(x[j * a.inner]), s));
	}
}
