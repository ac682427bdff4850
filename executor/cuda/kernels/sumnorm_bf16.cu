#include "rows.h"
#define T bf16
#include "sumnorm.h"
