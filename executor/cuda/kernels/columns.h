// Columns of a convolution.
#ifndef MEMOPT_COLUMNS_H
#define MEMOPT_COLUMNS_H
#include "window.h"

DEV inline u16 load(u16 x) { return x; }
DEV inline u32 load(u32 x) { return x; }

struct columns_args {
	const void *x;
	void *y; // columns
	i64 n;
	i64 image_x, image_y, row_y; // distances from image to image, and from row to row of columns
	i64 first;                   // place of the first column
	divider by_places, by_rows, by_taps;
	window w;
};

// line_at returns where in a plane of the input the line begins that tap k of place o lies in, or -1 in padding.
DEV inline i32 line_at(const window &w, const i32 *o, const i32 *k) {
	i32 d = o[0] * w.stride[0] - w.begin[0] + k[0] * w.dilation[0];
	i32 h = o[1] * w.stride[1] - w.begin[1] + k[1] * w.dilation[1];
	return (u32)d < (u32)w.in[0] && (u32)h < (u32)w.in[1] ? (d * w.in[1] + h) * w.in[2] : -1;
}

// columns_some makes W neighbouring elements of a row at once: row, tap and place are found once for all of them, and
// once more where they go on in another line.
template <typename E, typename F, int W> DEV inline void columns_some(const columns_args &a) {
	const window &w = a.w;
	i64 plane = volume(w.in);
	for (i64 i = global_thread() * W; i < a.n; i += global_threads() * W) {
		i64 row = quotient(i, a.by_places, a.n), p = i - row * a.by_places.d;
		i64 image = quotient(row, a.by_rows, a.n);
		u32 r = (u32)(row - image * a.by_rows.d), channel = divide(r, a.by_taps);
		const E *x = (const E *)a.x + image * a.image_x + channel * plane;
		i32 o[3], k[3];
		coordinates((u32)(a.first + p), w.by_out, o);
		coordinates(r - channel * a.by_taps.d, w.by_kernel, k);
		i32 line = line_at(w, o, k);
		i32 first = k[2] * w.dilation[2] - w.begin[2], at = first + o[2] * w.stride[2];
		pack<F, W> q;
UNROLL
		for (int j = 0; j < W; j++) {
			q.v[j] = 0;
			if (line >= 0 && (u32)at < (u32)w.in[2]) q.v[j] = load(x[line + at]);
			if (j + 1 == W) break;
			at += w.stride[2];
			if (++o[2] == w.out[2]) {
				o[2] = 0;
				if (++o[1] == w.out[1]) o[1] = 0, o[0]++;
				line = line_at(w, o, k);
				at = first;
			}
		}
		*(pack<F, W> *)((F *)a.y + image * a.image_y + r * a.row_y + p) = q;
	}
}

// make_columns makes column p of each image: the elements under place first+p, channel by channel and
// tap by tap.
template <typename E, typename F> DEV inline void make_columns(const columns_args &a) {
	const int W = 4;
	if (a.by_places.d % W == 0 && a.image_y % W == 0 && a.row_y % W == 0 && aligned16(a.y)) columns_some<E, F, W>(a);
	else columns_some<E, F, 1>(a);
}
#endif
