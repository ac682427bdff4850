// Pools. pool_TYPE.cu defines T and includes this.
#include "window.h"
#include "bounds.h"

struct pool_args {
	const void *x;
	void *y, *index; // index may be null, and y of maxpool
	i64 n;
	divider by_plane; // of y
	i32 column_major; // of maxpool: indices count the axes from the first
	i32 count_pad;    // of averagepool
	i32 p;            // of lppool
	i32 finish[3];    // padding behind the input
	window w;
};

// cover is a window at one place: its taps lo..hi-1 in the input on every axis, and the elements under taps 0.
struct cover { i32 start[3], lo[3], hi[3]; };

DEV inline cover cover_of(const pool_args &a, u32 place) {
	cover c;
	i32 o[3];
	coordinates(place, a.w.by_out, o);
UNROLL
	for (int i = 0; i < 3; i++) c.start[i] = taps(a.w, i, o[i], &c.lo[i], &c.hi[i]);
	return c;
}

// each calls f with the offset in the plane of every element under a window.
template <typename F> DEV inline void each(const window &w, const cover &c, F &f) {
	for (i32 kd = c.lo[0]; kd < c.hi[0]; kd++)
		for (i32 kh = c.lo[1]; kh < c.hi[1]; kh++) {
			i32 row =
			    ((c.start[0] + kd * w.dilation[0]) * w.in[1] + c.start[1] + kh * w.dilation[1]) * w.in[2] + c.start[2];
			for (i32 kw = c.lo[2]; kw < c.hi[2]; kw++) f.add(row + kw * w.dilation[2]);
		}
}

// largest finds the first of the largest elements, NaN being largest.
struct largest {
	const T *x;
	f32 best;
	i32 at;
	DEV inline void add(i32 i) {
		f32 v = load(x[i]);
		if (v > best || at < 0 || (v != v && best == best)) best = v, at = i;
	}
};

// flat returns the index of element at of a plane, by the order in which indices count its axes.
DEV inline i64 flat(const window &w, i32 column_major, i32 at) {
	if (!column_major) return at;
	i32 c[3];
	coordinates((u32)at, w.by_in, c);
	return ((i64)c[2] * w.in[1] + c[1]) * w.in[0] + c[0];
}

KERNEL(JOIN(maxpool, T), pool_args) {
	i64 plane = volume(a.w.in);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n);
		largest f = {(const T *)a.x + row * plane, -F32_INF, -1};
		cover c = cover_of(a, (u32)(i - row * a.by_plane.d));
		each(a.w, c, f);
		if (a.y) ((T *)a.y)[i] = store<T>(f.best);
		if (a.index) ((i64 *)a.index)[i] = f.at < 0 ? -1 : row * plane + flat(a.w, a.column_major, f.at);
	}
}

struct total {
	const T *x;
	f32 sum;
	DEV inline void add(i32 i) { sum += load(x[i]); }
};

// padded counts the taps from element start of axis i on that lie in the input or its padding.
DEV inline i32 padded(const pool_args &a, int i, i32 start) {
	i32 left = a.w.in[i] + a.finish[i] - start;
	if (left <= 0) return 0;
	i32 n = (left - 1) / a.w.dilation[i] + 1;
	return n < a.w.kernel[i] ? n : a.w.kernel[i];
}

KERNEL(JOIN(averagepool, T), pool_args) {
	i64 plane = volume(a.w.in);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n);
		total f = {(const T *)a.x + row * plane, 0};
		cover c = cover_of(a, (u32)(i - row * a.by_plane.d));
		each(a.w, c, f);
		f32 count = 1;
UNROLL
		for (int j = 0; j < 3; j++) count *= (f32)(a.count_pad ? padded(a, j, c.start[j]) : c.hi[j] - c.lo[j]);
		((T *)a.y)[i] = store<T>(count > 0 ? f.sum / count : f.sum);
	}
}

// norm sums up |x|^p.
struct norm {
	i32 p;
	f32 sum;
	DEV inline void put(f32 v) {
		v = from_bits(bits_of(v) & 0x7fffffffu);
		sum += p == 1 ? v : p == 2 ? v * v : power(v, (f32)p);
	}
};

