#include "rows.h"
#define T i32
#define LEAST (-2147483647 - 1)
#define GREATEST 2147483647
#include "reduce.h"
