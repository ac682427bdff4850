// Norms over channels of x [N, C, D] and their gradients: sums of chunks of a channel, the numbers that follow from
// them for each channel, and the elements at last. batchnorm_TYPE.cu defines T.
#include "stats.h"

struct channels {
	i64 n, c, d;
	i64 chunks, chunk; // chunks of a channel's n*d elements
	divider by_d, by_c;
	u32 wide; // d is a multiple of a pack
};

// channel_place returns where element e of a channel lies.
DEV inline i64 channel_place(const channels &s, i64 channel, i64 e) {
	i64 plane = s.n * s.d < 1ll << 31 ? (i64)divide((u32)e, s.by_d) : e / s.d;
	return (plane * s.c + channel) * s.d + (e - plane * s.d);
}

// channel_of returns the channel of element i of x.
DEV inline i64 channel_of(const channels &s, i64 i) {
	if (s.n * s.c * s.d < 1ll << 31) {
		u32 plane = divide((u32)i, s.by_d);
		return plane - divide(plane, s.by_c) * s.by_c.d;
	}
	return i / s.d % s.c;
}

struct batchpart_args {
	const void *x, *dy;
	const void *mean; // of the gradient
	void *part;       // [channel][chunk][2]
	channels s;
	u32 mean_type;
};

#define CHUNK_THREADS 256

// batchstats makes the mean of a chunk and the sum of squares of what differs from it. A chunk is held in registers.
template <int W> DEV inline void batch_stats(const batchpart_args &a, f32 *partial) {
	const T *x = (const T *)a.x;
	for (i64 t = block_x(); t < a.s.c * a.s.chunks; t += grid_x()) {
		i64 channel = t / a.s.chunks, from = (t - channel * a.s.chunks) * a.s.chunk, left = a.s.n * a.s.d - from;
		u32 n = (u32)(left < a.s.chunk ? left : a.s.chunk);
		f32 v[HELD], sum = 0, squares = 0;
UNROLL
		for (int k = 0; k < HELD / W; k++) {
			u32 i = held<T, W>::at(k);
UNROLL
			for (int j = 0; j < W; j++) v[k * W + j] = 0;
			if (i >= n) continue;
			pack<T, W> p = *(const pack<T, W> *)(x + channel_place(a.s, channel, from + i));
UNROLL
			for (int j = 0; j < W; j++) sum += v[k * W + j] = load(p.v[j]);
		}
		f32 m = block_sum(sum, partial) / (f32)n;
UNROLL
		for (int j = 0; j < HELD; j++) {
			f32 d = v[j] - m;
			squares += held<T, W>::at(j / W) < n ? d * d : 0;
		}
		squares = block_sum(squares, partial);
		if (thread_x() == 0) ((f32 *)a.part)[2 * t] = m, ((f32 *)a.part)[2 * t + 1] = squares;
	}
}
KERNEL(JOIN(batchstats, T), batchpart_args) {
	SHARED(f32, partial, WARP);
	if (a.s.wide) batch_stats<vector<T>::width>(a, partial);
	else batch_stats<1>(a, partial);
}

// moments of count elements: their mean, and the sum of squares of what differs from it (Chan, Golub and LeVeque 1979).
struct moments { f32 count, m, squares; };
DEV inline void merge_moments(moments &a, const moments &b) {
	f32 n = a.count + b.count;
	if (b.count == 0) return;
	f32 d = b.m - a.m;
	a.m += d * (b.count / n);
	a.squares += b.squares + d * d * (a.count * (b.count / n));
	a.count = n;
}

struct batchchannel_args {
	const void *part, *scale, *bias, *mean, *vari;
	void *factors; // [3][channel]: y = (x-m)*a + b
	void *new_mean, *new_var, *save_mean, *save_var;
	channels s;
	f32 epsilon, momentum;
	u32 training, save_inv;
	u32 scale_type, bias_type, mean_type, vari_type, new_mean_type, new_var_type, save_mean_type, save_var_type;
};

// batchchannels has a warp for each channel.
KERNEL(JOIN(batchchannels, T), batchchannel_args) {
	f32 *factors = (f32 *)a.factors;
	for (i64 ch = team_row(); ch < a.s.c; ch += team_rows()) {
		f32 old_mean = stat(a.mean, a.mean_type, ch), old_var = stat(a.vari, a.vari_type, ch), m = old_mean,
		    v = old_var;
		f32 new_mean = m, new_var = v;
		if (a.training) {
			moments s = {0, 0, 0};
			for (i64 k = thread_x(); k < a.s.chunks; k += WARP) {
				i64 left = a.s.n * a.s.d - k * a.s.chunk;
				const f32 *p = (const f32 *)a.part + 2 * (ch * a.s.chunks + k);
				merge_moments(s, moments{(f32)(left < a.s.chunk ? left : a.s.chunk), p[0], p[1]});
			}
			for (u32 o = 1; o < WARP; o *= 2)
				merge_moments(s, moments{shuffle_xor(s.count, o), shuffle_xor(s.m, o), shuffle_xor(s.squares, o)});
			m = s.m;
			v = s.squares / (f32)(a.s.n * a.s.d);
			new_mean = old_mean * a.momentum + m * (1.0f - a.momentum);
			new_var = old_var * a.momentum + v * (1.0f - a.momentum);
		}
		if (thread_x() != 0) continue;
		f32 inv = 1.0f / square_root(v + a.epsilon);
		put_stat(a.new_mean, a.new_mean_type, ch, new_mean);
		put_stat(a.new_var, a.new_var_type, ch, new_var);
		put_stat(a.save_mean, a.save_mean_type, ch, m);
		put_stat(a.save_var, a.save_var_type, ch, a.save_inv ? inv : v);
		factors[ch] = m;
		factors[a.s.c + ch] = inv * stat(a.scale, a.scale_type, ch);
		factors[2 * a.s.c + ch] = stat(a.bias, a.bias_type, ch);
	}
}

