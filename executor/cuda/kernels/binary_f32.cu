#define T f32
#define FLOAT
#include "binary.h"
