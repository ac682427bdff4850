// The number of ones in each row of a mask.
#include "memopt.h"

struct countones_args {
	const i32 *mask;
	i32 *y;
	i64 rows, n;
};

// countones_i32 has a warp for each row.
KERNEL(countones_i32, countones_args) {
	u32 lane = thread_x() % WARP;
	for (i64 r = global_thread() / WARP; r < a.rows; r += global_threads() / WARP) {
		i32 count = 0;
		for (i64 i = lane; i < a.n; i += WARP) count += a.mask[r * a.n + i] == 1;
		count = warp_sum(count);
		if (lane == 0) a.y[r] = count;
	}
}
