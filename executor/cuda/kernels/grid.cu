// AffineGrid and GridSample. Operands are floats of any types. Places are computed in f64, as the host does, so that
// both come to the same neighbours.
#include "anyfloat.h"

struct affine_args {
	const void *theta; // [images, axes, axes+1]
	void *y;           // [images, places..., axes]
	i64 n;             // places of all images
	i64 places;
	i32 dims[3]; // of an image, the last axis first
	i32 axes;
	u32 type, align;
};

// affine_coordinate returns the place of element i of n, from -1 to 1; the middle where there is but one.
DEV inline f64 affine_coordinate(i64 i, i32 n, u32 align) {
	if (!align) return (f64)(2 * i + 1) / n - 1;
	return n == 1 ? 0.0 : (f64)(2 * i) / (n - 1) - 1;
}

KERNEL(affine_grid, affine_args) {
	i32 width = a.axes + 1;
	for (i64 p = global_thread(); p < a.n; p += global_threads()) {
		i64 image = p / a.places, left = p - image * a.places;
		f64 at[3] = {0, 0, 0};
		UNROLL
		for (i32 i = 0; i < 3; i++) {
			at[i] = affine_coordinate(left % a.dims[i], a.dims[i], a.align); // dims past the axes are 1
			left /= a.dims[i];
		}
		for (i32 i = 0; i < a.axes; i++) {
			i64 row = (image * a.axes + i) * width;
			f64 sum = 0;
			UNROLL
			for (i32 j = 0; j < 3; j++) {
				if (j < a.axes) sum += (f64)stat(a.theta, a.type, row + j) * at[j];
			}
			put_stat(a.y, a.type, p * a.axes + i, (f32)(sum + (f64)stat(a.theta, a.type, row + a.axes)));
		}
	}
}

enum { SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

struct sample_args {
	const void *x, *grid;
	void *y;
	i64 n;                   // pieces of work: images, chunks of channels, places
	i64 places;              // of an image
	i32 channels, chunk;     // chunk: channels that a thread samples
	i32 dims[3];             // of a plane of x
	i32 rank;
	u32 x_type, grid_type;
	u32 mode, padding, align;
};

// mirrored brings x between least and most by mirrors at both ends.
DEV inline f64 mirrored(f64 x, f64 least, f64 most) {
	f64 span = most - least;
	if (span <= 0) return least;
	if (x >= least && x <= most) return x;
	bool above = x > most;
	f64 far = above ? x - most : least - x, turns = round_down(far / span), rest = far - turns * span;
	if (round_down(turns * 0.5) * 2 != turns) rest = span - rest;
	return above ? most - rest : least + rest;
}

// sample_tap is what an axis gives to a place: elements, -1 where they are outside, and their weights.
template <int N> struct sample_tap {
	i32 index[N];
	f32 weight[N];
};

// cubic weighs an element at a distance (Keys 1981, with a = -3/4).
DEV inline f32 cubic(f32 d) {
	const f32 c = -0.75f;
	d = d < 0 ? -d : d;
	if (d <= 1) return ((c + 2) * d - (c + 3)) * d * d + 1;
	return d < 2 ? ((d - 5) * d + 8) * d * c - 4 * c : 0.0f;
}

// inside brings an index into an axis of length n as the padding says, or returns -1.
DEV inline i32 inside(const sample_args &a, i64 i, i32 n, f64 least, f64 most) {
	if (i >= 0 && i < n) return (i32)i;
	if (a.padding == PAD_BORDER) return i < 0 ? 0 : n - 1;
	if (a.padding == PAD_ZEROS) return -1;
	i64 m = (i64)mirrored((f64)i, least, most);
	return m < 0 ? 0 : m >= n ? n - 1 : (i32)m;
}

template <int N> DEV inline void find_tap(const sample_args &a, sample_tap<N> &t, f64 g, i32 n) {
	f64 least = a.align ? 0.0 : -0.5, most = a.align ? (f64)(n - 1) : n - 0.5;
	f64 x = a.align ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
	if (a.mode == SAMPLE_NEAREST) x = to_nearest(x);
	if (!(x >= least && x <= most)) {
		// A cubic keeps x while one of its taps is inside: each tap outside is the element at the border.
		f64 low = a.mode == SAMPLE_CUBIC ? -2.0 : 0.0, high = n - 1 - low;
		if (a.padding == PAD_BORDER) x = x < low ? low : x > high ? high : x;
		else if (a.padding == PAD_REFLECTION) x = mirrored(x, least, most);
	}
	bool far = !(x < 1099511627776.0 && x > -1099511627776.0); // 2^40, or no number
	f64 base = far ? 0.0 : round_down(x);
	f32 r = far ? 0.0f : (f32)(x - base);
	UNROLL
	for (int i = 0; i < N; i++) {
		t.weight[i] = N == 1 ? 1.0f : N == 2 ? (i == 0 ? 1.0f - r : r) : cubic((f32)(i - 1) - r);
		t.index[i] = far ? -1 : inside(a, (i64)base + i - (N == 4), n, least, most);
	}
}

template <int N> DEV inline void sample(const sample_args &a) {
	i64 chunks = (a.channels + a.chunk - 1) / a.chunk, plane = (i64)a.dims[0] * a.dims[1] * a.dims[2];
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = i / a.places, at = i - row * a.places, image = row / chunks;
		sample_tap<N> taps[3];
		UNROLL
		for (i32 k = 0; k < 3; k++) {
			if (2 - k < a.rank) {
				i64 place = (image * a.places + at) * a.rank + (2 - k);
				find_tap<N>(a, taps[k], (f64)stat(a.grid, a.grid_type, place), a.dims[k]);
				continue;
			}
			UNROLL
			for (int j = 0; j < N; j++) taps[k].index[j] = j == 0 ? 0 : -1, taps[k].weight[j] = 1;
		}
		i32 first = (i32)(row - image * chunks) * a.chunk,
		    last = first + a.chunk < a.channels ? first + a.chunk : a.channels;
		for (i32 c = first; c < last; c++) {
			i64 from = (image * a.channels + c) * plane;
			f32 sum = 0;
			for (int d = 0; d < N; d++) {
				if (taps[0].index[d] < 0) continue;
				UNROLL
				for (int h = 0; h < N; h++) {
					if (taps[1].index[h] < 0) continue;
					f32 weight = taps[0].weight[d] * taps[1].weight[h];
					i64 line = from + ((i64)taps[0].index[d] * a.dims[1] + taps[1].index[h]) * a.dims[2];
					UNROLL
					for (int w = 0; w < N; w++) {
						f32 v = weight * taps[2].weight[w];
						if (taps[2].index[w] >= 0 && v != 0) sum += stat(a.x, a.x_type, line + taps[2].index[w]) * v;
					}
				}
			}
			put_stat(a.y, a.x_type, (image * a.channels + c) * a.places + at, sum);
		}
	}
}

KERNEL(grid_nearest, sample_args) { sample<1>(a); }
KERNEL(grid_linear, sample_args) { sample<2>(a); }
KERNEL(grid_cubic, sample_args) { sample<4>(a); }
