#define T f16
#include "conv.h"
