// Questions about all elements of many tensors: whether all are finite, and the root of the sum of their squares. A
// launch takes up to MANY tensors, cut into chunks of CHUNK elements that blocks take in turn.
#include "anyfloat.h"

#define MANY 64
#define CHUNK 16384
#define STAT_F64 3

struct many_args {
	const void *x[MANY];
	i64 n[MANY];
	i32 first[MANY + 1]; // chunk; the last one is the number of chunks
	u32 type[MANY];      // STAT_, or STAT_F64
	i32 count;
	u32 infinite, nan;   // all_finite: what counts as not finite
	u8 *finite;          // all_finite: is set to 0 where something is found
	f64 *sums;           // squares: of each chunk
};

// tensor_of returns which tensor a chunk belongs to: the last one that begins at it or before.
DEV inline i32 tensor_of(const many_args &a, i32 chunk) {
	i32 lo = 0, hi = a.count;
	while (hi - lo > 1) {
		i32 mid = (lo + hi) / 2;
		if (a.first[mid] <= chunk) lo = mid;
		else hi = mid;
	}
	return lo;
}

// chunk_sum adds up F::of of this thread's elements of a chunk, in an order that depends on the chunk's length alone.
template <typename F> DEV inline typename F::sum chunk_sum(const many_args &a, i32 chunk) {
	i32 k = tensor_of(a, chunk);
	const void *x = a.x[k];
	u32 type = a.type[k];
	i64 lo = (i64)(chunk - a.first[k]) * CHUNK, hi = lo + CHUNK < a.n[k] ? lo + CHUNK : a.n[k];
	typename F::sum sum = 0;
	if (type == STAT_F64) {
		for (i64 i = lo + thread_x(); i < hi; i += block_size()) sum += F::of(a, ((const f64 *)x)[i]);
		return sum;
	}
	i64 done = lo;
	if (aligned16(x)) {
		done = lo + (hi - lo) / 4 * 4;
		for (i64 i = lo / 4 + thread_x(); i < done / 4; i += block_size()) {
			four f = stat4(x, type, i);
			UNROLL
			for (int j = 0; j < 4; j++) sum += F::of(a, f.v[j]);
		}
	}
	for (i64 i = done + thread_x(); i < hi; i += block_size()) sum += F::of(a, stat(x, type, i));
	return sum;
}

struct special {
	typedef u32 sum;
	template <typename C> DEV static u32 of(const many_args &a, C x) {
		return x - x == 0 ? 0 : x != x ? a.nan : a.infinite;
	}
};

KERNEL(all_finite, many_args) {
	u32 found = 0;
	for (i32 chunk = block_x(); chunk < a.first[a.count]; chunk += grid_x()) found |= chunk_sum<special>(a, chunk);
	if (found) *a.finite = 0;
}

struct square {
	typedef f64 sum;
	template <typename C> DEV static C of(const many_args &, C x) { return x * x; }
};

// squares adds up a chunk's squares with one block: those of narrower types are rounded to f32, their sums are f64.
KERNEL(squares, many_args) {
	SHARED(f64, partial, WARP);
	for (i32 chunk = block_x(); chunk < a.first[a.count]; chunk += grid_x()) {
		f64 sum = block_sum(chunk_sum<square>(a, chunk), partial);
		if (thread_x() == 0) a.sums[chunk] = sum;
	}
}

struct root_args {
	const f64 *sums;
	void *y;
	i64 n;
	u32 type;
};

// root stores the root of the sum of all sums, by one block.
KERNEL(root_any, root_args) {
	SHARED(f64, partial, WARP);
	f64 sum = 0;
	for (i64 i = thread_x(); i < a.n; i += block_size()) sum += a.sums[i];
	sum = square_root(block_sum(sum, partial));
	if (thread_x() != 0) return;
	if (a.type == STAT_F64) *(f64 *)a.y = sum;
	else put_stat(a.y, a.type, 0, (f32)sum);
}
