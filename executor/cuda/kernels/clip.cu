// Clip, for all numbers: max(x, low), then min(that, high). NaN stays.
#include "elementwise.h"

// Integers that memopt.h does not load are loaded as they are.
DEV inline i8 load(i8 x) { return x; }
DEV inline i16 load(i16 x) { return x; }
DEV inline u16 load(u16 x) { return x; }
DEV inline u32 load(u32 x) { return x; }
DEV inline u64 load(u64 x) { return x; }

struct clip_args {
	const void *x, *low, *high; // bounds of one element; null where there is none
	void *y;
	i64 n;
	f32 least, most; // bounds that are attributes, in place of pointers
	u32 given;       // whether they are
};

// clipped holds x in the bounds that there are.
template <typename C> DEV inline C clipped(C x, C low, C high, bool from, bool to) {
	if (from && !(x != x || x > low)) x = low;
	if (to && !(x != x || x < high)) x = high;
	return x;
}

template <typename X> DEV inline void clip_loop(const clip_args &a) {
	typedef typename compute<X>::type C;
	const int W = vector<X>::width;
	const X *x = (const X *)a.x;
	X *y = (X *)a.y;
	bool from = a.given || a.low, to = a.given || a.high;
	C low = a.low ? (C)load(*(const X *)a.low)
	    : a.given ? (C)a.least
	              : (C)0,
	  high = a.high ? (C)load(*(const X *)a.high)
	    : a.given   ? (C)a.most
	                : (C)0;
	i64 first = global_thread(), step = global_threads(), done = 0;
	if (aligned16(x) && aligned16(y)) {
		i64 packs = a.n / W;
		for (i64 i = first; i < packs; i += step) {
			pack<X, W> p = ((const pack<X, W> *)x)[i];
			UNROLL
			for (int j = 0; j < W; j++) p.v[j] = store<X>(clipped<C>((C)load(p.v[j]), low, high, from, to));
			((pack<X, W> *)y)[i] = p;
		}
		done = packs * W;
	}
	for (i64 i = done + first; i < a.n; i += step) y[i] = store<X>(clipped<C>((C)load(x[i]), low, high, from, to));
}

#define CLIP(type) KERNEL(clip_##type, clip_args) { clip_loop<type>(a); }
CLIP(f32)
CLIP(f64)
CLIP(f16)
CLIP(bf16)
CLIP(i8)
CLIP(i16)
CLIP(i32)
CLIP(i64)
CLIP(u8)
CLIP(u16)
CLIP(u32)
CLIP(u64)