struct batchapply_args {
	const void *x, *dy, *factors;
	void *y;
	channels s;
};

// apply_loop computes the elements of y; packs lie in one channel.
template <int W, typename F> DEV inline void apply_loop(const batchapply_args &a) {
	const f32 *f = (const f32 *)a.factors;
	i64 packs = a.s.n * a.s.c * a.s.d / W;
	for (i64 i = global_thread(); i < packs; i += global_threads()) {
		i64 ch = channel_of(a.s, i * W);
		F::template row<W>(a, i, f + ch);
	}
}
struct apply_norm {
	template <int W> DEV static void row(const batchapply_args &a, i64 i, const f32 *f) {
		f32 m = f[0], s = f[a.s.c], b = f[2 * a.s.c];
		pack<T, W> p = ((const pack<T, W> *)a.x)[i];
UNROLL
		for (int j = 0; j < W; j++) p.v[j] = store<T>(fused(load(p.v[j]) - m, s, b));
		((pack<T, W> *)a.y)[i] = p;
	}
};
KERNEL(JOIN(batchapply, T), batchapply_args) {
	if (a.s.wide) apply_loop<vector<T>::width, apply_norm>(a);
	else apply_loop<1, apply_norm>(a);
}

// batchgradsums makes the sums of dY and of dY*(x-m) of a chunk.
template <int W> DEV inline void grad_sums(const batchpart_args &a, f32 *partial) {
	const T *x = (const T *)a.x, *dy = (const T *)a.dy;
	for (i64 t = block_x(); t < a.s.c * a.s.chunks; t += grid_x()) {
		i64 channel = t / a.s.chunks, from = (t - channel * a.s.chunks) * a.s.chunk, left = a.s.n * a.s.d - from;
		u32 n = (u32)(left < a.s.chunk ? left : a.s.chunk);
		f32 m = stat(a.mean, a.mean_type, channel), db = 0, ds = 0;
UNROLL
		for (int k = 0; k < HELD / W; k++) {
			u32 i = held<T, W>::at(k);
			if (i >= n) continue;
			i64 at = channel_place(a.s, channel, from + i);
			pack<T, W> p = *(const pack<T, W> *)(x + at), q = *(const pack<T, W> *)(dy + at);
UNROLL
			for (int j = 0; j < W; j++) {
				db += load(q.v[j]);
				ds = fused(load(q.v[j]), load(p.v[j]) - m, ds);
			}
		}
		db = block_sum(db, partial);
		ds = block_sum(ds, partial);
		if (thread_x() == 0) ((f32 *)a.part)[2 * t] = db, ((f32 *)a.part)[2 * t + 1] = ds;
	}
}
KERNEL(JOIN(batchgradsums, T), batchpart_args) {
	SHARED(f32, partial, WARP);
	if (a.s.wide) grad_sums<vector<T>::width>(a, partial);
	else grad_sums<1>(a, partial);
}

struct batchgrad_args {
	const void *part, *scale, *mean, *inv;
	void *factors; // [4][channel]: dX = a*(dY + (x-m)*b) + t
	void *dscale, *dbias;
	channels s;
	u32 scale_type, mean_type, inv_type, dscale_type, dbias_type;
};

// batchgradchannels has a warp for each channel.
KERNEL(JOIN(batchgradchannels, T), batchgrad_args) {
	f32 *factors = (f32 *)a.factors;
	for (i64 ch = team_row(); ch < a.s.c; ch += team_rows()) {
		f32 db = 0, ds = 0;
		for (i64 k = thread_x(); k < a.s.chunks; k += WARP) {
			const f32 *p = (const f32 *)a.part + 2 * (ch * a.s.chunks + k);
			db += p[0];
			ds += p[1];
		}
		db = warp_sum(db);
		ds = warp_sum(ds);
		if (thread_x() != 0) continue;
		f32 inv = stat(a.inv, a.inv_type, ch), count = (f32)(a.s.n * a.s.d), s = stat(a.scale, a.scale_type, ch) * inv;
		ds *= inv;
		put_stat(a.dbias, a.dbias_type, ch, db);
		put_stat(a.dscale, a.dscale_type, ch, ds);
		factors[ch] = stat(a.mean, a.mean_type, ch);
		factors[a.s.c + ch] = s;
		factors[2 * a.s.c + ch] = -inv * ds / count;
		factors[3 * a.s.c + ch] = -s * db / count;
	}
}

struct apply_grad {
	template <int W> DEV static void row(const batchapply_args &a, i64 i, const f32 *f) {
		f32 m = f[0], s = f[a.s.c], b = f[2 * a.s.c], t = f[3 * a.s.c];
		pack<T, W> p = ((const pack<T, W> *)a.x)[i], q = ((const pack<T, W> *)a.dy)[i];
UNROLL
		for (int j = 0; j < W; j++) p.v[j] = store<T>(fused(s, fused(load(p.v[j]) - m, b, load(q.v[j])), t));
		((pack<T, W> *)a.y)[i] = p;
	}
};
KERNEL(JOIN(batchgradapply, T), batchapply_args) {
	if (a.s.wide) apply_loop<vector<T>::width, apply_grad>(a);
	else apply_loop<1, apply_grad>(a);
}
