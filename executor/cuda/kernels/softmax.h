// Softmaxes and their gradients along rows, or along columns of n elements that lie inner apart. softmax_TYPE.cu
// defines T.
#include "rows.h"
#include "bounds.h"

struct softmax_args {
	const void *x;  // of a gradient: dY
	const void *y0; // of a gradient: Y
	void *y;
	i64 rows, n, inner; // of columns: rows*inner of them
	u32 wide;           // rows are a multiple of a pack long
};

// COLUMN_ROWS is the most threads that share a column.
#define COLUMN_ROWS 8

// softmax_held does a row that its team can hold: one read, one write.
template <int W, bool LOG> DEV inline void softmax_held(const T *x, T *y, u32 n, f32 *partial) {
	held<T, W> h;
	h.read(x, n, -F32_INF);
	f32 m = team_max(h.max(), partial), s = 0;
	if (LOG) {
UNROLL
		for (int j = 0; j < HELD; j++) s += exponential(h.v[j] - m);
		s = logarithm(team_sum(s, partial));
UNROLL
		for (int j = 0; j < HELD; j++) h.v[j] = h.v[j] - m - s;
	} else {
UNROLL
		for (int j = 0; j < HELD; j++) s += h.v[j] = exponential(h.v[j] - m);
		s = 1.0f / team_sum(s, partial);
UNROLL
		for (int j = 0; j < HELD; j++) h.v[j] *= s;
	}
	h.write(y, n);
}

// softmax_of finishes an element: b is 1/s, or log s.
template <bool LOG> DEV inline f32 softmax_of(f32 x, f32 m, f32 b) { return LOG ? x - m - b : exponential(x - m) * b; }

// softmax_long reads a row twice.
template <int W, bool LOG> DEV inline void softmax_long(const T *x, T *y, i64 n, f32 *partial) {
	log_sum a = row_log_sum<T, W>(x, n, partial);
	f32 b = LOG ? logarithm(a.s) : 1.0f / a.s;
	for (i64 i = (i64)thread_x() * W; i < n; i += block_size() * W) {
		pack<T, W> p = *(const pack<T, W> *)(x + i);
UNROLL
		for (int j = 0; j < W; j++) p.v[j] = store<T>(softmax_of<LOG>(load(p.v[j]), a.m, b));
		*(pack<T, W> *)(y + i) = p;
	}
}

template <int W, bool LOG> DEV inline void softmax_rows(const softmax_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *x = (const T *)a.x + r * a.n;
		T *y = (T *)a.y + r * a.n;
		if (a.n <= HELD * block_size()) softmax_held<W, LOG>(x, y, (u32)a.n, partial);
		else softmax_long<W, LOG>(x, y, a.n, partial);
	}
}

// Columns: block_size() of them are a block's, and its block_rows() rows of threads share out the elements of each.
// Where there is one row a thread goes along its column alone.

// column_of returns where a column begins.
DEV inline i64 column_of(const softmax_args &a, i64 c) {
	i64 row = c / a.inner;
	return row * a.n * a.inner + (c - row * a.inner);
}

// column_merge puts together what the threads of a column have, in the order of the rows.
DEV inline log_sum column_merge(log_sum l, log_sum *partial) {
	if (block_rows() == 1) return l;
	barrier(); // partial may still be read
	partial[thread_y() * WARP + thread_x()] = l;
	barrier();
	l = partial[thread_x()];
	for (u32 i = 1; i < block_rows(); i++) log_merge(l, partial[i * WARP + thread_x()]);
	return l;
}

template <bool LOG> DEV inline void softmax_columns(const softmax_args &a) {
	SHARED(log_sum, partial, COLUMN_ROWS * WARP);
	i64 columns = a.rows * a.inner;
	for (i64 first = (i64)block_x() * block_size(); first < columns; first += global_threads()) {
		i64 c = first + thread_x(), end = c < columns ? a.n : 0, base = column_of(a, c);
		const T *x = (const T *)a.x + base;
		T *y = (T *)a.y + base;
		log_sum l = {-F32_INF, 0};
		for (i64 j = thread_y(); j < end; j += block_rows()) log_add(l, load(x[j * a.inner]));
		l = column_merge(l, partial);
		if (l.m == F32_INF) l.s = F32_NAN;
		f32 b = LOG ? logarithm(l.s) : 1.0f / l.s;
		for (i64 j = thread_y(); j < end; j += block_rows())
			y[j * a.inner] = store<T>(softmax_of<LOG>(load(x[j * a.inner]), l.m, b));
	}
}

