// Scatters: rows of updates are combined with the rows of the destination that their offsets name. Two runs give the
// same bits: updates are sorted by their destination, those of the same one staying in their order, and one thread
// combines all updates of an element, in that order. This is the order of the host, too.
//
// The sort is by digits of 4 bits, the lowest first, each pass keeping the order of equal digits: a count of digits per
// tile, a sum over tiles, and a move (Satish, Harris, Garland: Designing efficient sorting algorithms for manycore
// GPUs; IPDPS 2009).
#include "move.h"
#include "bounds.h"

#define DIGITS 16
#define SORT_THREADS 256 // scatter.go launches as many
#define PER_THREAD 8
#define SORT_TILE (SORT_THREADS * PER_THREAD)

// keys_args: key i is offset i by scale, the row of the destination, and comes from update i.
struct keys_args {
	const i64 *offsets;
	u32 *keys, *ids;
	i64 n, scale;
};

KERNEL(scatter_keys, keys_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		a.keys[i] = (u32)(a.offsets[i] / a.scale);
		a.ids[i] = (u32)i;
	}
}

// sort_args are of one pass, by the digit at shift. counts has the digits of all tiles, tiles to a digit.
struct sort_args {
	const u32 *keys, *ids;
	u32 *to_keys, *to_ids, *counts;
	u32 n, tiles, shift;
};

// warp_scan returns the sum of x over the threads of the warp up to this one.
DEV inline u32 warp_scan(u32 x) {
	u32 lane = thread_x() % WARP;
	for (u32 o = 1; o < WARP; o *= 2) {
		u32 y = shuffle_up(x, o);
		if (lane >= o) x += y;
	}
	return x;
}

// block_scan returns the sum of x over the threads before this one. partial has 32 elements; total becomes the sum over
// all.
DEV inline u32 block_scan(u32 x, u32 *partial, u32 *total) {
	u32 lane = thread_x() % WARP, warp = thread_x() / WARP, warps = block_size() / WARP;
	u32 sum = warp_scan(x);
	barrier(); // partial may still be read
	if (lane == WARP - 1) partial[warp] = sum;
	barrier();
	u32 sums = warp_scan(lane < warps ? partial[lane] : 0);
	u32 before = shuffle_at(sums, (warp + WARP - 1) % WARP);
	*total = shuffle_at(sums, warps - 1);
	return (warp > 0 ? before : 0) + sum - x;
}

KERNEL(sort_count, sort_args) {
	SHARED(u32, counts, DIGITS);
	for (u32 tile = block_x(); tile < a.tiles; tile += grid_x()) {
		barrier();
		if (thread_x() < DIGITS) counts[thread_x()] = 0;
		barrier();
		for (u32 j = 0; j < PER_THREAD; j++) {
			u32 i = tile * SORT_TILE + j * SORT_THREADS + thread_x();
			if (i < a.n)
				atomic_add(&counts[a.keys[i] >> a.shift & (DIGITS - 1)], 1u); // of integers: any order gives the same
		}
		barrier();
		if (thread_x() < DIGITS) a.counts[thread_x() * a.tiles + tile] = counts[thread_x()];
	}
}

// sort_sum makes of each count the sum of those before it. It runs in one block.
THREADS_AT_MOST(1024, sort_sum, sort_args)
KERNEL(sort_sum, sort_args) {
	SHARED(u32, partial, WARP);
	u32 n = DIGITS * a.tiles, carry = 0;
	for (u32 first = 0; first < n; first += block_size()) {
		u32 i = first + thread_x(), total;
		u32 before = block_scan(i < n ? a.counts[i] : 0, partial, &total);
		if (i < n) a.counts[i] = carry + before;
		carry += total;
	}
}

