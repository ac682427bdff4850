// Norms over rows of n elements and their gradients. layernorm_TYPE.cu defines T, the type of the elements.
#include "stats.h"
#include "moments.h"
#include "bounds.h"

struct layernorm_args {
	const void *x, *scale, *bias;
	void *y, *mean, *inv;
	i64 rows, n;
	i64 scale_step, bias_step; // elements from a row's operand to the next one's; 0: one for all
	f32 epsilon;
	u32 simple; // no mean is subtracted
	u32 mean_type, inv_type;
	u32 wide;
};

template <int W>
DEV inline void layernorm_put(T *y, const T *x, const T *scale, const T *bias, u32 i, f32 m, f32 inv, const f32 *v) {
	pack<T, W> p, s, b;
	if (scale) s = *(const pack<T, W> *)(scale + i);
	if (bias) b = *(const pack<T, W> *)(bias + i);
	if (!v) p = *(const pack<T, W> *)(x + i);
UNROLL
	for (int j = 0; j < W; j++) {
		f32 h = ((v ? v[j] : load(p.v[j])) - m) * inv;
		h = scale ? bias ? fused(h, load(s.v[j]), load(b.v[j])) : h * load(s.v[j]) : bias ? h + load(b.v[j]) : h;
		p.v[j] = store<T>(h);
	}
	*(pack<T, W> *)(y + i) = p;
}

template <int W>
DEV inline void layernorm_held(const layernorm_args &a, i64 r, const T *scale, const T *bias, f32 *partial) {
	const u32 n = (u32)a.n;
	held<T, W> h;
	h.read((const T *)a.x + r * a.n, n, 0);
	f32 m = a.simple ? 0 : team_sum(h.sum(), partial) / (f32)n;
	f32 inv = 1.0f / square_root(team_sum(squared_deviations(h, n, m), partial) / (f32)n + a.epsilon);
	if (a.y) {
UNROLL
		for (int k = 0; k < HELD / W; k++) {
			u32 i = held<T, W>::at(k);
			if (i < n) layernorm_put<W>((T *)a.y + r * a.n, 0, scale, bias, i, m, inv, h.v + k * W);
		}
	}
	if (thread_x() == 0) put_stat(a.mean, a.mean_type, r, m), put_stat(a.inv, a.inv_type, r, inv);
}

template <int W>
DEV inline void layernorm_long(const layernorm_args &a, i64 r, const T *scale, const T *bias, f32 *partial) {
	const T *x = (const T *)a.x + r * a.n;
	f32 m = a.simple ? 0 : row_mean<W>(x, a.n, partial),
	    inv = 1.0f / square_root(row_spread<W>(x, a.n, m, partial) + a.epsilon);
	if (a.y)
		for (i64 i = (i64)thread_x() * W; i < a.n; i += block_size() * W)
			layernorm_put<W>((T *)a.y + r * a.n, x, scale, bias, (u32)i, m, inv, 0);
	if (thread_x() == 0) put_stat(a.mean, a.mean_type, r, m), put_stat(a.inv, a.inv_type, r, inv);
}

template <int W> DEV inline void layernorm_rows(const layernorm_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *scale = a.scale ? (const T *)a.scale + r * a.scale_step : 0,
		        *bias = a.bias ? (const T *)a.bias + r * a.bias_step : 0;
		if (a.n <= HELD * block_size()) layernorm_held<W>(a, r, scale, bias, partial);
		else layernorm_long<W>(a, r, scale, bias, partial);
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(layernorm, T), layernorm_args)
KERNEL(JOIN(layernorm, T), layernorm_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) layernorm_rows<vector<T>::width>(a, partial);
	else layernorm_rows<1>(a, partial);
}

// The gradient, of dY and the normed rows h: h = (x-m)*r, x*r where simple, (x-bias)/scale where there is a bias.
//
//	dX = r*(g - mean(g) - h*mean(g*h)), g = dY*scale, without mean(g) where simple
struct layernormgrad_args {
	const void *dy, *x, *scale, *bias, *mean, *inv;
	void *dx;
	void *part; // sums of dY*h and of dY: [chunk][2][n]
	i64 rows, n, chunks, chunk; // rows per chunk
	u32 simple, mean_type, inv_type, wide;
};

struct row_stats { f32 m, inv; };
DEV inline row_stats stats_of(const layernormgrad_args &a, i64 r) {
	return row_stats{a.mean ? stat(a.mean, a.mean_type, r) : 0, stat(a.inv, a.inv_type, r)};
}
DEV inline f32 normed(const layernormgrad_args &a, f32 x, i64 i, row_stats s) {
	if (a.bias) return (x - load(((const T *)a.bias)[i])) / load(((const T *)a.scale)[i]);
	return (x - s.m) * s.inv;
}

// layernormgrad_held does a row that its team can hold: dY, X and the scale are read once.
template <int W> DEV inline void layernormgrad_held(
    const layernormgrad_args &a, const T *dy, const T *x, T *dx, row_stats st, f32 *partial) {
	const u32 n = (u32)a.n;
	held<T, W> g, h, s;
	g.read(dy, n, 0);
	h.read(x, n, 0);
	s.read((const T *)a.scale, n, 0);
	f32 sg = 0, sgh = 0;
UNROLL
	for (int j = 0; j < HELD; j++) {
		u32 i = held<T, W>::at(j / W) + j % W;
		h.v[j] = i < n ? normed(a, h.v[j], i, st) : 0;
		g.v[j] *= s.v[j];
		sg += g.v[j];
		sgh = fused(g.v[j], h.v[j], sgh);
	}
	sg = a.simple ? 0 : team_sum(sg, partial) / (f32)n;
	sgh = team_sum(sgh, partial) / (f32)n;
UNROLL
	for (int j = 0; j < HELD; j++) g.v[j] = st.inv * (g.v[j] - sg - h.v[j] * sgh);
	g.write(dx, n);
}

