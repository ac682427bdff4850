#include "rows.h"
#define T u8
#define ORDER_ONLY
#define LEAST 0
#define GREATEST 255
#include "reduce.h"
