#include "stats.h"
#define T f16
#include "layernorm.h"
