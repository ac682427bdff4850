// Bounds on the threads of a block. A block has 65536 registers, so the compiler must know of kernels that are launched
// with more than 256 threads: without a bound it may give each thread 255 of them, and the launch fails (CUDA C
// Programming Guide, section on launch bounds). The host's double of the driver refuses such launches of kernels
// without a bound.
#ifndef MEMOPT_BOUNDS_H
#define MEMOPT_BOUNDS_H

// THREADS_AT_MOST stands before a KERNEL whose blocks have up to so many threads, and names it and its arguments.
#ifdef MEMOPT_HOST
#define THREADS_AT_MOST(most, name, args)
#else
#define THREADS_AT_MOST(most, name, args) MEMOPT_THREADS_AT_MOST(most, name, args) // so that name may be a macro
#define MEMOPT_THREADS_AT_MOST(most, name, args) \
	extern "C" __attribute__((global)) __attribute__((launch_bounds(most))) void name(const args a);
#endif

// TEAM_THREADS is teamThreads of rows.go: the most threads of a team of rows.h.
#define TEAM_THREADS 512
#endif
