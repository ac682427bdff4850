// Running sums along an axis: cumsum_TYPE has a warp for each row of neighbouring elements, cumsumcolumns_TYPE a thread
// for each line of elements that lie inner apart.
#include "rows.h"

struct cumsum_args {
	const void *x;
	void *y;
	i64 rows, n, inner; // of columns: rows*inner of them
	u32 exclusive, reverse;
};

template <typename X, typename C> DEV inline void cumsum_rows(const cumsum_args &a) {
	u32 lane = thread_x();
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const X *x = (const X *)a.x + r * a.n;
		X *y = (X *)a.y + r * a.n;
		C before = 0;
		for (i64 from = 0; from < a.n; from += WARP) {
			i64 i = from + lane, at = a.reverse ? a.n - 1 - i : i;
			C own = i < a.n ? load(x[at]) : (C)0, s = own;
			for (u32 o = 1; o < WARP; o *= 2) {
				C lower = shuffle_up(s, o);
				if (lane >= o) s += lower;
			}
			C earlier = shuffle_up(s, 1);
			if (i < a.n) y[at] = store<X>(a.exclusive ? before + (lane > 0 ? earlier : (C)0) : before + s);
			before += shuffle_at(s, WARP - 1);
		}
	}
}

template <typename X, typename C> DEV inline void cumsum_columns(const cumsum_args &a) {
	for (i64 t = global_thread(); t < a.rows * a.inner; t += global_threads()) {
		i64 row = t / a.inner, base = row * a.n * a.inner + (t - row * a.inner);
		C s = 0;
		for (i64 j = 0; j < a.n; j++) {
			i64 at = base + (a.reverse ? a.n - 1 - j : j) * a.inner;
			C before = s;
			s += load(((const X *)a.x)[at]);
			((X *)a.y)[at] = store<X>(a.exclusive ? before : s);
		}
	}
}

#define CUMSUM(X)                                                             \
	KERNEL(cumsum_##X, cumsum_args) { cumsum_rows<X, compute<X>::type>(a); } \
	KERNEL(cumsumcolumns_##X, cumsum_args) { cumsum_columns<X, compute<X>::type>(a); }

CUMSUM(f32)
CUMSUM(f16)
CUMSUM(bf16)
CUMSUM(i32)
CUMSUM(i64)
