#define T f32
#include "filter.h"
