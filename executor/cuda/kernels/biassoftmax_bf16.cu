#include "rows.h"
#define T bf16
#include "biassoftmax.h"
