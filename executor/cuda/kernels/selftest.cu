// The parts that kernels are built of, for tests on the double and on a GPU: sums over warps and blocks, shuffles,
// barriers, atomics, shared memory, half types. Every result is known in integers.
#include "memopt.h"

struct selftest_args {
	const i32 *x;
	i32 *y;
	i64 n;
};

// One block per row of block_size numbers: y[row] is the row's sum.
KERNEL(selftest_block_sum, selftest_args) {
	SHARED(i32, partial, WARP);
	i64 at = (i64)block_x() * block_size() + thread_x();
	i32 sum = block_sum(at < a.n ? a.x[at] : 0, partial);
	i32 again = block_sum(sum, partial); // partial is free again
	if (thread_x() == 0) a.y[block_x()] = again == sum * (i32)block_size() ? sum : -1;
}

// y[i] is the largest x of the warp of i.
KERNEL(selftest_warp_max, selftest_args) {
	i64 i = global_thread();
	i32 most = warp_max(a.x[i]);
	a.y[i] = most;
}

// y[i] is x[i] + 1000 x[one lane on] + 100000 x[two lanes back], lanes beyond the warp's ends being i's own.
KERNEL(selftest_shuffles, selftest_args) {
	i64 i = global_thread();
	i32 x = a.x[i];
	i32 down = shuffle_down(x, 1u), up = shuffle_up(x, 2u);
	i64 pair = shuffle_at((i64)x << 32 | 7, 3u); // 64 bits go whole
	a.y[i] = pair == ((i64)shuffle_at(x, 3u) << 32 | 7) ? x + 1000 * down + 100000 * up : -1;
}

// y is x reversed within each block, by way of dynamic shared memory.
KERNEL(selftest_reverse, selftest_args) {
	DYNAMIC_SHARED(i32, all);
	i64 i = global_thread();
	all[thread_x()] = a.x[i];
	barrier();
	a.y[i] = all[block_size() - 1 - thread_x()];
}

// y[0] is the sum of all x, y[1] the largest.
KERNEL(selftest_atomics, selftest_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		atomic_add(&a.y[0], a.x[i]);
		atomic_max(&a.y[1], a.x[i]);
	}
}

// y[i] has the bits of the f16 and of the bf16 nearest to the float whose bits are x[i].
KERNEL(selftest_halves, selftest_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		f32 v = from_bits((u32)a.x[i]);
		a.y[i] = (i32)((u32)store<f16>(v).bits << 16 | store<bf16>(v).bits);
	}
}

// y[i] has the bits of the float that the f16 in the lower half of x[i] is.
KERNEL(selftest_widen, selftest_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) a.y[i] = (i32)bits_of(load(f16{(u16)a.x[i]}));
}

#ifdef MEMOPT_HOST
// Faults that the double must find: a barrier that half of the threads skip, shared memory that no thread has
// written, a result that depends on the order of threads, a write beyond an operand.
KERNEL(selftest_skips_barrier, selftest_args) {
	if (thread_x() < block_size() / 2) barrier();
	a.y[0] = 1;
}
KERNEL(selftest_reads_nothing, selftest_args) {
	SHARED(i32, nothing, WARP);
	a.y[thread_x()] = nothing[thread_x()];
	nothing[thread_x()] = 5;
}
KERNEL(selftest_races, selftest_args) { a.y[0] = (i32)thread_x(); }
KERNEL(selftest_writes_beyond, selftest_args) { a.y[a.n] = 1; }
KERNEL(selftest_writes_input, selftest_args) { ((i32 *)a.x)[0] = 12345; }
#endif
