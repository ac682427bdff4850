#include "rows.h"
#define T bf16
#define FLOAT
#define LEAST -F32_INF
#define GREATEST F32_INF
#include "reduce.h"
