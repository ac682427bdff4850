#define T bf16
#include "conv.h"
