#define T f16
#define FLOAT
#include "chain.h"
