// Norms over groups of neighbouring channels where channels are the last dim. groupnormlast_TYPE.cu defines T.
#include "stats.h"

struct groupnormlast_args {
	const void *x, *scale, *bias;
	void *y;
	i64 rows, n; // groups of all samples, and the elements of one
	i64 groups, width, places; // groups of a sample, channels of a group, places of a sample
	divider by_width;
	f32 epsilon;
	u32 swish; // y*sigmoid(y) follows
	u32 scale_type, bias_type, wide;
};

// place_of returns the place of element i of a group: channels that other groups have lie between places.
DEV inline i64 place_of(const groupnormlast_args &a, i64 i) { return a.n < 1ll << 31 ? (i64)divide((u32)i, a.by_width) : i / a.width; }

template <int W> DEV inline void groupnormlast_rows(const groupnormlast_args &a, f32 *partial) {
	const i64 from = (i64)thread_x() * W, step = (i64)block_size() * W;
	for (i64 r = team_row(); r < a.rows; r += team_rows()) {
		i64 sample = r / a.groups, gap = (a.groups - 1) * a.width, first = (r - sample * a.groups) * a.width, base = sample * a.places * a.groups * a.width + first;
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
				p.v[j] = store<T>(a.swish ? y * sigmoid(y) : y);
			}
			*(pack<T, W> *)((T *)a.y + base + at) = p;
		}
	}
}
KERNEL(JOIN(groupnormlast, T), groupnormlast_args) {
	SHARED(f32, partial, WARP);
	if (a.wide) groupnormlast_rows<vector<T>::width>(a, partial);
	else groupnormlast_rows<1>(a, partial);
}
