#include "stats.h"
#define T f16
#include "groupnorm.h"
