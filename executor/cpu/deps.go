package cpu

import (
	_ "github.com/ebitengine/purego"
	_ "gonum.org/v1/gonum/blas/gonum"
)
