// What convolutions compute besides products of matrices. conv_TYPE.cu defines T and includes this.
#include "columns.h"

// finish is what follows the sum: a bias per filter, a second summand and an activation (conv.go lists them).
struct finish {
	const void *bias, *z; // either may be null
	i32 act;
	f32 alpha, beta;
};

DEV inline f32 finished(const finish &f, f32 y, i64 m, i64 at) {
	if (f.bias) y += load(((const T *)f.bias)[m]);
	if (f.z) y += load(((const T *)f.z)[at]);
	switch (f.act) {
	case 1: return y != y ? y : y > 0 ? y : 0;
	case 2: return tanh_of(y);
	case 3: return sigmoid(y);
	case 4: return y < 0 ? y * f.alpha : y;
	case 5: return y != y ? y : y < f.alpha ? f.alpha : y > f.beta ? f.beta : y;
	case 6: y = fused(f.alpha, y, f.beta); return y != y ? y : y < 0 ? 0 : y > 1 ? 1 : y;
	}
	return y;
}

struct finish_args {
	const void *x; // sums; y itself, or rows of several images
	const void *bias, *z;
	void *y;
	i64 n;
	i64 image_x, row_x;
	divider by_plane, by_rows;
	i32 act;
	f32 alpha, beta;
};

// finish_some finishes packs of W elements of a row.
template <int W> DEV inline void finish_some(const finish_args &a) {
	const T *x = (const T *)a.x;
	finish f = {a.bias, a.z, a.act, a.alpha, a.beta};
	for (i64 i = global_thread() * W; i < a.n; i += global_threads() * W) {
		i64 row = quotient(i, a.by_plane, a.n), p = i - row * a.by_plane.d;
		i64 image = quotient(row, a.by_rows, a.n), m = row - image * a.by_rows.d;
		pack<T, W> q = *(const pack<T, W> *)(x + image * a.image_x + m * a.row_x + p);
UNROLL
		for (int j = 0; j < W; j++) q.v[j] = store<T>(finished(f, load(q.v[j]), m, i + j));
		*(pack<T, W> *)((T *)a.y + i) = q;
	}
}

KERNEL(JOIN(finish, T), finish_args) {
	const int W = vector<T>::width;
	if (aligned16(a.x) && aligned16(a.y) && a.by_plane.d % W == 0 && a.image_x % W == 0 && a.row_x % W == 0)
		finish_some<W>(a);
	else
		finish_some<1>(a);
}

struct back_args {
	const f32 *x; // columns
	const void *bias;
	void *y;
	i64 n;
	i64 image_x, row_x, image_y;
	divider by_plane, by_channels;
	window w;
};

// back adds up columns: each element of the input gets what the columns have for it, tap by tap.
KERNEL(JOIN(back, T), back_args) {
	const T *bias = (const T *)a.bias;
	const window &w = a.w;
	i32 taps = volume(w.kernel);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n);
		u32 p = (u32)(i - row * a.by_plane.d);
		i64 image = quotient(row, a.by_channels, a.n), channel = row - image * a.by_channels.d;
		const f32 *from = a.x + image * a.image_x + channel * taps * a.row_x;
		i32 at[3];
		coordinates(p, w.by_in, at);
		f32 sum = bias ? load(bias[channel]) : 0.0f;
		for (i32 kd = 0, k = 0; kd < w.kernel[0]; kd++) {
			i32 d = place(w, 0, at[0], kd);
			for (i32 kh = 0; kh < w.kernel[1]; kh++, k += w.kernel[2]) {
				i32 h = place(w, 1, at[1], kh);
				if (d < 0 || h < 0) continue;
				for (i32 kw = 0; kw < w.kernel[2]; kw++) {
					i32 o = place(w, 2, at[2], kw);
					if (o >= 0) sum += from[(k + kw) * a.row_x + ((i64)d * w.out[1] + h) * w.out[2] + o];
				}
			}
		}
		((T *)a.y)[image * a.image_y + channel * a.by_plane.d + p] = store<T>(sum);
	}
}

struct depth_args {
	const void *x, *weights, *bias, *z;
	void *y;
	i64 n;
	divider by_plane, by_filters, by_multiple; // multiple: filters per channel
	i32 act;
	f32 alpha, beta;
	window w;
};

