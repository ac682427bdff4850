// Expand: an operand stretched to the output's shape, for elements of any type by their size.
#include "elementwise.h"

template <typename E> DEV inline void expand_loop(const broadcast_args &a) {
	const E *x = (const E *)a.in[0];
	E *y = (E *)a.y;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 at = a.one & 1 ? 0 : i;
		if (a.strided) places<1>(a, i, &at);
		y[i] = x[at];
	}
}

KERNEL(expand_1, broadcast_args) { expand_loop<u8>(a); }
KERNEL(expand_2, broadcast_args) { expand_loop<u16>(a); }
KERNEL(expand_4, broadcast_args) { expand_loop<u32>(a); }
KERNEL(expand_8, broadcast_args) { expand_loop<u64>(a); }
