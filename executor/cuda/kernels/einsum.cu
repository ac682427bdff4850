// Einsum's sums over axes, and its products of matrices that are too small for the library or of integers.
#include "move.h"

// sum is in what elements are added up: integers wrap around.
template <typename T> struct sum_of { typedef typename compute<T>::type type; };
template <> struct sum_of<u8> { typedef u32 type; };
template <> struct sum_of<u16> { typedef u32 type; };
template <> struct sum_of<u32> { typedef u32 type; };
template <> struct sum_of<u64> { typedef u64 type; };
DEV inline u32 load(u16 x) { return x; }
DEV inline u32 load(u32 x) { return x; }
DEV inline u64 load(u64 x) { return x; }

// einsumsum_args: each of n results is the sum of terms elements. Strides are in the order of the axes.
struct einsumsum_args {
	const void *x;
	void *y;
	i64 n, terms;
	axes kept;
	i64 kept_step[MOVE_DIMS];
	axes summed;
	i64 summed_step[MOVE_DIMS];
};

template <typename T> DEV inline const T *first_term(const einsumsum_args &a, i64 i) {
	i64 at = 0;
	walk(a.kept, i, a.n, [&](int d, i64 r) { at += r * a.kept_step[d]; });
	return (const T *)a.x + at;
}
template <typename T> DEV inline typename sum_of<T>::type term(const einsumsum_args &a, const T *x, i64 j) {
	i64 at = 0;
	walk(a.summed, j, a.terms, [&](int d, i64 r) { at += r * a.summed_step[d]; });
	return load(x[at]);
}

// einsumsum has a thread for each result: neighbours read neighbours where the results' last axis is the operand's.
template <typename T> DEV inline void einsumsum(const einsumsum_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		const T *x = first_term<T>(a, i);
		typename sum_of<T>::type s = 0;
		for (i64 j = 0; j < a.terms; j++) s += term(a, x, j);
		((T *)a.y)[i] = store<T>(s);
	}
}

// einsumteam has a warp or a block for each result.
template <typename T> DEV inline void einsumteam(const einsumsum_args &a, typename sum_of<T>::type *partial) {
	for (i64 i = (i64)block_x() * block_rows() + thread_y(); i < a.n; i += (i64)grid_x() * block_rows()) {
		const T *x = first_term<T>(a, i);
		typename sum_of<T>::type s = 0;
		for (i64 j = thread_x(); j < a.terms; j += block_size()) s += term(a, x, j);
		s = block_size() == WARP ? warp_sum(s) : block_sum(s, partial);
		if (thread_x() == 0) ((T *)a.y)[i] = store<T>(s);
	}
}

// einsumproduct_args: each of n results is the sum of k products. Axes are columns, rows and those of the batch.
struct einsumproduct_args {
	const void *a, *b;
	void *c;
	i64 n, k;
	i64 a_step, b_step; // from one term to the next
	axes of;
	i64 a_axis[MOVE_DIMS], b_axis[MOVE_DIMS], c_axis[MOVE_DIMS];
};

template <typename T> DEV inline void einsumproduct(const einsumproduct_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 at = 0, bt = 0, ct = 0;
		walk(a.of, i, a.n, [&](int d, i64 r) { at += r * a.a_axis[d], bt += r * a.b_axis[d], ct += r * a.c_axis[d]; });
		const T *x = (const T *)a.a + at, *y = (const T *)a.b + bt;
		typename sum_of<T>::type s = 0;
		for (i64 j = 0; j < a.k; j++) s += load(x[j * a.a_step]) * load(y[j * a.b_step]);
		((T *)a.c)[ct] = store<T>(s);
	}
}

#define EINSUM(name, T)                                                            \
	KERNEL(einsumsum_##name, einsumsum_args) { einsumsum<T>(a); }                  \
	KERNEL(einsumteam_##name, einsumsum_args) {                                    \
		SHARED(sum_of<T>::type, partial, WARP);                                    \
		einsumteam<T>(a, partial);                                                 \
	}                                                                              \
	KERNEL(einsumproduct_##name, einsumproduct_args) { einsumproduct<T>(a); }

EINSUM(f32, f32)
EINSUM(f64, f64)
EINSUM(f16, f16)
EINSUM(bf16, bf16)
EINSUM(1, u8)
EINSUM(2, u16)
EINSUM(4, u32)
EINSUM(8, u64)
