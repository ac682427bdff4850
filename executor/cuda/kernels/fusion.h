// Fusion groups of elementwise operators over equally many elements: one launch interprets a small program on 16 bytes
// of elements at a time, which stay in registers from step to step. fusion_TYPE.cu defines T and FLOAT and includes
// this. fusion.go makes the programs.
//
// A step puts f(acc, y), f(y, acc) or y into acc, where y comes from memory, from acc or from one of two kept
// registers. y and the result may be kept, and the result may be stored. Registers hold elements as memory does, so
// that every step rounds as a kernel of its own would.
#ifndef MEMOPT_FUSION_H
#define MEMOPT_FUSION_H
#include "elementwise.h"
#include "wide.h"

// What the operators compute is that of their own kernels, which are not made here.
#pragma push_macro("KERNEL")
#undef KERNEL
#define KERNEL(name, args) DEV inline void name(const args a)
#include "binary.h"
#include "fused.h"
#include "unary.h"
#pragma pop_macro("KERNEL")

#define FUSION_STEPS 16

// Where y comes from; fusion_place.go has the same numbers. Operands start at multiples of 16 bytes.
enum {
	FROM_ACC,
	FROM_KEPT0,
	FROM_KEPT1,
	FROM_PACK,   // a tensor with as many elements
	FROM_ONE,    // one element for the pack: places are (i / inner) % count
	FROM_ROW,    // a pack of a row: places are i % count
	FROM_PLACES, // element by element: places are (i / inner) % count
};

// fusion_operand says where an operand lies.
struct fusion_operand {
	const void *p;
	u32 from;
	divider inner, count;
};

// fusion_step: bits of flags are below. cond is Where's, of bools.
struct fusion_step {
	u32 code, flags;
	f32 alpha, beta;
	fusion_operand y, cond;
	void *out; // null: the result is not stored
};

enum {
	STEP_SWAP = 1,       // f(y, acc)
	STEP_KEEP_Y = 2,     // y is kept in register 0, or 1 with the next flag
	STEP_Y_IN_1 = 4,
	STEP_KEEP = 8,       // so is the result
	STEP_IN_1 = 16,
};

struct fusion_args {
	i64 n, steps; // n is below 2^31
	fusion_step step[FUSION_STEPS];
};

typedef pack<T, 16 / sizeof(T)> elements;
#define WIDTH ((int)(16 / sizeof(T)))

// place returns where an operand has element i.
DEV inline u32 place(const fusion_operand &o, u32 i) {
	u32 q = divide(i, o.inner);
	return q - divide(q, o.count) * o.count.d;
}

// fusion_load returns elements i..i+m-1 of an operand, with anything behind them; m is WIDTH but at the end.
DEV inline words fusion_load(const fusion_operand &o, u32 i, int m) {
	const T *p = (const T *)o.p;
	if (m == WIDTH) {
		if (o.from == FROM_PACK) return read_wide<words>(p + i);
		if (o.from == FROM_ROW) return read_wide<words>(p + place(o, i));
	}
	elements e = {};
	if (o.from == FROM_ONE) {
		T x = p[place(o, i)];
UNROLL
		for (int j = 0; j < WIDTH; j++) e.v[j] = x;
	} else {
UNROLL
		for (int j = 0; j < WIDTH; j++)
			if (j < m) e.v[j] = p[o.from == FROM_PACK ? i + j : place(o, i + j)];
	}
	return to_words<T>(e);
}

// truths are the bools of a pack, a byte each, the first one lowest.
struct truths { u32 v[WIDTH / 4]; };

// fusion_truths is fusion_load for bools.
DEV inline truths fusion_truths(const fusion_operand &o, u32 i, int m) {
	const u8 *p = (const u8 *)o.p;
	truths t = {};
	if (m == WIDTH && (o.from == FROM_PACK || o.from == FROM_ROW)) {
		const u32 *q = (const u32 *)(p + (o.from == FROM_PACK ? i : place(o, i)));
UNROLL
		for (int j = 0; j < WIDTH / 4; j++) t.v[j] = q[j];
		return t;
	}
UNROLL
	for (int j = 0; j < WIDTH; j++)
		if (j < m) t.v[j / 4] |= (u32)p[o.from == FROM_PACK ? i + j : place(o, i + j)] << 8 * (j % 4);
	return t;
}

// fusion_store stores elements i..i+m-1 of a step's result.
DEV inline void fusion_store(const fusion_step &s, u32 i, int m, const words &x) {
	T *p = (T *)s.out + i;
	if (m == WIDTH) {
		write_wide(p, x);
		return;
	}
	elements e = from_words<T>(x);
UNROLL
	for (int j = 0; j < WIDTH; j++)
		if (j < m) p[j] = e.v[j];
}

