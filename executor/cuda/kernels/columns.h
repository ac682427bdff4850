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

// columns makes column p of each image: the elements under place first+p, channel by channel and
// tap by tap.
template <typename E, typename F> DEV inline void make_columns(const columns_args &a) {
	const E *x = (const E *)a.x;
	F *y = (F *)a.y;
	i64 plane = volume(a.w.in);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_places, a.n), p = i - row * a.by_places.d;
		i64 image = quotient(row, a.by_rows, a.n);
		u32 r = (u32)(row - image * a.by_rows.d), channel = divide(r, a.by_taps);
		i32 o[3], k[3];
		coordinates((u32)(a.first + p), a.w.by_out, o);
		coordinates(r - channel * a.by_taps.d, a.w.by_kernel, k);
		i32 at = element(a.w, o, k);
		F v = 0;
		if (at >= 0) v = load(x[image * a.image_x + channel * plane + at]);
		y[image * a.image_y + r * a.row_y + p] = v;
	}
}
#endif
