// Movement of elements for convolutions, by the elements' size.
#include "columns.h"

KERNEL(columns_2, columns_args) { make_columns<u16, u16>(a); }
KERNEL(columns_4, columns_args) { make_columns<u32, u32>(a); }

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
