#define T i64
#include "binary.h"
