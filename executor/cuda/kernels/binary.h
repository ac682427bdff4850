// Operators of two operands of the same type. binary_TYPE.cu defines T, and FLOAT where it is a float, and includes
// this.
#include "elementwise.h"

// The larger or smaller of a number and NaN is NaN.
template <typename C> DEV inline C larger(C x, C z) { return x != x || x > z ? x : z; }
template <typename C> DEV inline C smaller(C x, C z) { return x != x || x < z ? x : z; }

BINARY(add, x + z)
BINARY(sub, x - z)
BINARY(mul, x *z)
BINARY(max, larger<C>(x, z))
BINARY(min, smaller<C>(x, z))
BINARY_TO(equal, u8, x == z)
BINARY_TO(less, u8, x < z)
BINARY_TO(lessequal, u8, x <= z)
BINARY_TO(greater, u8, x > z)
BINARY_TO(greaterequal, u8, x >= z)
#ifdef FLOAT
BINARY(div, x / z)
BINARY(pow, power(x, z))
BINARY(prelu, x < 0 ? x * z : x)
#endif
