// Package mpi has the ranks of a job that a launcher starts as processes: mpirun of Open MPI or MPICH,
// or srun. Find says from the environment which rank this process is, and Open joins the others by
// the MPI library that is installed: libmpi is opened at run time, there is no cgo. Names are those of
// the standard (MPI: A Message-Passing Interface Standard 4.1).
//
// One goroutine, locked to its thread, makes all calls of the library. None of them blocks: operations
// are begun by calls such as MPI_Isend and looked at by MPI_Testall, between naps, so that a rank that
// waits takes no processor from those who compute.
//
// Every operation begins with a message of each rank to each other one that says what it is. So ranks
// that call different things learn of it, those who wait know for whom, and data move only once all
// have come.
package mpi
