#define T bf16
#define FLOAT
#include "chain.h"
