// Mod of floats.
#include "elementwise.h"

// float_remainder returns x - n*z for the n of trunc(x/z), which is exact: both are whole multiples of z's last bit, or
// of x's where that is the smaller, and 40 bits of their quotient are divided off at a time.
DEV inline f32 float_remainder(f32 x, f32 z) {
	u32 u = bits_of(x) & 0x7fffffffu, v = bits_of(z) & 0x7fffffffu;
	if (u >= 0x7f800000u || v > 0x7f800000u || v == 0) return F32_NAN;
	if (u < v) return x;
	i32 e = (i32)(u >> 23), f = (i32)(v >> 23);
	u64 m = u & 0x7fffffu, d = v & 0x7fffffu;
	if (e > 0) m |= 0x800000u;
	else e = 1;
	if (f > 0) d |= 0x800000u;
	else f = 1;
	m %= d;
	while (e > f && m != 0) {
		i32 by = e - f < 40 ? e - f : 40;
		m = (m << by) % d;
		e -= by;
	}
	// m * 2^(f-150), where m < d: a float.
	// m * 2^(f-150) with m < d is a float. Where 2^(f-150) is none, the factor 2^-24 comes last.
	f32 y = (f32)(u32)m;
	if (f >= 24) y *= from_bits((u32)(f - 23) << 23);
	else y = y * from_bits((u32)(f + 1) << 23) * from_bits(103u << 23);
	return bits_of(x) >> 31 ? -y : y;
}

struct float_mod { template <typename C> DEV static C of(C x, C z) { return float_remainder(x, z); } };

#define FMOD(type) KERNEL(mod_##type, broadcast_args) { binary_loop<type, type, float_mod>(a); }
FMOD(f32)
FMOD(f16)
FMOD(bf16)