// layernormgrad_long reads a row twice.
template <int W> DEV inline void layernormgrad_long(
    const layernormgrad_args &a, const T *dy, const T *x, T *dx, row_stats st, f32 *partial) {
	const T *scale = (const T *)a.scale;
	f32 sg = 0, sgh = 0;
	for (i64 i = (i64)thread_x() * W; i < a.n; i += block_size() * W) {
		pack<T, W> p = *(const pack<T, W> *)(dy + i), q = *(const pack<T, W> *)(x + i),
		           s = *(const pack<T, W> *)(scale + i);
		UNROLL
		for (int j = 0; j < W; j++) {
			f32 g = load(p.v[j]) * load(s.v[j]);
			sg += g;
			sgh = fused(g, normed(a, load(q.v[j]), i + j, st), sgh);
		}
	}
	sg = a.simple ? 0 : team_sum(sg, partial) / (f32)a.n;
	sgh = team_sum(sgh, partial) / (f32)a.n;
	for (i64 i = (i64)thread_x() * W; i < a.n; i += block_size() * W) {
		pack<T, W> p = *(const pack<T, W> *)(dy + i), q = *(const pack<T, W> *)(x + i),
		           s = *(const pack<T, W> *)(scale + i);
		UNROLL
		for (int j = 0; j < W; j++)
			p.v[j] = store<T>(st.inv * (load(p.v[j]) * load(s.v[j]) - sg - normed(a, load(q.v[j]), i + j, st) * sgh));
		*(pack<T, W> *)(dx + i) = p;
	}
}

// layernormgrad computes dX, a team for each row.
template <int W> DEV inline void layernormgrad_rows(const layernormgrad_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *dy = (const T *)a.dy + r * a.n, *x = (const T *)a.x + r * a.n;
		T *dx = (T *)a.dx + r * a.n;
		if (a.n <= HELD * block_size()) layernormgrad_held<W>(a, dy, x, dx, stats_of(a, r), partial);
		else layernormgrad_long<W>(a, dy, x, dx, stats_of(a, r), partial);
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(layernormgrad, T), layernormgrad_args)
KERNEL(JOIN(layernormgrad, T), layernormgrad_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) layernormgrad_rows<vector<T>::width>(a, partial);
	else layernormgrad_rows<1>(a, partial);
}

// layernormsums adds up chunks of rows for dscale and dbias: blocks of a warp of neighbouring columns times 8 rows.
// Four rows are asked for before the first is added.
KERNEL(JOIN(layernormsums, T), layernormgrad_args) {
	SHARED(f32, partial, 8 * WARP);
	const int LOADS = 4;
	i64 tiles = (a.n + WARP - 1) / WARP;
	for (i64 t = block_x(); t < tiles * a.chunks; t += grid_x()) {
		i64 chunk = t / tiles, i = (t - chunk * tiles) * WARP + thread_x(), end = (chunk + 1) * a.chunk;
		if (end > a.rows) end = a.rows;
		f32 ds = 0, db = 0;
		for (i64 r = chunk * a.chunk + thread_y(); r < end && i < a.n; r += LOADS * 8) {
			T dy[LOADS], x[LOADS];
			row_stats st[LOADS];
UNROLL
			for (int l = 0; l < LOADS; l++) {
				i64 row = r + l * 8;
				if (row >= end) break;
				dy[l] = ((const T *)a.dy)[row * a.n + i];
				x[l] = ((const T *)a.x)[row * a.n + i];
				st[l] = stats_of(a, row);
			}
UNROLL
			for (int l = 0; l < LOADS; l++) {
				if (r + l * 8 >= end) break;
				ds = fused(load(dy[l]), normed(a, load(x[l]), i, st[l]), ds);
				db += load(dy[l]);
			}
		}
		ds = tile_sum(ds, partial);
		db = tile_sum(db, partial);
		if (thread_y() != 0 || i >= a.n) continue;
		((f32 *)a.part)[chunk * 2 * a.n + i] = ds;
		((f32 *)a.part)[(chunk * 2 + 1) * a.n + i] = db;
	}
}

// UNROLL4 before a loop asks for four rounds at a time, so that four reads are under way at once.
#ifdef __clang__
#define UNROLL4 _Pragma("unroll 4")
#else
#define UNROLL4
#endif

struct layernormparts_args {
	const void *part;
	void *dscale, *dbias;
	i64 n, chunks;
};

// layernormparts adds up the chunks: a block has a warp's width of columns, and each of its warps every block_rows()-th
// chunk.
KERNEL(JOIN(layernormparts, T), layernormparts_args) {
	SHARED(f32, partial, 8 * WARP);
	const f32 *part = (const f32 *)a.part;
	for (i64 first = (i64)block_x() * WARP; first < 2 * a.n; first += (i64)grid_x() * WARP) {
		i64 i = first + thread_x();
		f32 s = 0;
		i64 end = i < 2 * a.n ? a.chunks : 0;
UNROLL4
		for (i64 k = thread_y(); k < end; k += block_rows()) s += part[k * 2 * a.n + i];
		s = tile_sum(s, partial);
		if (thread_y() != 0) continue;
		if (i < a.n && a.dscale) ((T *)a.dscale)[i] = store<T>(s);
		if (i >= a.n && i < 2 * a.n && a.dbias) ((T *)a.dbias)[i - a.n] = store<T>(s);
	}
}