// depthwise: groups of one channel each, without columns.
KERNEL(JOIN(depthwise, T), depth_args) {
	const window &w = a.w;
	finish f = {a.bias, a.z, a.act, a.alpha, a.beta};
	i64 plane = volume(w.in), count = volume(w.kernel);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n);
		i64 image = quotient(row, a.by_filters, a.n);
		u32 m = (u32)(row - image * a.by_filters.d), channels = divide(a.by_filters.d, a.by_multiple);
		const T *x = (const T *)a.x + (image * channels + divide(m, a.by_multiple)) * plane;
		const T *weights = (const T *)a.weights + m * count;
		i32 o[3], lo[3], hi[3], start[3];
		coordinates((u32)(i - row * a.by_plane.d), w.by_out, o);
UNROLL
		for (int j = 0; j < 3; j++) start[j] = taps(w, j, o[j], &lo[j], &hi[j]);
		f32 sum = 0;
		for (i32 kd = lo[0]; kd < hi[0]; kd++)
			for (i32 kh = lo[1]; kh < hi[1]; kh++) {
				const T *line =
				    x + ((start[0] + kd * w.dilation[0]) * w.in[1] + start[1] + kh * w.dilation[1]) * w.in[2];
				const T *v = weights + (kd * w.kernel[1] + kh) * w.kernel[2];
				for (i32 kw = lo[2]; kw < hi[2]; kw++)
					sum = fused(load(line[start[2] + kw * w.dilation[2]]), load(v[kw]), sum);
			}
		((T *)a.y)[i] = store<T>(finished(f, sum, m, i));
	}
}

// depthback: the transpose of depthwise. x has as many planes as filters, y as channels.
KERNEL(JOIN(depthback, T), depth_args) {
	const window &w = a.w;
	i64 plane = volume(w.out);
	i32 count = volume(w.kernel);
	u32 channels = divide(a.by_filters.d, a.by_multiple), multiple = a.by_multiple.d;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n), image = row / channels, channel = row - image * channels;
		i32 at[3];
		coordinates((u32)(i - row * a.by_plane.d), w.by_in, at);
		f32 sum = a.bias ? load(((const T *)a.bias)[channel]) : 0.0f;
		for (i32 kd = 0, k = 0; kd < w.kernel[0]; kd++) {
			i32 d = place(w, 0, at[0], kd);
			for (i32 kh = 0; kh < w.kernel[1]; kh++, k += w.kernel[2]) {
				i32 h = place(w, 1, at[1], kh);
				if (d < 0 || h < 0) continue;
				for (i32 kw = 0; kw < w.kernel[2]; kw++) {
					i32 o = place(w, 2, at[2], kw);
					if (o < 0) continue;
					i64 from = ((i64)d * w.out[1] + h) * w.out[2] + o;
					for (u32 j = 0; j < multiple; j++) {
						i64 m = channel * multiple + j;
						sum = fused(load(((const T *)a.x)[(image * a.by_filters.d + m) * plane + from]),
							load(((const T *)a.weights)[m * count + k + kw]), sum);
					}
				}
			}
		}
		((T *)a.y)[i] = store<T>(sum);
	}
}

struct deep_args {
	const void *x, *weights, *bias, *z;
	void *y;
	i64 n;
	i64 depth, per_group;                     // elements under a place, channels of a group
	divider by_plane, by_filters, by_multiple; // multiple: filters per group
	divider by_taps;
	i32 act;
	f32 alpha, beta;
	window w;
};

// deep: few filters per group with kernels as large as planes; a block sums up one element of the output.
KERNEL(JOIN(deep, T), deep_args) {
	SHARED(f32, partial, WARP);
	const window &w = a.w;
	finish f = {a.bias, a.z, a.act, a.alpha, a.beta};
	i64 plane = volume(w.in);
	for (i64 i = block_x(); i < a.n; i += grid_x()) {
		i64 row = quotient(i, a.by_plane, a.n), image = quotient(row, a.by_filters, a.n);
		u32 m = (u32)(row - image * a.by_filters.d), groups = divide(a.by_filters.d, a.by_multiple);
		i64 channel = (image * groups + divide(m, a.by_multiple)) * a.per_group;
		const T *x = (const T *)a.x + channel * plane, *weights = (const T *)a.weights + m * a.depth;
		i32 o[3], k[3];
		coordinates((u32)(i - row * a.by_plane.d), w.by_out, o);
		f32 sum = 0;
		for (i64 j = thread_x(); j < a.depth; j += block_size()) {
			i64 c = quotient(j, a.by_taps, a.depth);
			coordinates((u32)(j - c * a.by_taps.d), w.by_kernel, k);
			i32 at = element(w, o, k);
			if (at >= 0) sum = fused(load(x[c * plane + at]), load(weights[j]), sum);
		}
		sum = block_sum(sum, partial);
		if (thread_x() == 0) ((T *)a.y)[i] = store<T>(finished(f, sum, m, i));
	}
}

