// Div and Mod of integers. Divisors that are 0 raise a word to the complement of the first one's number.
#include "elementwise.h"

struct intdiv_args {
	broadcast_args b;
	u32 *bad;
	u32 floors; // Mod: the result has the divisor's sign
};

// Quotients are rounded towards 0; the least number divided by -1 is itself, as on every CPU that wraps.
struct int_quotient {
	template <typename I> DEV static I of(I x, I z, bool) {
		return z == (I)-1 && (I)-1 < (I)1 ? (I)(0 - (u64)x) : (I)(x / z);
	}
};
struct int_remainder {
	template <typename I> DEV static I of(I x, I z, bool floors) {
		if (z == (I)-1 && (I)-1 < (I)1) return 0;
		I r = (I)(x % z);
		return floors && r != 0 && (r < (I)1) != (z < (I)1) ? (I)(r + z) : r;
	}
};

template <typename I, typename F> DEV inline void intdiv_loop(const intdiv_args &a) {
	const broadcast_args &b = a.b;
	for (i64 i = global_thread(); i < b.n; i += global_threads()) {
		i64 at[2] = {b.one & 1 ? 0 : i, b.one & 2 ? 0 : i};
		if (b.strided) places<2>(b, i, at);
		I z = ((const I *)b.in[1])[at[1]], q = 0;
		if (z == 0) atomic_max(a.bad, ~(u32)at[1]);
		else q = F::of(((const I *)b.in[0])[at[0]], z, a.floors != 0);
		((I *)b.y)[i] = q;
	}
}

#define INTDIV(type)                                                              \
	KERNEL(div_##type, intdiv_args) { intdiv_loop<type, int_quotient>(a); }       \
	KERNEL(mod_##type, intdiv_args) { intdiv_loop<type, int_remainder>(a); }
INTDIV(i8)
INTDIV(i16)
INTDIV(i32)
INTDIV(i64)
INTDIV(u8)
INTDIV(u16)
INTDIV(u32)
INTDIV(u64)
