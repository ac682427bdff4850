// Reductions of elements of type T, which reduce_TYPE.cu defines: all elements of a chunk by a team of threads (rows),
// or neighbouring results by neighbouring threads (columns). Chunks of one result are put together by parts. The
// elements that a thread adds depend on the shape alone.
#include "rows.h"

#define MAX_FOLDS 8

// ROLLED before a loop asks for it not to be unrolled.
#ifdef __clang__
#define ROLLED _Pragma("nounroll")
#else
#define ROLLED
#endif

// reduce_args: a result is made of runs runs, each of inner neighbouring elements, or, where neighbours belong to
// neighbouring results (columns), of one element for each of inner results. Dims are listed the innermost first.
struct reduce_args {
	const void *x;
	void *y;
	void *part; // accumulators [result][chunk] where there is more than one chunk
	i64 outs;   // results, or rows of inner results
	i64 inner, runs;
	i64 chunks, chunk; // chunks per result; elements (rows) or runs (columns) in one
	i64 count;         // elements of a result
	u32 of, finish, wide;
	i32 kept_dims, fold_dims;
	i64 kept[MAX_FOLDS], kept_step[MAX_FOLDS], fold[MAX_FOLDS], fold_step[MAX_FOLDS];
	divider by_inner;
};

// What of the elements is added, and what is done to a sum at last.
enum { OF_ITSELF, OF_SIZE, OF_SQUARE };
enum { FINISH_NONE, FINISH_MEAN, FINISH_ROOT, FINISH_LOG };

DEV inline i64 dims_offset(i64 i, i32 dims, const i64 *dim, const i64 *step) {
	i64 at = 0;
ROLLED
	for (i32 d = 0; d + 1 < dims; d++) {
		i64 q = i / dim[d];
		at += (i - q * dim[d]) * step[d];
		i = q;
	}
	return dims > 0 ? at + i * step[dims - 1] : 0;
}

#ifdef ORDER_ONLY
typedef i32 C; // bytes are compared only
#else
typedef compute<T>::type C;
#endif

// An operator has an accumulator, what it is at first, how an element is added, how two are put together, how one is
// moved between threads, and its result.
template <typename A> struct plain_op {
	typedef A acc;
	static const int loads = 1; // packs that are asked for before the first is used
	DEV static A from(A a, u32 mask) { return shuffle_xor(a, mask); }
	DEV static C result(A a, const reduce_args &) { return (C)a; }
};
struct add_op : plain_op<C> {
	DEV static C start() { return 0; }
	DEV static void merge(C &a, C b) { a += b; }
	DEV static C result(C a, const reduce_args &r) {
		if (r.finish == FINISH_MEAN) return a / (C)r.count;
#ifdef FLOAT
		if (r.finish == FINISH_ROOT) return square_root(a);
		if (r.finish == FINISH_LOG) return logarithm(a);
#endif
		return a;
	}
};
// What of an element is added: one branch for all, and one kernel for six operators.
struct sum_op : add_op {
	static const int loads = 4;
	DEV static void add(C &a, C x, u32 of) { a += of == OF_SQUARE ? x * x : of == OF_SIZE && x < 0 ? -x : x; }
};
struct prod_op : plain_op<C> {
	DEV static C start() { return 1; }
	DEV static void add(C &a, C x, u32) { a *= x; }
	DEV static void merge(C &a, C b) { a *= b; }
};
struct max_op : plain_op<C> {
	DEV static C start() { return LEAST; }
	DEV static void add(C &a, C x, u32) { a = larger_of(a, x); }
	DEV static void merge(C &a, C b) { a = larger_of(a, b); }
};
struct min_op : plain_op<C> {
	DEV static C start() { return GREATEST; }
	DEV static void add(C &a, C x, u32) { a = smaller_of(a, x); }
	DEV static void merge(C &a, C b) { a = smaller_of(a, b); }
};
#ifdef FLOAT
struct logexp_op {
	typedef log_sum acc;
	static const int loads = 1;
	DEV static acc start() { return log_sum{-F32_INF, 0}; }
	DEV static void add(acc &a, f32 x, u32) { log_add(a, x); }
	DEV static void merge(acc &a, const acc &b) { log_merge(a, b); }
	DEV static acc from(const acc &a, u32 mask) { return log_sum{shuffle_xor(a.m, mask), shuffle_xor(a.s, mask)}; }
	DEV static f32 result(const acc &a, const reduce_args &) { return a.m + logarithm(a.s); }
};
#endif

