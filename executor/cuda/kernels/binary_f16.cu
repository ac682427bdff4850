#define T f16
#define FLOAT
#include "binary.h"
