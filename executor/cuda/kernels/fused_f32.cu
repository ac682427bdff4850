#define T f32
#include "fused.h"
