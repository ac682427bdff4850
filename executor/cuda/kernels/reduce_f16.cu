#include "rows.h"
#define T f16
#define FLOAT
#define LEAST -F32_INF
#define GREATEST F32_INF
#include "reduce.h"
