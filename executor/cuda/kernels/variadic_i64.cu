#define T i64
#include "variadic.h"
