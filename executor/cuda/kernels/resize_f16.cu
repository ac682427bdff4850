#define T f16
#include "filter.h"
