// Products with scalars and sums that ONNX Runtime's training graphs have, of floats of any types.
#include "anyfloat.h"

// scale_args: y = x times the scalar s, or divided by it where down is set.
struct scale_args {
	const void *x, *s;
	void *y;
	i64 n;
	u32 x_type, s_type, y_type;
	u32 down;
};

struct scaler {
	const scale_args &a;
	f32 s;
	DEV f32 of(f32 x) const { return a.down ? x / s : x * s; }
	DEV void one_at(i64 i) const { put_stat(a.y, a.y_type, i, of(stat(a.x, a.x_type, i))); }
	DEV void four_at(i64 i) const {
		four f = stat4(a.x, a.x_type, i);
		UNROLL
		for (int j = 0; j < 4; j++) f.v[j] = of(f.v[j]);
		put_stat4(a.y, a.y_type, i, f);
	}
};

KERNEL(scale_any, scale_args) {
	any_loop(a.n, aligned16(a.x) && aligned16(a.y), scaler{a, stat(a.s, a.s_type, 0)});
}

// scaled_sum_args: y = in[0]*by[0] + in[1]*by[1] + in[2]*by[2], without the last where in[2] is null; all of one type.
struct scaled_sum_args {
	const void *in[3];
	void *y;
	i64 n;
	u32 type;
	f32 by[3];
};

struct scaled_adder {
	const scaled_sum_args &a;
	DEV void one_at(i64 i) const {
		f32 sum = stat(a.in[0], a.type, i) * a.by[0] + stat(a.in[1], a.type, i) * a.by[1];
		if (a.in[2]) sum += stat(a.in[2], a.type, i) * a.by[2];
		put_stat(a.y, a.type, i, sum);
	}
	DEV void four_at(i64 i) const {
		four f = stat4(a.in[0], a.type, i), g = stat4(a.in[1], a.type, i);
		UNROLL
		for (int j = 0; j < 4; j++) f.v[j] = f.v[j] * a.by[0] + g.v[j] * a.by[1];
		if (a.in[2]) {
			g = stat4(a.in[2], a.type, i);
			UNROLL
			for (int j = 0; j < 4; j++) f.v[j] += g.v[j] * a.by[2];
		}
		put_stat4(a.y, a.type, i, f);
	}
};

KERNEL(scaled_sum_any, scaled_sum_args) {
	bool aligned = aligned16(a.in[0]) && aligned16(a.in[1]) && aligned16(a.in[2]) && aligned16(a.y);
	any_loop(a.n, aligned, scaled_adder{a});
}

// accumulate_args: y = sum + value. Where there is a flag and it is other, y is the sum, or the value where replace is
// set. done is set to 1 where it is not null.
struct accumulate_args {
	const void *sum, *value;
	const u8 *flag;
	void *y;
	u8 *done;
	i64 n;
	u32 sum_type, value_type;
	u32 other, replace;
};

struct accumulator {
	const accumulate_args &a;
	bool old, added; // which of the two are in the result
	DEV void one_at(i64 i) const {
		f32 v = 0;
		if (old) v = stat(a.sum, a.sum_type, i);
		if (added) v = old ? v + stat(a.value, a.value_type, i) : stat(a.value, a.value_type, i);
		put_stat(a.y, a.sum_type, i, v);
	}
	DEV void four_at(i64 i) const {
		four f = {{0, 0, 0, 0}};
		if (old) f = stat4(a.sum, a.sum_type, i);
		if (added) {
			four g = stat4(a.value, a.value_type, i);
			UNROLL
			for (int j = 0; j < 4; j++) f.v[j] = old ? f.v[j] + g.v[j] : g.v[j];
		}
		put_stat4(a.y, a.sum_type, i, f);
	}
};

KERNEL(accumulate_any, accumulate_args) {
	bool other = a.flag && (*a.flag != 0) == (a.other != 0);
	if (a.done && global_thread() == 0) *a.done = 1;
	accumulator f = {a, !(other && a.replace), !other || a.replace != 0};
	any_loop(a.n, aligned16(a.sum) && aligned16(a.value) && aligned16(a.y), f);
}
