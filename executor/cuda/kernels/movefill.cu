// Constants and patterns: fills, ranges, diagonals, triangles, one-hot axes and borders, for elements by their size.
#include "move.h"

struct fill_args {
	u8 *y;
	i64 bytes;
	u64 value; // the element, repeated
};

KERNEL(fill_bytes, fill_args) {
	i64 first = global_thread(), step = global_threads(), done = 0;
	if (aligned16(a.y)) {
		pack<u64, 2> p = {{a.value, a.value}};
		done = a.bytes & ~15ll;
		for (i64 i = first; i < done / 16; i += step) ((pack<u64, 2> *)a.y)[i] = p;
	}
	for (i64 i = done + first; i < a.bytes; i += step) a.y[i] = (u8)(a.value >> (i % 8 * 8));
}

// range_args: y[i] = start + i*delta; one of the pairs counts.
struct range_args {
	void *y;
	i64 n, start, delta;
	f64 real_start, real_delta;
};

KERNEL(range_i64, range_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads())
		((u64 *)a.y)[i] = (u64)a.start + (u64)i * (u64)a.delta;
}
KERNEL(range_i32, range_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads())
		((u32 *)a.y)[i] = (u32)a.start + (u32)i * (u32)a.delta;
}

template <typename T> DEV inline void range_loop(const range_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		T step = multiply((T)i, (T)a.real_delta);
		((T *)a.y)[i] = (T)a.real_start + step;
	}
}
KERNEL(range_f32, range_args) { range_loop<f32>(a); }
KERNEL(range_f64, range_args) { range_loop<f64>(a); }

// eye_args: a matrix of n elements with value where column - row = k, else 0.
struct eye_args {
	void *y;
	i64 n, k;
	u64 value;
	i64 cols;
};

template <typename E> DEV inline void eye_loop(const eye_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 row = i / a.cols;
		((E *)a.y)[i] = i - row * a.cols - row == a.k ? (E)a.value : (E)0;
	}
}

// trilu_args: matrices of which columns from row+diag on are kept (upper), or those up to it.
struct trilu_args {
	const void *x;
	void *y;
	i64 n, diag;
	axes box; // cols, rows
	u32 upper;
};

template <typename E> DEV inline void trilu_loop(const trilu_args &a) {
	const E *x = (const E *)a.x;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		place at = place_of(a.box, i, a.n);
		i64 edge = at.row + a.diag;
		E v = x[i];
		((E *)a.y)[i] = (a.upper ? at.col >= edge : at.col <= edge) ? v : (E)0;
	}
}

// onehot_args: along an axis of depth, the second of two values at the place that x names, else the first.
struct onehot_args {
	const void *x, *values;
	void *y;
	i64 n, depth, inner;
	u32 wide; // indices have 64 bits, else 32
};

template <typename E> DEV inline void onehot_loop(const onehot_args &a) {
	const E *values = (const E *)a.values;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 q = i / a.inner, part = q / a.depth, at = part * a.inner + (i - q * a.inner);
		i64 v = a.wide ? ((const i64 *)a.x)[at] : ((const i32 *)a.x)[at];
		v += v < 0 ? a.depth : 0;
		((E *)a.y)[i] = values[v == q - part * a.depth ? 1 : 0];
	}
}

// pad_args: y has an axis for each of box; place j of it is place j - before of the kept places of x, of which there
// are kept.
struct pad_args {
	const void *x;
	void *y;
	i64 n, from_at;
	u64 value;
	i32 mode; // 0 constant (pad), 1 reflect, 2 edge, 3 wrap (border)
	axes box;
	i64 before[MOVE_DIMS], kept[MOVE_DIMS], from[MOVE_DIMS];
};

// pad_outside maps a place outside 0..n-1 to one inside. Places are below 2^31 (pad.go).
DEV inline i64 pad_outside(i32 mode, i32 j, i32 n) {
	if (mode == 2 || n == 1) return j < 0 ? 0 : n - 1;
	u32 period = mode == 3 ? n : 2 * (n - 1);
	u32 at = j < 0 ? period - 1 - (u32)(-j - 1) % period : (u32)j % period;
	return mode == 1 && at >= (u32)n ? period - at : at;
}

template <typename E> DEV inline void pad_loop(const pad_args &a) {
	const E *x = (const E *)a.x;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 at = a.from_at;
		bool inside = true;
		walk(a.box, i, a.n, [&](int d, i64 r) {
			i64 j = r - a.before[d];
			inside = inside && j >= 0 && j < a.kept[d];
			at += j * a.from[d];
		});
		((E *)a.y)[i] = inside ? x[at] : (E)a.value;
	}
}

// border_loop is pad_loop where places outside have elements of x. Its axes are not unrolled: there is much code to
// each.
template <typename E> DEV inline void border_loop(const pad_args &a) {
	const E *x = (const E *)a.x;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 at = a.from_at, left = i;
		for (int d = 0; d < a.box.n; d++) {
			i64 q = left < 1ll << 31 ? divide((u32)left, a.box.by[d]) : left / a.box.by[d].d;
			i64 j = left - q * a.box.by[d].d - a.before[d];
			if (j < 0 || j >= a.kept[d]) j = pad_outside(a.mode, (i32)j, (i32)a.kept[d]);
			at += j * a.from[d];
			left = q;
		}
		((E *)a.y)[i] = x[at];
	}
}

#define WORDS(name, args)                                \
	KERNEL(name##_1, args) { name##_loop<u8>(a); }   \
	KERNEL(name##_2, args) { name##_loop<u16>(a); }   \
	KERNEL(name##_4, args) { name##_loop<u32>(a); }   \
	KERNEL(name##_8, args) { name##_loop<u64>(a); }
WORDS(eye, eye_args)
WORDS(trilu, trilu_args)
WORDS(onehot, onehot_args)
WORDS(pad, pad_args)
WORDS(border, pad_args)
