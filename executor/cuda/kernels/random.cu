// Random draws and dropout: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC
// 2011), with the counters and keys of the host's draws (executor/cpu/philox.go): the same bits come of the same seed
// and step.
#include "move.h"

// stream is the sequence of random words of a node in a step: word i is word i mod 4 of block i/4.
struct stream { u32 k0, k1, step; };

// stream_of makes a stream of the node's mixed seed and the step. Where step_at is not null, its number is added to
// step: a launch that was captured has the same arguments in each replay. (A choice between step and *step_at would
// become one between their addresses.)
DEV inline stream stream_of(u64 key, u64 step, const u64 *step_at) {
	if (step_at) step += *step_at;
	key += (step >> 32) * 0xD1342543DE82EF95ull;
	return {(u32)key, (u32)(key >> 32), (u32)step};
}

struct block4 { u32 v[4]; };

DEV inline block4 philox(const stream &s, u32 number, u64 block) {
	u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = s.step, c3 = number, k0 = s.k0, k1 = s.k1;
	UNROLL
	for (int i = 0; i < 10; i++) {
		u64 p = (u64)c0 * 0xD2511F53u, q = (u64)c2 * 0xCD9E8D57u;
		c0 = (u32)(q >> 32) ^ c1 ^ k0;
		c1 = (u32)q;
		c2 = (u32)(p >> 32) ^ c3 ^ k1;
		c3 = (u32)p;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return {{c0, c1, c2, c3}};
}

// words_at returns the words from at on, four of them: a block, or the ends of two.
DEV inline block4 words_at(const stream &s, u32 number, u64 at) {
	block4 w = philox(s, number, at / 4);
	if (at % 4 == 0) return w;
	block4 next = philox(s, number, at / 4 + 1);
	if (at & 2) w = {{w.v[2], w.v[3], next.v[0], next.v[1]}}, next = {{next.v[2], next.v[3], 0, 0}};
	if (at & 1) w = {{w.v[1], w.v[2], w.v[3], next.v[0]}};
	return w;
}

// place_of is the place of element i in the stream: a part of another node has run elements of each stride of the
// whole; run 0: of all one.
template <typename A> DEV inline u64 place_of(const A &a, u64 i) {
	return a.run ? a.first + i / a.run * a.stride + i % a.run : a.first + i;
}

// words_of returns the words of four elements from i on.
template <typename A> DEV inline block4 words_of(const A &a, const stream &s, u32 number, u64 i) {
	if (a.run % 4 == 0) return words_at(s, number, place_of(a, i));
	block4 w;
	for (int j = 0; j < 4; j++) {
		u64 at = place_of(a, i + j);
		block4 b = philox(s, number, at / 4);
		u32 low = at & 1 ? b.v[1] : b.v[0], high = at & 1 ? b.v[3] : b.v[2];
		w.v[j] = at & 2 ? high : low;
	}
	return w;
}

// dropout_args: y = keep ? (x + bias)*scale : 0, + residual. bias has period elements. mask has a byte per element,
// bits a bit. Elements are kept whose random word is not below threshold; all where drawing is 0. Element i draws the
// word at place_of i.
struct dropout_args {
	const void *x, *bias, *residual;
	void *y;
	u8 *mask;
	u32 *bits;
	i64 n, period;
	u64 key, step;
	const u64 *step_at;
	u64 first, run, stride;
	u32 threshold, drawing;
	f64 scale;
};

// only returns x, or 0 where keep is 0. It is no choice that the compiler makes a jump of, over the load of x.
DEV inline f32 only(f32 x, u32 keep) { return from_bits(bits_of(x) & -keep); }
DEV inline f64 only(f64 x, u32 keep) { return from_bits64(bits_of(x) & -(u64)keep); }

template <typename T> DEV inline T dropped(const dropout_args &a, i64 i, T x, u32 keep) {
	typedef typename compute<T>::type C;
	C v = load(x);
	if (a.bias) v = v + load(((const T *)a.bias)[i % a.period]);
	if (a.drawing) v = only(multiply(v, (C)a.scale), keep);
	if (a.residual) v = v + load(((const T *)a.residual)[i]);
	return store<T>(v);
}

// dropout_loop gives each thread four neighbours, which share a block of random words.
template <typename T> DEV inline void dropout_loop(const dropout_args &a) {
	const T *x = (const T *)a.x;
	T *y = (T *)a.y;
	stream words = stream_of(a.key, a.step, a.step_at);
	bool packs = (((u64)x | (u64)y) & (sizeof(pack<T, 4>) - 1)) == 0 && ((u64)a.mask & 3) == 0;
	i64 quads = (a.n + 3) / 4;
	i64 all = a.bits ? (quads + WARP - 1) / WARP * WARP : quads; // whole warps come to the shuffles
	for (i64 q = global_thread(); q < all; q += global_threads()) {
		i64 i = 4 * q;
		u32 keep = 15;
		if (a.drawing) {
			block4 w = words_of(a, words, 0, 4 * (u64)q);
			keep = 0;
			UNROLL
			for (int j = 0; j < 4; j++) keep |= (u32)(w.v[j] >= a.threshold) << j;
		}
		if (i + 4 > a.n) keep &= i < a.n ? (1u << (a.n - i)) - 1 : 0;
		if (packs && i + 4 <= a.n) {
			if (y) {
				pack<T, 4> p = fetch4(x + i), r;
				UNROLL
				for (int j = 0; j < 4; j++) r.v[j] = dropped(a, i + j, p.v[j], keep >> j & 1);
				((pack<T, 4> *)y)[q] = r;
			}
			if (a.mask) ((u32 *)a.mask)[q] = (keep & 1) | (keep & 2) << 7 | (keep & 4) << 14 | (keep & 8) << 21;
		} else {
			for (i64 j = i; j < i + 4 && j < a.n; j++) {
				if (y) y[j] = dropped(a, j, x[j], keep >> (j - i) & 1);
				if (a.mask) a.mask[j] = keep >> (j - i) & 1;
			}
		}
		if (a.bits) {
			u32 word = keep << (q % 8 * 4);
			word |= shuffle_xor(word, 1);
			word |= shuffle_xor(word, 2);
			word |= shuffle_xor(word, 4);
			if (q % 8 == 0 && i < a.n) a.bits[q / 8] = word;
		}
	}
}

// dropgrad_args: dx = kept ? dy*scale : 0, by a mask of bytes or of bits.
struct dropgrad_args {
	const void *dy;
	const u8 *mask;
	const u32 *bits;
	void *dx;
	i64 n;
	f64 scale;
};

template <typename T> DEV inline void dropgrad_loop(const dropgrad_args &a) {
	typedef typename compute<T>::type C;
	const T *dy = (const T *)a.dy;
	T *dx = (T *)a.dx;
	C scale = (C)a.scale;
	i64 first = global_thread(), step = global_threads(), done = 0;
	if ((((u64)dy | (u64)dx) & (sizeof(pack<T, 4>) - 1)) == 0 && ((u64)a.mask & 3) == 0) {
		done = a.n / 4 * 4;
		for (i64 q = first; q < done / 4; q += step) {
			u32 keep = a.bits ? a.bits[q / 8] >> (q % 8 * 4) : ((const u32 *)a.mask)[q], gap = a.bits ? 1 : 8;
			pack<T, 4> p = fetch4(dy + 4 * q);
			UNROLL
			for (int j = 0; j < 4; j++) p.v[j] = store<T>(only(load(p.v[j]) * scale, keep >> (gap * j) & 1));
			((pack<T, 4> *)dx)[q] = p;
		}
	}
	for (i64 i = done + first; i < a.n; i += step) {
		u32 keep = a.bits ? a.bits[i / 32] >> (i % 32) & 1 : a.mask[i] & 1;
		dx[i] = store<T>(only(load(dy[i]) * scale, keep));
	}
}

// uniform_args: y = low + u*range with numbers u of 53 random bits; of Bernoulli, y = u < p ? one : 0. Element i draws
// the number at place_of i.
struct uniform_args {
	const void *p;
	void *y;
	i64 n;
	u64 key, step;
	const u64 *step_at;
	u64 first, run, stride;
	u32 size; // bytes per element of y, of Bernoulli
	f64 low, range;
	u64 one;
};

DEV inline f64 fraction(u32 high, u32 low) {
	const f64 unit = 1.0 / 9007199254740992.0; // 2^-53
	return (f64)((u64)high << 21 | low >> 11) * unit;
}

// rounded rounds to an element once: to f32 so that rounding again to 16 bits comes to the same (Boldo and Melquiond
// 2008).
template <typename T> DEV inline T rounded(f64 x) {
	f32 y = (f32)x;
	u32 bits = bits_of(y);
	if ((f64)y != x && y == y) {
		f64 size = x < 0 ? -x : x, got = (f64)(y < 0 ? -y : y);
		bits = (got > size ? bits - 1 : bits) | 1;
	}
	return store<T>(from_bits(bits));
}
template <> DEV inline f32 rounded<f32>(f64 x) { return (f32)x; }
template <> DEV inline f64 rounded<f64>(f64 x) { return x; }

template <typename T> DEV inline void uniform_loop(const uniform_args &a) {
	stream words = stream_of(a.key, a.step, a.step_at);
	for (i64 q = global_thread(); q < (a.n + 3) / 4; q += global_threads()) {
		block4 high = words_of(a, words, 0, 4 * (u64)q), low = words_of(a, words, 1, 4 * (u64)q);
		UNROLL
		for (int j = 0; j < 4; j++) {
			f64 s = multiply(fraction(high.v[j], low.v[j]), a.range);
			if (4 * q + j < a.n) ((T *)a.y)[4 * q + j] = rounded<T>(a.low + s);
		}
	}
}

template <typename T> DEV inline void bernoulli_loop(const uniform_args &a) {
	stream words = stream_of(a.key, a.step, a.step_at);
	for (i64 q = global_thread(); q < (a.n + 3) / 4; q += global_threads()) {
		block4 high = words_of(a, words, 0, 4 * (u64)q), low = words_of(a, words, 1, 4 * (u64)q);
		UNROLL
		for (int j = 0; j < 4; j++) {
			i64 i = 4 * q + j;
			if (i >= a.n) break;
			u64 v = fraction(high.v[j], low.v[j]) < (f64)load(((const T *)a.p)[i]) ? a.one : 0;
			if (a.size == 1) ((u8 *)a.y)[i] = (u8)v;
			if (a.size == 2) ((u16 *)a.y)[i] = (u16)v;
			if (a.size == 4) ((u32 *)a.y)[i] = (u32)v;
			if (a.size == 8) ((u64 *)a.y)[i] = v;
		}
	}
}

#define FLOATS(name, args)                              \
	KERNEL(name##_f32, args) { name##_loop<f32>(a); }   \
	KERNEL(name##_f64, args) { name##_loop<f64>(a); }   \
	KERNEL(name##_f16, args) { name##_loop<f16>(a); }   \
	KERNEL(name##_bf16, args) { name##_loop<bf16>(a); }
FLOATS(dropout, dropout_args)
FLOATS(dropgrad, dropgrad_args)
FLOATS(uniform, uniform_args)
FLOATS(bernoulli, uniform_args)
