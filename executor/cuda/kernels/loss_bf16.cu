#include "stats.h"
#define T bf16
#include "loss.h"
