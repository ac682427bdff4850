// Movement of elements for convolutions, by the elements' size.
#include "columns.h"
#include "wide.h"

KERNEL(columns_2, columns_args) { make_columns<u16, u16>(a); }
KERNEL(columns_4, columns_args) { make_columns<u32, u32>(a); }

struct swap_args {
	const void *x;
	void *y;
	i64 n;
	i64 image_x, row_x;
	divider by_plane, by_images;
};

// swap_some brings packs P of images [N, M, plane] to [M, N, plane].
template <typename E, typename P> DEV inline void swap_some(const swap_args &a) {
	const E *x = (const E *)a.x;
	const int W = sizeof(P) / sizeof(E);
	for (i64 i = global_thread() * W; i < a.n; i += global_threads() * W) {
		i64 row = quotient(i, a.by_plane, a.n), p = i - row * a.by_plane.d;
		i64 m = quotient(row, a.by_images, a.n), image = row - m * a.by_images.d;
		const E *from = x + image * a.image_x + m * a.row_x + p;
		if constexpr (sizeof(P) == 16) write_wide((E *)a.y + i, read_wide<P>(from));
		else ((E *)a.y)[i] = *from;
	}
}
template <typename E> DEV inline void swap_images(const swap_args &a) {
	const int W = 16 / sizeof(E);
	if (a.by_plane.d % W == 0 && a.image_x % W == 0 && a.row_x % W == 0 && aligned16(a.x) && aligned16(a.y))
		swap_some<E, pack<u32, 4>>(a);
	else swap_some<E, E>(a);
}

KERNEL(swap_2, swap_args) { swap_images<u16>(a); }
KERNEL(swap_4, swap_args) { swap_images<u32>(a); }