DEV inline f32 root(f32 sum, i32 p) { return p == 1 ? sum : p == 2 ? square_root(sum) : power(sum, 1.0f / (f32)p); }

struct norm_of {
	const T *x;
	norm n;
	DEV inline void add(i32 i) { n.put(load(x[i])); }
};

KERNEL(JOIN(lppool, T), pool_args) {
	i64 plane = volume(a.w.in);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n);
		norm_of f = {(const T *)a.x + row * plane, {a.p, 0}};
		cover c = cover_of(a, (u32)(i - row * a.by_plane.d));
		each(a.w, c, f);
		((T *)a.y)[i] = store<T>(root(f.n.sum, a.p));
	}
}

struct global_args {
	const void *x;
	void *y;
	i64 n, plane;
	i32 p;
};

// A block reduces one plane.
THREADS_AT_MOST(512, JOIN(globalaverage, T), global_args)
KERNEL(JOIN(globalaverage, T), global_args) {
	SHARED(f32, partial, WARP);
	for (i64 i = block_x(); i < a.n; i += grid_x()) {
		const T *x = (const T *)a.x + i * a.plane;
		f32 sum = 0;
		for (i64 j = thread_x(); j < a.plane; j += block_size()) sum += load(x[j]);
		sum = block_sum(sum, partial);
		if (thread_x() == 0) ((T *)a.y)[i] = store<T>(sum / (f32)a.plane);
	}
}

THREADS_AT_MOST(512, JOIN(globalmax, T), global_args)
KERNEL(JOIN(globalmax, T), global_args) {
	SHARED(f32, partial, WARP);
	for (i64 i = block_x(); i < a.n; i += grid_x()) {
		const T *x = (const T *)a.x + i * a.plane;
		f32 most = -F32_INF;
		for (i64 j = thread_x(); j < a.plane; j += block_size()) {
			f32 v = load(x[j]);
			if (v > most || v != v) most = v;
		}
		most = block_max(most, partial, -F32_INF);
		if (thread_x() == 0) ((T *)a.y)[i] = store<T>(most);
	}
}

THREADS_AT_MOST(512, JOIN(globallp, T), global_args)
KERNEL(JOIN(globallp, T), global_args) {
	SHARED(f32, partial, WARP);
	for (i64 i = block_x(); i < a.n; i += grid_x()) {
		const T *x = (const T *)a.x + i * a.plane;
		norm f = {a.p, 0};
		for (i64 j = thread_x(); j < a.plane; j += block_size()) f.put(load(x[j]));
		f32 sum = block_sum(f.sum, partial);
		if (thread_x() == 0) ((T *)a.y)[i] = store<T>(root(sum, a.p));
	}
}

struct unpool_args {
	const void *dy;
	const i64 *index;
	void *dx;
	i64 n;
	divider by_plane; // of dx
	i32 column_major;
	window w;
};

// maxpoolgrad: each element of dX gets dY of the places over it whose index names it, in the order of the taps.
KERNEL(JOIN(maxpoolgrad, T), unpool_args) {
	const window &w = a.w;
	i64 plane = volume(w.out);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n);
		i32 p = (i32)(i - row * a.by_plane.d), at[3];
		i64 self = row * a.by_plane.d + flat(w, a.column_major, p);
		coordinates((u32)p, w.by_in, at);
		f32 sum = 0;
		for (i32 kd = 0; kd < w.kernel[0]; kd++) {
			i32 d = place(w, 0, at[0], kd);
			for (i32 kh = 0; d >= 0 && kh < w.kernel[1]; kh++) {
				i32 h = place(w, 1, at[1], kh);
				for (i32 kw = 0; h >= 0 && kw < w.kernel[2]; kw++) {
					i32 o = place(w, 2, at[2], kw);
					if (o < 0) continue;
					i64 from = row * plane + ((i64)d * w.out[1] + h) * w.out[2] + o;
					if (a.index[from] == self) sum += load(((const T *)a.dy)[from]);
				}
			}
		}
		((T *)a.dx)[i] = store<T>(sum);
	}
}
