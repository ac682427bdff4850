#include "stats.h"
#define T f32
#include "loss.h"
