#define T f32
#include "pool.h"
