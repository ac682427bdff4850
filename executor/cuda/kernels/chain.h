// Chains of elementwise operators over equally many elements: one launch interprets a small program on 16 bytes of elements at a time, which stay in
// registers from step to step. chain_TYPE.cu defines T and FLOAT and includes this. chain.go makes the programs.
//
// A step puts f(acc, y), f(y, acc) or y into acc, where y comes from memory, from acc or from one of two kept registers. y and the result may be
// kept, and the result may be stored. Registers hold elements as memory does, so that every step rounds as a kernel of its own would.
#ifndef MEMOPT_CHAIN_H
#define MEMOPT_CHAIN_H
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

#define CHAIN_STEPS 16

// Where y comes from; chain_place.go has the same numbers. Operands start at multiples of 16 bytes.
enum {
	FROM_ACC,
	FROM_KEPT0,
	FROM_KEPT1,
	FROM_PACK,   // a tensor with as many elements
	FROM_ONE,    // one element for the pack: places are (i / inner) % count
	FROM_ROW,    // a pack of a row: places are i % count
	FROM_PLACES, // element by element: places are (i / inner) % count
};

// chain_operand says where an operand lies.
struct chain_operand {
	const void *p;
	u32 from;
	divider inner, count;
};

// chain_step: bits of flags are below. cond is Where's, of bools.
struct chain_step {
	u32 code, flags;
	f32 alpha, beta;
	chain_operand y, cond;
	void *out; // null: the result is not stored
};

enum {
	STEP_SWAP = 1,       // f(y, acc)
	STEP_KEEP_Y = 2,     // y is kept in register 0, or 1 with the next flag
	STEP_Y_IN_1 = 4,
	STEP_KEEP = 8,       // so is the result
	STEP_IN_1 = 16,
};

struct chain_args {
	i64 n, steps; // n is below 2^31
	chain_step step[CHAIN_STEPS];
};

typedef pack<T, 16 / sizeof(T)> elements;
#define WIDTH ((int)(16 / sizeof(T)))

// place returns where an operand has element i.
DEV inline u32 place(const chain_operand &o, u32 i) {
	u32 q = divide(i, o.inner);
	return q - divide(q, o.count) * o.count.d;
}

// chain_load returns elements i..i+m-1 of an operand, with anything behind them; m is WIDTH but at the end.
DEV inline words chain_load(const chain_operand &o, u32 i, int m) {
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

// chain_truths is chain_load for bools.
DEV inline truths chain_truths(const chain_operand &o, u32 i, int m) {
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

// chain_store stores elements i..i+m-1 of a step's result.
DEV inline void chain_store(const chain_step &s, u32 i, int m, const words &x) {
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

template <typename F> DEV inline words each(const words &x, const words &z, const chain_step &s) {
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

// CHAIN_OPERATORS lists the operators in the order of their codes, from 2 on; chain.go has the same list. 0 takes y, 1 is Where.
#define CHAIN_OPERATORS(one, two, gradient, biased)                                                             \
	two(add) two(sub) two(mul) two(div) two(max) two(min) two(pow)                                              \
	one(abs) one(erf) one(exp) one(gelu) one(gelutanh) one(log) one(neg) one(quickgelu) one(reciprocal)         \
	one(relu) one(sigmoid) one(sqrt) one(tanh)                                                                  \
	gradient(gelugrad) gradient(fastgelugrad) gradient(quickgelugrad) gradient(relugrad) gradient(sigmoidgrad)  \
	gradient(tanhgrad) biased(biasgelu) biased(fastgelu)

#define CODE(name) CODE_##name,
enum { CODE_take, CODE_where, CHAIN_OPERATORS(CODE, CODE, CODE, CODE) };
#undef CODE

// chain_apply returns what step s makes of x and z.
DEV inline words chain_apply(const chain_step &s, u32 i, int m, const words &x, const words &z) {
#define CASE(name, how) case CODE_##name: return each<how<name##_function>>(x, z, s);
#define ONE(name) CASE(name, of_one)
#define TWO(name) CASE(name, of_two)
#define GRADIENT(name) CASE(name, of_gradient)
#define BIASED(name) CASE(name, of_biased)
	switch (s.code) {
	case CODE_where: return chosen(chain_truths(s.cond, i, m), x, z);
	CHAIN_OPERATORS(ONE, TWO, GRADIENT, BIASED)
	}
	return z;
#undef CASE
#undef ONE
#undef TWO
#undef GRADIENT
#undef BIASED
}

KERNEL(JOIN(chain, T), chain_args) {
	i64 packs = (a.n + WIDTH - 1) / WIDTH;
	for (i64 at = global_thread(); at < packs; at += global_threads()) {
		u32 i = (u32)(at * WIDTH);
		int m = a.n - i < WIDTH ? (int)(a.n - i) : WIDTH;
		words acc = {}, kept0 = {}, kept1 = {};
		for (i64 k = 0; k < a.steps; k++) {
			const chain_step &s = a.step[k];
			words y = acc;
			switch (s.y.from) {
			case FROM_ACC: break;
			case FROM_KEPT0: y = kept0; break;
			case FROM_KEPT1: y = kept1; break;
			default: y = chain_load(s.y, i, m);
			}
			if (s.flags & STEP_KEEP_Y) {
				if (s.flags & STEP_Y_IN_1) kept1 = y;
				else kept0 = y;
			}
			bool swap = s.flags & STEP_SWAP;
			words x = swap ? y : acc, z = swap ? acc : y;
			acc = chain_apply(s, i, m, x, z);
			if (s.flags & STEP_KEEP) {
				if (s.flags & STEP_IN_1) kept1 = acc;
				else kept0 = acc;
			}
			if (s.out) chain_store(s, i, m, acc);
		}
	}
}
#endif
