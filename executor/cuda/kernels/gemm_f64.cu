#include "elementwise.h"
#define T f64
#include "gemm.h"

GEMM(gemm64, 64, 64, 16, 8, 4, 2)
GEMM(gemm32, 32, 32, 16, 4, 4, 6)
