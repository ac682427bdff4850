#include "rows.h"
#define T bf16
#include "meanvariance.h"
