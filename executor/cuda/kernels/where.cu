// Where: x where the condition holds, z elsewhere, for elements of any type by their size.
#include "elementwise.h"

template <typename E> DEV inline void where_loop(const broadcast_args &a) {
	const u8 *c = (const u8 *)a.in[0];
	const E *x = (const E *)a.in[1], *z = (const E *)a.in[2];
	E *y = (E *)a.y;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 at[3];
		if (a.strided)
			places<3>(a, i, at);
		else {
			at[0] = a.one & 1 ? 0 : i;
			at[1] = a.one & 2 ? 0 : i;
			at[2] = a.one & 4 ? 0 : i;
		}
		y[i] = c[at[0]] ? x[at[1]] : z[at[2]];
	}
}

KERNEL(where_1, broadcast_args) { where_loop<u8>(a); }
KERNEL(where_2, broadcast_args) { where_loop<u16>(a); }
KERNEL(where_4, broadcast_args) { where_loop<u32>(a); }
KERNEL(where_8, broadcast_args) { where_loop<u64>(a); }