template <typename O> DEV inline typename O::acc warp_fold(typename O::acc a) {
	for (u32 o = WARP / 2; o > 0; o >>= 1) {
		typename O::acc b = O::from(a, o);
		O::merge(a, b);
	}
	return a;
}

// team_fold puts a team's accumulators together, on its first thread.
template <typename O> DEV inline typename O::acc team_fold(typename O::acc a, typename O::acc *partial) {
	a = warp_fold<O>(a);
	if (block_size() == WARP) return a;
	u32 lane = thread_x() % WARP, warp = thread_x() / WARP, warps = block_size() / WARP;
	barrier();
	if (lane == 0) partial[warp] = a;
	barrier();
	a = lane < warps ? partial[lane] : O::start();
	return warp_fold<O>(a);
}

template <typename O> DEV inline void put(const reduce_args &a, i64 result, i64 chunk, const typename O::acc &v) {
	if (a.chunks > 1) ((typename O::acc *)a.part)[result * a.chunks + chunk] = v;
	else ((T *)a.y)[result] = store<T>(O::result(v, a));
}

template <typename O, int W> DEV inline void reduce_rows(const reduce_args &a, typename O::acc *partial) {
	const i64 step = (i64)block_size() * W;
	for (i64 t = team_row(); t < a.outs * a.chunks; t += team_rows()) {
		i64 result = a.chunks > 1 ? t / a.chunks : t, chunk = t - result * a.chunks;
		const T *x = (const T *)a.x + dims_offset(result, a.kept_dims, a.kept, a.kept_step);
		i64 end = (chunk + 1) * a.chunk;
		if (end > a.count) end = a.count;
		typename O::acc v = O::start();
		for (i64 e = chunk * a.chunk + (i64)thread_x() * W; e < end; e += O::loads * step) {
			pack<T, W> p[O::loads];
UNROLL
			for (int k = 0; k < O::loads; k++) {
				i64 i = e + k * step;
				if (i >= end) break;
				if (a.runs > 1) {
					i64 run = a.count < 1ll << 31 ? (i64)divide((u32)i, a.by_inner) : i / a.inner;
					i += dims_offset(run, a.fold_dims, a.fold, a.fold_step) - run * a.inner;
				}
				p[k] = *(const pack<T, W> *)(x + i);
			}
UNROLL
			for (int k = 0; k < O::loads; k++) {
				if (e + k * step >= end) break;
UNROLL
				for (int j = 0; j < W; j++) O::add(v, load(p[k].v[j]), a.of);
			}
		}
		v = team_fold<O>(v, partial);
		if (thread_x() == 0) put<O>(a, result, chunk, v);
	}
}

// SHORT is the most elements of a result that a thread adds up alone: most threads of a warp would be idle. Blocks of
// one row of threads are launched for these.
#define SHORT 16

template <typename O, int W> DEV inline void reduce_short(const reduce_args &a) {
	for (i64 r = global_thread(); r < a.outs; r += global_threads()) {
		const T *x = (const T *)a.x + dims_offset(r, a.kept_dims, a.kept, a.kept_step);
		typename O::acc v = O::start();
		for (i64 e = 0; e < a.count; e += W) {
			pack<T, W> p = *(const pack<T, W> *)(x + e);
UNROLL
			for (int j = 0; j < W; j++) O::add(v, load(p.v[j]), a.of);
		}
		put<O>(a, r, 0, v);
	}
}

#define TILE_ROWS 8

