#include "rows.h"
#define T f32
#include "meanvariance.h"
