// Package mpi has the ranks of a job that a launcher starts as processes: mpirun of Open MPI or MPICH,
// or srun. Find reads the rank of this process from the environment, and Open joins the others by the
// MPI library that is installed: libmpi is opened at run time, there is no cgo. Names are those of the
// standard (MPI: A Message-Passing Interface Standard 4.1).
//
// One goroutine, locked to its thread, makes all calls of the library. No call blocks: calls such as
// MPI_Isend begin operations, and MPI_Testall polls them, between naps, so that a rank that waits
// takes no processor from those that compute.
//
// Every operation begins with a message of each rank to each other one that describes its call. So
// ranks with different calls learn of it, waiting ranks know the missing ones, and data move only once
// all have called.
package mpi