// reduce_columns has blocks of a warp times TILE_ROWS threads: a warp for WARP*W neighbouring results.
template <typename O, int W> DEV inline void reduce_columns(const reduce_args &a, typename O::acc *partial) {
	i64 tiles = (a.inner + WARP * W - 1) / (WARP * W);
	for (i64 t = block_x(); t < a.outs * tiles * a.chunks; t += grid_x()) {
		i64 chunk = t / (a.outs * tiles), rest = t - chunk * a.outs * tiles, row = rest / tiles;
		i64 column = (rest - row * tiles) * (WARP * W) + thread_x() * W;
		i64 end = (chunk + 1) * a.chunk;
		if (end > a.runs) end = a.runs;
		typename O::acc v[W];
UNROLL
		for (int j = 0; j < W; j++) v[j] = O::start();
		if (column < a.inner) {
			const T *x = (const T *)a.x + dims_offset(row, a.kept_dims, a.kept, a.kept_step) + column;
			for (i64 r = chunk * a.chunk + thread_y(); r < end; r += O::loads * TILE_ROWS) {
				pack<T, W> p[O::loads];
UNROLL
				for (int k = 0; k < O::loads; k++) {
					i64 run = r + k * TILE_ROWS;
					if (run >= end) break;
					p[k] = *(const pack<T, W> *)(x + dims_offset(run, a.fold_dims, a.fold, a.fold_step));
				}
UNROLL
				for (int k = 0; k < O::loads; k++) {
					if (r + k * TILE_ROWS >= end) break;
UNROLL
					for (int j = 0; j < W; j++) O::add(v[j], load(p[k].v[j]), a.of);
				}
			}
		}
		barrier(); // partial may still be read
UNROLL
		for (int j = 0; j < W; j++) partial[(thread_y() * W + j) * WARP + thread_x()] = v[j];
		barrier();
		if (thread_y() != 0 || column >= a.inner) continue;
UNROLL
		for (int j = 0; j < W; j++) {
			for (u32 i = 1; i < TILE_ROWS; i++) O::merge(v[j], partial[(i * W + j) * WARP + thread_x()]);
			put<O>(a, row * a.inner + column + j, chunk, v[j]);
		}
	}
}

// reduce_parts has a warp for each result.
template <typename O> DEV inline void reduce_parts(const reduce_args &a, i64 results) {
	for (i64 t = team_row(); t < results; t += team_rows()) {
		const typename O::acc *p = (const typename O::acc *)a.part + t * a.chunks;
		typename O::acc v = O::start();
		for (i64 i = thread_x(); i < a.chunks; i += WARP) O::merge(v, p[i]);
		v = warp_fold<O>(v);
		if (thread_x() == 0) ((T *)a.y)[t] = store<T>(O::result(v, a));
	}
}

#define REDUCE(name)                                                             \
	KERNEL(JOIN(name##_rows, T), reduce_args) {                                  \
		SHARED(name##_op::acc, partial, WARP);                                   \
		if (a.count <= SHORT && a.runs == 1 && a.chunks == 1 && block_rows() == 1) { \
			if (a.wide) reduce_short<name##_op, vector<T>::width>(a);            \
			else reduce_short<name##_op, 1>(a);                                  \
		} else if (a.wide) {                                                     \
			reduce_rows<name##_op, vector<T>::width>(a, partial);                \
		} else {                                                                 \
			reduce_rows<name##_op, 1>(a, partial);                               \
		}                                                                        \
	}                                                                            \
	KERNEL(JOIN(name##_columns, T), reduce_args) {                               \
		SHARED(name##_op::acc, partial, TILE_ROWS *WARP *vector<T>::width);      \
		if (a.wide) reduce_columns<name##_op, vector<T>::width>(a, partial);     \
		else reduce_columns<name##_op, 1>(a, partial);                           \
	}                                                                            \
	KERNEL(JOIN(name##_parts, T), reduce_args) { reduce_parts<name##_op>(a, a.outs); }

REDUCE(max)
REDUCE(min)
#ifndef ORDER_ONLY
REDUCE(sum)
REDUCE(prod)
#endif
#ifdef FLOAT
REDUCE(logexp)
#endif
