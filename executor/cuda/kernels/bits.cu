// Operators of the bits of integers, by their size: and, or, exclusive or, complement and shifts. A shift by as many bits as there
// are, or more, gives 0.
#include "elementwise.h"

// bits is an integer whose bits alone matter.
template <typename I> struct bits { I v; };
template <typename I> DEV inline I load(bits<I> x) { return x.v; }
template <typename I> struct compute<bits<I>> { typedef I type; };
template <typename I> struct storer<bits<I>> { DEV static bits<I> of(I x) { return bits<I>{x}; } };

struct bits_and { template <typename C> DEV static C of(C x, C z) { return (C)(x & z); } };
struct bits_or { template <typename C> DEV static C of(C x, C z) { return (C)(x | z); } };
struct bits_xor { template <typename C> DEV static C of(C x, C z) { return (C)(x ^ z); } };
struct bits_not { template <typename C> DEV static C of(C x, f32, f32) { return (C)~x; } };
struct bits_left { template <typename C> DEV static C of(C x, C z) { return z < 8 * sizeof(C) ? (C)(x << z) : (C)0; } };
struct bits_right { template <typename C> DEV static C of(C x, C z) { return z < 8 * sizeof(C) ? (C)(x >> z) : (C)0; } };

#define BITS_BINARY(name, size, type) \
	KERNEL(bits_##name##_##size, broadcast_args) { binary_loop<bits<type>, bits<type>, bits_##name>(a); }
#define BITS(size, type)           \
	BITS_BINARY(and, size, type)   \
	BITS_BINARY(or, size, type)    \
	BITS_BINARY(xor, size, type)   \
	BITS_BINARY(left, size, type)  \
	BITS_BINARY(right, size, type) \
	KERNEL(bits_not_##size, unary_args) { unary_loop<bits<type>, bits<type>, bits_not>(a); }
BITS(1, u8)
BITS(2, u16)
BITS(4, u32)
BITS(8, u64)
