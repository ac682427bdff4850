#define T f16
#include "unary.h"
