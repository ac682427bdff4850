#include "rows.h"
#define T i64
#define LEAST (-9223372036854775807ll - 1)
#define GREATEST 9223372036854775807ll
#include "reduce.h"
