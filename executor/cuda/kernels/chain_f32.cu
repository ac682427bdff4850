#define T f32
#define FLOAT
#include "chain.h"
