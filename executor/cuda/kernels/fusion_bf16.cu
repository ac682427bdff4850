#define T bf16
#define FLOAT
#include "fusion.h"
