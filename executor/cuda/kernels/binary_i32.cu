#define T i32
#include "binary.h"
