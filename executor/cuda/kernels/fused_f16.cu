#define T f16
#include "fused.h"
