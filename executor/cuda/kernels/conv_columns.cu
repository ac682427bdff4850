// Movement of elements for convolutions, by the elements' size.
#include "window.h"

struct columns_args {
	const void *x;
	void *y; // columns
	i64 n;
	i64 image_x, image_y, row_y; // distances from image to image, and from row to row of columns
	i64 first;                   // place of the first column
	divider by_places, by_rows, by_taps;
	window w;
};

// columns makes column p of each image: the elements under place first+p, channel by channel and tap by tap.
template <typename E> DEV inline void make_columns(const columns_args &a) {
	const E *x = (const E *)a.x;
	E *y = (E *)a.y;
	i64 plane = volume(a.w.in);
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_places, a.n), p = i - row * a.by_places.d;
		i64 image = quotient(row, a.by_rows, a.n);
		u32 r = (u32)(row - image * a.by_rows.d), channel = divide(r, a.by_taps);
		i32 o[3], k[3];
		coordinates((u32)(a.first + p), a.w.by_out, o);
		coordinates(r - channel * a.by_taps.d, a.w.by_kernel, k);
		i32 at = element(a.w, o, k);
		E v = 0;
		if (at >= 0) v = x[image * a.image_x + channel * plane + at];
		y[image * a.image_y + r * a.row_y + p] = v;
	}
}

KERNEL(columns_2, columns_args) { make_columns<u16>(a); }
KERNEL(columns_4, columns_args) { make_columns<u32>(a); }

struct swap_args {
	const void *x;
	void *y;
	i64 n;
	i64 image_x, row_x;
	divider by_plane, by_images;
};

// swap brings images [N, M, P] to [M, N, P].
template <typename E> DEV inline void swap_images(const swap_args &a) {
	const E *x = (const E *)a.x;
	E *y = (E *)a.y;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = quotient(i, a.by_plane, a.n), p = i - row * a.by_plane.d;
		i64 m = quotient(row, a.by_images, a.n), image = row - m * a.by_images.d;
		y[i] = x[image * a.image_x + m * a.row_x + p];
	}
}

KERNEL(swap_2, swap_args) { swap_images<u16>(a); }
KERNEL(swap_4, swap_args) { swap_images<u32>(a); }
