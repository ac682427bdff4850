// Operators of bools, which are bytes of 0 and 1.
#define T u8
#include "elementwise.h"

BINARY(and, x &z)
BINARY(or, x | z)
BINARY(xor, x ^ z)
BINARY(equal, x == z)
UNARY(not, x == 0)
