#define T f32
#define FLOAT
#include "fusion.h"
