#define T i32
#include "variadic.h"
