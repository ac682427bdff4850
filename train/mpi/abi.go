package mpi

import (
	"fmt"
	"strings"
)

// abi is the binary interface of a library: the values of the names in mpi.h. They are from mpi.h
// of Open MPI 4.1 and of MPICH 4.0; each of the two has kept them since 2012 and longer, and
// Intel's library, MVAPICH and Cray's have those of MPICH.
type abi struct {
	kind    Kind
	names   []string // of files, for the dynamic linker
	handles [numHandles]handle
	request int     // bytes of an MPI_Request
	inPlace uintptr // MPI_IN_PLACE
	ignore  uintptr // MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE
	any     int32   // MPI_ANY_SOURCE
}

// handle is the value of a handle: the address of a variable of the library, or a number.
type handle struct {
	symbol string
	value  uintptr
}

// The handles that are used.
const (
	commWorld = iota
	typeByte
	typeFloat
	typeDouble
	opSum
	errorsReturn
	numHandles
)

var abis = []abi{
	{
		kind:  OpenMPI,
		names: []string{"libmpi.so.40"},
		handles: [numHandles]handle{
			commWorld:    {symbol: "ompi_mpi_comm_world"},
			typeByte:     {symbol: "ompi_mpi_byte"},
			typeFloat:    {symbol: "ompi_mpi_float"},
			typeDouble:   {symbol: "ompi_mpi_double"},
			opSum:        {symbol: "ompi_mpi_op_sum"},
			errorsReturn: {symbol: "ompi_mpi_errors_return"},
		},
		request: 8, inPlace: 1, ignore: 0, any: -1,
	},
	{
		kind:  MPICH,
		names: []string{"libmpich.so.12", "libmpi.so.12"},
		handles: [numHandles]handle{
			commWorld:    {value: 0x44000000},
			typeByte:     {value: 0x4c00010d},
			typeFloat:    {value: 0x4c00040a},
			typeDouble:   {value: 0x4c00080b},
			opSum:        {value: 0x58000003},
			errorsReturn: {value: 0x54000001},
		},
		request: 4, inPlace: ^uintptr(0), ignore: 1, any: -2,
	},
}

// Both have these values.
const (
	threadFunneled  = 1    // MPI_THREAD_FUNNELED
	maxVersionBytes = 8192 // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the longer one
	maxErrorBytes   = 1024 // MPI_MAX_ERROR_STRING, at most
)

// abiOf returns the ABI of a library by the result of MPI_Get_library_version.
func abiOf(version string) (*abi, error) {
	words := map[Kind][]string{OpenMPI: {"Open MPI"}, MPICH: {"MPICH", "Intel(R) MPI", "MVAPICH"}}
	for i := range abis {
		for _, word := range words[abis[i].kind] {
			if strings.Contains(version, word) {
				return &abis[i], nil
			}
		}
	}
	return nil, fmt.Errorf("it calls itself %q: wanted Open MPI, or MPICH or one that is compatible with it",
		firstLine(version))
}

// shortVersion is a version as messages name it: "Open MPI v4.1.4", "MPICH Version: 4.0.2".
func shortVersion(version string) string {
	s, _, _ := strings.Cut(firstLine(version), ",")
	return strings.Join(strings.Fields(s), " ")
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