struct taps_args {
	const void *dy, *x;
	void *dw;
	i64 n, images;
	i64 places;             // of all images
	u32 filters, channels;
	divider by_taps, by_multiple, by_plane;
	window w;
};

// TAPS_AT_ONCE is how many neighbouring taps of a line of a kernel a block sums up together, so that a place of dY is
// found and read once for all of them.
#define TAPS_AT_ONCE 4

// depthweights: the gradient of the weights of groups of one channel each.
KERNEL(JOIN(depthweights, T), taps_args) {
	SHARED(f32, partial, WARP);
	const window &w = a.w;
	i64 plane = volume(w.in), out = a.by_plane.d;
	i32 pieces = (w.kernel[2] + TAPS_AT_ONCE - 1) / TAPS_AT_ONCE;
	for (i64 i = block_x(); i < a.n / w.kernel[2] * pieces; i += grid_x()) {
		i64 line = i / pieces;
		i32 from = (i32)(i - line * pieces) * TAPS_AT_ONCE, taps = w.kernel[2] - from;
		i64 weight = line * w.kernel[2] + from;
		i64 m = quotient(weight, a.by_taps, a.n), channel = divide((u32)m, a.by_multiple);
		i32 o[3], k[3];
		coordinates((u32)(weight - m * a.by_taps.d), w.by_kernel, k);
		f32 sum[TAPS_AT_ONCE] = {};
		for (i64 j = thread_x(); j < a.places; j += block_size()) {
			i64 image = quotient(j, a.by_plane, a.places), p = j - image * out;
			coordinates((u32)p, w.by_out, o);
			i32 line = line_at(w, o, k), at = o[2] * w.stride[2] - w.begin[2] + k[2] * w.dilation[2];
			if (line < 0) continue;
			const T *x = (const T *)a.x + (image * a.channels + channel) * plane + line;
			f32 dy = load(((const T *)a.dy)[(image * a.filters + m) * out + p]);
UNROLL
			for (int t = 0; t < TAPS_AT_ONCE; t++, at += w.dilation[2])
				if (t < taps && (u32)at < (u32)w.in[2]) sum[t] = fused(dy, load(x[at]), sum[t]);
		}
UNROLL
		for (int t = 0; t < TAPS_AT_ONCE; t++) {
			if (t < taps) {
				f32 s = block_sum(sum[t], partial);
				if (thread_x() == 0) ((T *)a.dw)[weight + t] = store<T>(s);
			}
		}
	}
}

struct bias_args {
	const void *dy;
	void *db;
	i64 n; // filters
	i64 places;
	divider by_plane;
};

// bias_sum is a thread's share of the sum of a filter's dY: packs of W, of which four are asked for before the first is
// added.
template <int W> DEV inline f32 bias_sum(const bias_args &a, i64 m) {
	const int LOADS = 4;
	i64 out = a.by_plane.d, step = (i64)block_size() * W;
	f32 sum = 0;
	for (i64 j = (i64)thread_x() * W; j < a.places; j += LOADS * step) {
		pack<T, W> p[LOADS];
UNROLL
		for (int l = 0; l < LOADS; l++) {
			i64 at = j + l * step;
			if (at >= a.places) break;
			i64 image = quotient(at, a.by_plane, a.places);
			p[l] = *(const pack<T, W> *)((const T *)a.dy + (image * a.n + m) * out + at - image * out);
		}
UNROLL
		for (int l = 0; l < LOADS; l++) {
			if (j + l * step >= a.places) break;
UNROLL
			for (int e = 0; e < W; e++) sum += load(p[l].v[e]);
		}
	}
	return sum;
}

// biasgrad: the sums of dY over images and places; a block sums up one filter's. dY is an operand, which begins at a
// multiple of a pack.
KERNEL(JOIN(biasgrad, T), bias_args) {
	SHARED(f32, partial, WARP);
	const int W = vector<T>::width;
	for (i64 m = block_x(); m < a.n; m += grid_x()) {
		f32 sum = block_sum(a.by_plane.d % W == 0 ? bias_sum<W>(a, m) : bias_sum<1>(a, m), partial);
		if (thread_x() == 0) ((T *)a.db)[m] = store<T>(sum);
	}
}

// columnsf32 makes columns in float32.
KERNEL(JOIN(columnsf32, T), columns_args) { make_columns<T, f32>(a); }
