#define T f16
#include "pool.h"
