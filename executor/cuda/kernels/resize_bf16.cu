#define T bf16
#include "filter.h"
