package pack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const minimallocCapacity = 1048576

func minimalloc(t testing.TB, name string) []Buffer {
	f, err := os.Open(filepath.Join("../../../shared/bench/minimalloc", name+".1048576.csv"))
	if err != nil {
		t.Skip("google/minimalloc's instances are missing; they lie beside the project in ../shared/bench/minimalloc: ", err)
	}
	defer f.Close()
	table, err := ReadCSV(f)
	require.NoError(t, err)
	return table.Buffers
}
