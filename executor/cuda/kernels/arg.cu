// The place of the largest or smallest element along an axis: arg_TYPE along rows, argcolumns_TYPE where elements lie
// inner apart. NaN wins over numbers; of equals the first wins, or the last.
#include "rows.h"

struct arg_args {
	const void *x;
	void *y;
	i64 rows, n, inner; // of columns: rows*inner of them
	u32 less, last;
};

template <typename C> struct choice {
	C v;
	i64 at; // -1: none yet
};

template <typename C> DEV inline void choose(choice<C> &a, const choice<C> &b, u32 less, u32 last) {
	if (b.at < 0) return;
	bool nan = a.v != a.v, other = b.v != b.v, better;
	if (a.at < 0) better = true;
	else if (nan || other) better = !nan || (other && (last ? b.at > a.at : b.at < a.at));
	else if (a.v == b.v) better = last ? b.at > a.at : b.at < a.at;
	else better = less ? b.v < a.v : b.v > a.v;
	if (better) a = b;
}

template <typename C> DEV inline choice<C> warp_choice(choice<C> c, u32 less, u32 last) {
	for (u32 o = WARP / 2; o > 0; o >>= 1) choose(c, choice<C>{shuffle_xor(c.v, o), shuffle_xor(c.at, o)}, less, last);
	return c;
}

template <typename X, typename C> DEV inline void arg_rows(const arg_args &a, choice<C> *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const X *x = (const X *)a.x + r * a.n;
		choice<C> c = {0, -1};
		for (i64 i = thread_x(); i < a.n; i += block_size()) choose(c, choice<C>{load(x[i]), i}, a.less, a.last);
		c = warp_choice(c, a.less, a.last);
		if (block_size() > WARP) {
			u32 lane = thread_x() % WARP, warps = block_size() / WARP;
			barrier();
			if (lane == 0) partial[thread_x() / WARP] = c;
			barrier();
			c = lane < warps ? partial[lane] : choice<C>{0, -1};
			c = warp_choice(c, a.less, a.last);
		}
		if (thread_x() == 0) ((i64 *)a.y)[r] = c.at;
	}
}

template <typename X, typename C> DEV inline void arg_columns(const arg_args &a) {
	for (i64 t = global_thread(); t < a.rows * a.inner; t += global_threads()) {
		i64 row = t / a.inner;
		const X *x = (const X *)a.x + row * a.n * a.inner + (t - row * a.inner);
		choice<C> c = {0, -1};
		for (i64 j = 0; j < a.n; j++) choose(c, choice<C>{load(x[j * a.inner]), j}, a.less, a.last);
		((i64 *)a.y)[t] = c.at;
	}
}

#define ARG(X)                                                                \
	KERNEL(arg_##X, arg_args) {                                               \
		SHARED(choice<compute<X>::type>, partial, WARP);                      \
		arg_rows<X, compute<X>::type>(a, partial);                         \
	}                                                                            \
	KERNEL(argcolumns_##X, arg_args) { arg_columns<X, compute<X>::type>(a); }

ARG(f32)
ARG(f16)
ARG(bf16)
ARG(i32)
ARG(i64)
