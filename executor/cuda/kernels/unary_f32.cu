#define T f32
#include "unary.h"
