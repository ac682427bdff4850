#define T f16
#define FLOAT
#include "fusion.h"
