#define T bf16
#include "pool.h"
