#include "rows.h"
#define T f16
#include "lpnorm.h"