// sort_move: each thread has PER_THREAD neighbours; a sum over the threads' counts of each digit tells where its first
// one goes.
KERNEL(sort_move, sort_args) {
	SHARED(u32, counts, DIGITS * SORT_THREADS);
	SHARED(u32, starts, DIGITS);
	SHARED(u32, partial, WARP);
	u32 t = thread_x();
	for (u32 tile = block_x(); tile < a.tiles; tile += grid_x()) {
		barrier(); // counts may still be read
		for (u32 d = 0; d < DIGITS; d++) counts[d * SORT_THREADS + t] = 0;
		u32 first = tile * SORT_TILE + t * PER_THREAD, end = first + PER_THREAD < a.n ? first + PER_THREAD : a.n;
		for (u32 i = first; i < end; i++) counts[(a.keys[i] >> a.shift & (DIGITS - 1)) * SORT_THREADS + t]++;
		barrier();
		u32 sum = 0, total;
		for (u32 j = 0; j < DIGITS; j++) sum += counts[t * DIGITS + j];
		u32 before = block_scan(sum, partial, &total);
		for (u32 j = 0; j < DIGITS; j++) {
			u32 here = counts[t * DIGITS + j];
			counts[t * DIGITS + j] = before;
			if ((t * DIGITS + j) % SORT_THREADS == 0) starts[(t * DIGITS + j) / SORT_THREADS] = before;
			before += here;
		}
		barrier();
		for (u32 i = first; i < end; i++) {
			u32 key = a.keys[i], d = key >> a.shift & (DIGITS - 1);
			u32 to = a.counts[d * a.tiles + tile] + counts[d * SORT_THREADS + t]++ - starts[d];
			a.to_keys[to] = key;
			a.to_ids[to] = a.ids[i];
		}
	}
}

// combine_args: rows of inner elements, sorted by key; box is inner and count. Parts of the destination have stride
// elements.
struct combine_args {
	const u32 *keys, *ids;
	const void *updates;
	void *y;
	i64 n, stride; // n: elements of all updates
	u32 count, inner;
	i32 op; // 1 add, 2 multiply, 3 max, 4 min
	axes box;
};

// replace_loop: the last update of a row is what stays.
template <typename E> DEV inline void replace_loop(const combine_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		place at = place_of(a.box, i, a.n);
		u32 p = (u32)at.row, key = a.keys[p];
		if (p + 1 < a.count && a.keys[p + 1] == key) continue;
		E v = ((const E *)a.updates)[(at.part * a.count + a.ids[p]) * a.inner + at.col];
		((E *)a.y)[at.part * a.stride + (i64)key * a.inner + at.col] = v;
	}
}

template <typename C> DEV inline bool is_negative(C x) { return x < 0; }
template <> DEV inline bool is_negative(f32 x) { return bits_of(x) >> 31; }
template <> DEV inline bool is_negative(f64 x) { return bits_of(x) >> 63; }

// larger of two: NaN wins over all, and 0 over -0.
template <typename C> DEV inline C larger(C x, C y) {
	return x != x ? x : y != y ? y : x > y ? x : y > x ? y : is_negative(x) ? y : x;
}
template <typename C> DEV inline C smaller(C x, C y) {
	return x != x ? x : y != y ? y : x < y ? x : y < x ? y : is_negative(x) ? x : y;
}

template <typename C> DEV inline C combined(i32 op, C x, C y) {
	switch (op) {
	case 1: return x + y;
	case 2: return x * y;
	case 3: return larger(x, y);
	}
	return smaller(x, y);
}

// combine_loop: the thread of the first update of an element does all of them. The sum of 16-bit floats is rounded
// once.
template <typename T> DEV inline void combine_loop(const combine_args &a) {
	const T *updates = (const T *)a.updates;
	T *y = (T *)a.y;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		place at = place_of(a.box, i, a.n);
		u32 p = (u32)at.row, key = a.keys[p];
		if (p > 0 && a.keys[p - 1] == key) continue;
		i64 to = at.part * a.stride + (i64)key * a.inner + at.col;
		typename compute<T>::type v = load(y[to]);
		for (; p < a.count && a.keys[p] == key; p++)
			v = combined(a.op, v, load(updates[(at.part * a.count + a.ids[p]) * a.inner + at.col]));
		y[to] = store<T>(v);
	}
}

KERNEL(replace_1, combine_args) { replace_loop<u8>(a); }
KERNEL(replace_2, combine_args) { replace_loop<u16>(a); }
KERNEL(replace_4, combine_args) { replace_loop<u32>(a); }
KERNEL(replace_8, combine_args) { replace_loop<u64>(a); }
KERNEL(combine_f32, combine_args) { combine_loop<f32>(a); }
KERNEL(combine_f64, combine_args) { combine_loop<f64>(a); }
KERNEL(combine_f16, combine_args) { combine_loop<f16>(a); }
KERNEL(combine_bf16, combine_args) { combine_loop<bf16>(a); }
KERNEL(combine_i32, combine_args) { combine_loop<i32>(a); }
KERNEL(combine_i64, combine_args) { combine_loop<i64>(a); }
