#include "rows.h"
#define T bf16
#include "lpnorm.h"
