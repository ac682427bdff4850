// Sums of weighted elements along resized axes. resize_TYPE.cu defines T and includes this.
#include "resize.h"

// Loops in loops that are unrolled make more code than they save time.
#ifdef __clang__
#define NO_UNROLL _Pragma("nounroll")
#else
#define NO_UNROLL
#endif

// summed sums up along dim D and the dims within it; a dim that is not resized has one element of weight 1.
template <int D> struct summed {
	DEV static inline f32 of(const resize_args &a, const i64 *o, i64 at) {
		const resized &r = a.dim[D];
		bool same = D >= a.dims || r.same;
		i32 e = 0, end = 1;
		if (!same) e = a.table[r.start + o[D]], end = a.table[r.start + o[D] + 1];
		f32 sum = 0;
NO_UNROLL
		for (; e < end; e++) {
			f32 w = 1;
			i64 step = o[D];
			if (!same) w = from_bits((u32)a.table[r.weight + e]), step = a.table[r.index + e];
			if (w != 0) sum += w * summed<D - 1>::of(a, o, at + step * r.stride);
		}
		return sum;
	}
};
template <> struct summed<-1> {
	DEV static inline f32 of(const resize_args &a, const i64 *, i64 at) { return load(((const T *)a.x)[at]); }
};

KERNEL(JOIN(filter, T), resize_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 left = i, o[RESIZED_DIMS];
		bool outside = false;
UNROLL
		for (int d = 0; d < RESIZED_DIMS; d++) {
			o[d] = 0;
			if (d < a.dims) {
				const resized &r = a.dim[d];
				i64 q = quotient(left, r.by, a.n);
				o[d] = left - q * r.by.d;
				left = q;
				if (!r.same) outside = outside || a.table[r.start + o[d]] == a.table[r.start + o[d] + 1];
			}
		}
		((T *)a.y)[i] = store<T>(outside ? from_bits((u32)a.fill) : summed<RESIZED_DIMS - 1>::of(a, o, 0));
	}
}
