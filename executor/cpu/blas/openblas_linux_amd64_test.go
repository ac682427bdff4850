//go:build !nodl

package blas

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKernelsOf(t *testing.T) {
	for config, kernels := range map[string]string{
		"OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Zen MAX_THREADS=64": "Zen",
		"OpenBLAS 0.3.29 SkylakeX MAX_THREADS=2":                                 "SkylakeX",
		"OpenBLAS 0.3.21 MAX_THREADS=64":                                         "",
		"OpenBLAS 0.3.21 DYNAMIC_ARCH Zen":                                       "",
		"":                                                                       "",
	} {
		require.Equal(t, kernels, kernelsOf(config), config)
	}
}
