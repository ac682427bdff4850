#define T bf16
#include "unary.h"
