#define T bf16
#include "softmax.h"
