#define T f32
#include "conv.h"
