#include "stats.h"
#define T f32
#include "groupnorm.h"
