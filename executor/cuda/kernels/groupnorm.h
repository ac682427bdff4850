// Norms over groups of neighbouring channels of each sample: channels are the second dim (groupnorm) or the last one (groupnormlast). groupnorm_TYPE.cu defines T.
#include "stats.h"
#include "moments.h"
#include "bounds.h"

struct groupnorm_args {
	const void *x, *scale, *bias;
	void *y;
	i64 rows, n; // groups of all samples, and the elements of one
	i64 groups, width, d; // groups of a sample, channels of a group, elements of a channel
	divider by; // d, or, where channels are the last dim, width
	f32 epsilon;
	u32 option; // scale and bias have an element for each group, not for each channel; where channels are the last dim: swish follows
	u32 scale_type, bias_type, wide;
};

template <int W> DEV inline void groupnorm_rows(const groupnorm_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *x = (const T *)a.x + r * a.n;
		i64 group = r % a.groups;
		f32 m = row_mean<W>(x, a.n, partial), inv = 1.0f / square_root(row_spread<W>(x, a.n, m, partial) + a.epsilon);
		for (i64 i = (i64)thread_x() * W; i < a.n; i += block_size() * W) {
			i64 channel = a.n < 1ll << 31 ? (i64)divide((u32)i, a.by) : i / a.d, at = a.option ? group : group * a.width + channel;
			f32 s = inv * stat(a.scale, a.scale_type, at), b = stat(a.bias, a.bias_type, at);
			pack<T, W> p = *(const pack<T, W> *)(x + i);
UNROLL
			for (int j = 0; j < W; j++) p.v[j] = store<T>(fused(load(p.v[j]) - m, s, b));
			*(pack<T, W> *)((T *)a.y + r * a.n + i) = p;
		}
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(groupnorm, T), groupnorm_args)
KERNEL(JOIN(groupnorm, T), groupnorm_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) groupnorm_rows<vector<T>::width>(a, partial);
	else groupnorm_rows<1>(a, partial);
}

// place_of returns the place of element i of a group where channels are the last dim: those of other groups lie between places.
DEV inline i64 place_of(const groupnorm_args &a, i64 i) { return a.n < 1ll << 31 ? (i64)divide((u32)i, a.by) : i / a.width; }

template <int W> DEV inline void groupnormlast_rows(const groupnorm_args &a, f32 *partial) {
	const i64 from = (i64)thread_x() * W, step = (i64)block_size() * W;
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		i64 sample = r / a.groups, gap = (a.groups - 1) * a.width, first = (r - sample * a.groups) * a.width, base = sample * a.d * a.groups * a.width + first;
		const T *x = (const T *)a.x + base;
		f32 m = 0, v = 0;
		for (i64 i = from; i < a.n; i += step) {
			pack<T, W> p = *(const pack<T, W> *)(x + i + place_of(a, i) * gap);
UNROLL
			for (int j = 0; j < W; j++) m += load(p.v[j]);
		}
		m = team_sum(m, partial) / (f32)a.n;
		for (i64 i = from; i < a.n; i += step) {
			pack<T, W> p = *(const pack<T, W> *)(x + i + place_of(a, i) * gap);
UNROLL
			for (int j = 0; j < W; j++) v += (load(p.v[j]) - m) * (load(p.v[j]) - m);
		}
		f32 inv = 1.0f / square_root(team_sum(v, partial) / (f32)a.n + a.epsilon);
		for (i64 i = from; i < a.n; i += step) {
			i64 place = place_of(a, i), at = i + place * gap, channel = first + i - place * a.width;
			pack<T, W> p = *(const pack<T, W> *)(x + at);
UNROLL
			for (int j = 0; j < W; j++) {
				f32 s = stat(a.scale, a.scale_type, channel + j), b = stat(a.bias, a.bias_type, channel + j);
				f32 y = fused((load(p.v[j]) - m) * inv, s, b);
				p.v[j] = store<T>(a.option ? y * sigmoid(y) : y);
			}
			*(pack<T, W> *)((T *)a.y + base + at) = p;
		}
	}
}
THREADS_AT_MOST(TEAM_THREADS, JOIN(groupnormlast, T), groupnorm_args)
KERNEL(JOIN(groupnormlast, T), groupnorm_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) groupnormlast_rows<vector<T>::width>(a, partial);
	else groupnormlast_rows<1>(a, partial);
}
