#include "elementwise.h"
#define T f16
#include "gemm.h"

GEMM(gemm128, 128, 128, 16, 8, 8, 2)
GEMM(gemm64, 64, 64, 16, 8, 4, 4)
GEMM(gemm32, 32, 32, 32, 4, 4, 6)
