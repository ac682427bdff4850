#define T f16
#include "variadic.h"
