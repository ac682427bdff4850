// Nearest elements, moved by their size.
#include "resize.h"

// source returns where element o of a resized dim comes from.
DEV inline i64 source(const resize_args &a, const resized &r, i64 o, bool *outside) {
	i32 e = a.table[r.start + o];
	if (e == a.table[r.start + o + 1]) return *outside = true, 0;
	return a.table[r.index + e] * r.stride;
}

template <typename E> DEV inline void nearest(const resize_args &a) {
	const E *x = (const E *)a.x;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 left = i, at = 0;
		bool outside = false;
UNROLL
		for (int d = 0; d < RESIZED_DIMS; d++) {
			if (d < a.dims) {
				const resized &r = a.dim[d];
				i64 q = quotient(left, r.by, a.n), o = left - q * r.by.d;
				left = q;
				at += r.same ? o * r.stride : source(a, r, o, &outside);
			}
		}
		E v = (E)a.fill;
		if (!outside) v = x[at];
		((E *)a.y)[i] = v;
	}
}

KERNEL(nearest_1, resize_args) { nearest<u8>(a); }
KERNEL(nearest_2, resize_args) { nearest<u16>(a); }
KERNEL(nearest_4, resize_args) { nearest<u32>(a); }
KERNEL(nearest_8, resize_args) { nearest<u64>(a); }
