#include "stats.h"
#define T bf16
#include "groupnorm.h"
