#include "rows.h"
#define T f32
#include "biassoftmax.h"
