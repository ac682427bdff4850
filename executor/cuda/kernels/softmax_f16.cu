#define T f16
#include "softmax.h"
