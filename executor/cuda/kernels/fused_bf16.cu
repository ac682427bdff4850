#define T bf16
#include "fused.h"
