#define T f32
#include "variadic.h"