// What the sum of a gradient is of, and the gradient: SoftmaxGrad y*(dy-s), LogSoftmaxGrad dy-e^y*s.
template <bool LOG> DEV inline f32 grad_part(f32 dy, f32 y) { return LOG ? dy : dy * y; }
template <bool LOG> DEV inline f32 grad_of(f32 dy, f32 y, f32 s) {
	return LOG ? dy - exponential(y) * s : y * (dy - s);
}

template <int W, bool LOG> DEV inline void grad_held(const T *dy, const T *y, T *dx, u32 n, f32 *partial) {
	held<T, W> g, h;
	g.read(dy, n, 0);
	h.read(y, n, 0);
	f32 s = 0;
UNROLL
	for (int j = 0; j < HELD; j++) s += grad_part<LOG>(g.v[j], h.v[j]);
	s = team_sum(s, partial);
UNROLL
	for (int j = 0; j < HELD; j++) g.v[j] = grad_of<LOG>(g.v[j], h.v[j], s);
	g.write(dx, n);
}

template <int W, bool LOG> DEV inline void grad_long(const T *dy, const T *y, T *dx, i64 n, f32 *partial) {
	f32 s = 0;
	for (i64 i = (i64)thread_x() * W; i < n; i += block_size() * W) {
		pack<T, W> p = *(const pack<T, W> *)(dy + i), q = *(const pack<T, W> *)(y + i);
UNROLL
		for (int j = 0; j < W; j++) s += grad_part<LOG>(load(p.v[j]), load(q.v[j]));
	}
	s = team_sum(s, partial);
	for (i64 i = (i64)thread_x() * W; i < n; i += block_size() * W) {
		pack<T, W> p = *(const pack<T, W> *)(dy + i), q = *(const pack<T, W> *)(y + i);
UNROLL
		for (int j = 0; j < W; j++) p.v[j] = store<T>(grad_of<LOG>(load(p.v[j]), load(q.v[j]), s));
		*(pack<T, W> *)(dx + i) = p;
	}
}

template <int W, bool LOG> DEV inline void grad_rows(const softmax_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *dy = (const T *)a.x + r * a.n, *y = (const T *)a.y0 + r * a.n;
		T *dx = (T *)a.y + r * a.n;
		if (a.n <= HELD * block_size()) grad_held<W, LOG>(dy, y, dx, (u32)a.n, partial);
		else grad_long<W, LOG>(dy, y, dx, a.n, partial);
	}
}

template <bool LOG> DEV inline void grad_columns(const softmax_args &a) {
	SHARED(f32, partial, COLUMN_ROWS * WARP);
	i64 columns = a.rows * a.inner;
	for (i64 first = (i64)block_x() * block_size(); first < columns; first += global_threads()) {
		i64 c = first + thread_x(), end = c < columns ? a.n : 0, base = column_of(a, c);
		const T *dy = (const T *)a.x + base, *y = (const T *)a.y0 + base;
		T *dx = (T *)a.y + base;
		f32 s = 0;
		for (i64 j = thread_y(); j < end; j += block_rows())
			s += grad_part<LOG>(load(dy[j * a.inner]), load(y[j * a.inner]));
		if (block_rows() > 1) s = tile_sum(s, partial);
		for (i64 j = thread_y(); j < end; j += block_rows())
			dx[j * a.inner] = store<T>(grad_of<LOG>(load(dy[j * a.inner]), load(y[j * a.inner]), s));
	}
}

#define SOFTMAX(name, by_rows, by_columns, log)                                       \
	THREADS_AT_MOST(TEAM_THREADS, JOIN(name, T), softmax_args)                     \
	KERNEL(JOIN(name, T), softmax_args) {                                        \
		SHARED(f32, partial, WARP);                                              \
		if (a.wide) by_rows<vector<T>::width, log>(a, partial);                   \
		else by_rows<1, log>(a, partial);                                         \
	}                                                                            \
	KERNEL(JOIN(name##columns, T), softmax_args) { by_columns<log>(a); }

SOFTMAX(softmax, softmax_rows, softmax_columns, false)
SOFTMAX(logsoftmax, softmax_rows, softmax_columns, true)
SOFTMAX(softmaxgrad, grad_rows, grad_columns, false)
SOFTMAX(logsoftmaxgrad, grad_rows, grad_columns, true)
