#define T bf16
#define FLOAT
#include "binary.h"
