#define T bf16
#include "variadic.h"
