// Accesses of 16 or 8 bytes that stay in one piece where a kernel has another path for operands that cannot be moved
// so: the compiler merges the work of both paths, and the packs fall apart into two or four accesses.
#ifndef MEMOPT_WIDE_H
#define MEMOPT_WIDE_H
#include "memopt.h"

// apart stands at both ends of the path that moves element by element, and nothing is merged across it.
DEV inline void apart() { asm volatile("" ::: "memory"); }

// words are 16 bytes of elements in as few registers as hold them: halves go two to a word, and not, as the compiler
// would have it, one to a register.
typedef pack<u32, 4> words;
template <typename E> DEV inline words to_words(const pack<E, 16 / sizeof(E)> &p) {
	if constexpr (sizeof(E) == 2) {
		words x;
UNROLL
		for (int i = 0; i < 4; i++) x.v[i] = p.v[2 * i].bits | (u32)p.v[2 * i + 1].bits << 16;
		return x;
	} else {
		return __builtin_bit_cast(words, p);
	}
}
template <typename E> DEV inline pack<E, 16 / sizeof(E)> from_words(const words &x) {
	if constexpr (sizeof(E) == 2) {
		pack<E, 8> p;
UNROLL
		for (int i = 0; i < 8; i++) p.v[i].bits = (u16)(x.v[i / 2] >> 16 * (i % 2));
		return p;
	} else {
		return __builtin_bit_cast(pack<E, 16 / sizeof(E)>, x);
	}
}

// read_wide reads 16 bytes that no thread writes while the kernel runs. write_wide writes 16 or 8.
#ifdef MEMOPT_HOST
template <typename P> inline P read_wide(const void *p) { return *(const P *)p; }
template <typename P> inline void write_wide(void *p, const P &x) { *(P *)p = x; }
#else
template <typename P> DEV inline P read_wide(const void *p) {
	static_assert(sizeof(P) == 16, "a pack of 16 bytes");
	pack<u32, 4> x;
	asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %4; ld.global.v4.u32 {%0, %1, %2, %3}, [at]; }"
		: "=r"(x.v[0]), "=r"(x.v[1]), "=r"(x.v[2]), "=r"(x.v[3]) : "l"(p));
	return __builtin_bit_cast(P, x);
}
template <typename P> DEV inline void write_wide(void *p, const P &y) {
	static_assert(sizeof(P) == 16 || sizeof(P) == 8, "a pack of 16 or 8 bytes");
	pack<u32, sizeof(P) / 4> x = __builtin_bit_cast(decltype(x), y);
	if constexpr (sizeof(P) == 16)
		asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %0; st.global.v4.u32 [at], {%1, %2, %3, %4}; }"
			:: "l"(p), "r"(x.v[0]), "r"(x.v[1]), "r"(x.v[2]), "r"(x.v[3]) : "memory");
	else
		asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %0; st.global.v2.u32 [at], {%1, %2}; }" ::"l"(p),
		             "r"(x.v[0]), "r"(x.v[1])
		             : "memory");
}
#endif
#endif
