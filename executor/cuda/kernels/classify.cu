// Tests of floats: is it infinite, NaN, or neither. isinf counts +infinity where alpha is not 0, and -infinity where
// beta is not.
#include "elementwise.h"

struct is_inf {
	template <typename C> DEV static u8 of(C x, f32 positive, f32 negative) {
		return (positive != 0 && x == (C)F32_INF) || (negative != 0 && x == -(C)F32_INF);
	}
};
struct is_nan { template <typename C> DEV static u8 of(C x, f32, f32) { return x != x; } };
struct is_finite { template <typename C> DEV static u8 of(C x, f32, f32) { return x - x == 0; } };

#define CLASSIFY(type)                                                      \
	KERNEL(isinf_##type, unary_args) { unary_loop<type, u8, is_inf>(a); }   \
	KERNEL(isnan_##type, unary_args) { unary_loop<type, u8, is_nan>(a); }   \
	KERNEL(isfinite_##type, unary_args) { unary_loop<type, u8, is_finite>(a); }
CLASSIFY(f32)
CLASSIFY(f64)
CLASSIFY(f16)
CLASSIFY(bf16)