// Functions of the kernels take their arguments in three ways.
template <typename F> struct of_one {
	DEV static f32 of(f32 x, f32, f32 alpha, f32 beta) { return (f32)F::template of<f32>(x, alpha, beta); }
};
template <typename F> struct of_two {
	DEV static f32 of(f32 x, f32 z, f32, f32) { return F::template of<f32>(x, z); }
};
template <typename F> struct of_gradient {
	DEV static f32 of(f32 g, f32 x, f32 alpha, f32) { return F::of(g, x, alpha); }
};
// of_biased takes the operand and its bias.
template <typename F> struct of_biased {
	DEV static f32 of(f32 x, f32 bias, f32 alpha, f32) { return F::of(0.0f, x + bias, alpha); }
};

template <typename F> DEV inline words each(const words &x, const words &z, const fusion_step &s) {
	elements a = from_words<T>(x), b = from_words<T>(z), y;
UNROLL
	for (int j = 0; j < WIDTH; j++) y.v[j] = store<T>(F::of(load(a.v[j]), load(b.v[j]), s.alpha, s.beta));
	return to_words<T>(y);
}

// chosen takes elements of x where cond holds, else of z: Where.
DEV inline words chosen(const truths &cond, const words &x, const words &z) {
	elements a = from_words<T>(x), b = from_words<T>(z), y;
UNROLL
	for (int j = 0; j < WIDTH; j++) y.v[j] = cond.v[j / 4] >> 8 * (j % 4) & 0xff ? a.v[j] : b.v[j];
	return to_words<T>(y);
}

// FUSION_OPERATORS lists the operators in the order of their codes, from 2 on; fusion.go has the same list. 0 takes y,
// 1 is Where.
#define FUSION_OPERATORS(one, two, gradient, biased)                                                             \
	two(add) two(sub) two(mul) two(div) two(max) two(min) two(pow)                                              \
	one(abs) one(erf) one(exp) one(gelu) one(gelutanh) one(log) one(neg) one(quickgelu) one(reciprocal)         \
	one(relu) one(sigmoid) one(sqrt) one(tanh)                                                                  \
	gradient(gelugrad) gradient(fastgelugrad) gradient(quickgelugrad) gradient(relugrad) gradient(sigmoidgrad)  \
	gradient(tanhgrad) biased(biasgelu) biased(fastgelu)

#define CODE(name) CODE_##name,
enum { CODE_take, CODE_where, FUSION_OPERATORS(CODE, CODE, CODE, CODE) };
#undef CODE

// fusion_apply returns what step s makes of x and z.
DEV inline words fusion_apply(const fusion_step &s, u32 i, int m, const words &x, const words &z) {
#define CASE(name, how) case CODE_##name: return each<how<name##_function>>(x, z, s);
#define ONE(name) CASE(name, of_one)
#define TWO(name) CASE(name, of_two)
#define GRADIENT(name) CASE(name, of_gradient)
#define BIASED(name) CASE(name, of_biased)
	switch (s.code) {
	case CODE_where: return chosen(fusion_truths(s.cond, i, m), x, z);
	FUSION_OPERATORS(ONE, TWO, GRADIENT, BIASED)
	}
	return z;
#undef CASE
#undef ONE
#undef TWO
#undef GRADIENT
#undef BIASED
}

KERNEL(JOIN(fusion, T), fusion_args) {
	i64 packs = (a.n + WIDTH - 1) / WIDTH;
	for (i64 at = global_thread(); at < packs; at += global_threads()) {
		u32 i = (u32)(at * WIDTH);
		int m = a.n - i < WIDTH ? (int)(a.n - i) : WIDTH;
		words acc = {}, kept0 = {}, kept1 = {};
		for (i64 k = 0; k < a.steps; k++) {
			const fusion_step &s = a.step[k];
			words y = acc;
			switch (s.y.from) {
			case FROM_ACC: break;
			case FROM_KEPT0: y = kept0; break;
			case FROM_KEPT1: y = kept1; break;
			default: y = fusion_load(s.y, i, m);
			}
			if (s.flags & STEP_KEEP_Y) {
				if (s.flags & STEP_Y_IN_1) kept1 = y;
				else kept0 = y;
			}
			bool swap = s.flags & STEP_SWAP;
			words x = swap ? y : acc, z = swap ? acc : y;
			acc = fusion_apply(s, i, m, x, z);
			if (s.flags & STEP_KEEP) {
				if (s.flags & STEP_IN_1) kept1 = acc;
				else kept0 = acc;
			}
			if (s.out) fusion_store(s, i, m, acc);
		}
	}
}
#endif
