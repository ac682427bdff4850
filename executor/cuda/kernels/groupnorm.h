// Norms over groups of neighbouring channels of each sample; channels are the second dim. groupnorm_TYPE.cu defines T.
#include "stats.h"
#include "moments.h"
#include "bounds.h"

struct groupnorm_args {
	const void *x, *scale, *bias;
	void *y;
	i64 rows, n; // groups of all samples, and the elements of one
	i64 groups, width, d; // groups of a sample, channels of a group, elements of a channel
	divider by; // d
	f32 epsilon;
	u32 per_group; // scale and bias have an element for each group, not for each channel
	u32 scale_type, bias_type, wide;
};

template <int W> DEV inline void groupnorm_rows(const groupnorm_args &a, f32 *partial) {
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		const T *x = (const T *)a.x + r * a.n;
		i64 group = r % a.groups;
		f32 m = row_mean<W>(x, a.n, partial), inv = 1.0f / square_root(row_spread<W>(x, a.n, m, partial) + a.epsilon);
		for (i64 i = (i64)thread_x() * W; i < a.n; i += block_size() * W) {
			i64 channel = a.n < 1ll << 31 ? (i64)divide((u32)i, a.by) : i / a.d,
			    at = a.per_group ? group : group * a.width + channel;
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
