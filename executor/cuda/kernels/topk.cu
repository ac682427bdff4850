// The k best elements along an axis and their places, best first; of equals the lower place comes first. Elements are
// compared by keys, unsigned numbers that are larger for better elements: NaN counts as larger than every number.
#include "memopt.h"

#define TOPK_THREADS 256
#define TOPK_HELD 8     // elements of a row that a lane of a warp holds
#define TOPK_SHARED 1024 // chosen elements that are sorted in shared memory

struct topk_args {
	const void *x;
	void *values, *indices; // each may be null
	u64 *work; // for each block of topk_TYPE: padded keys and padded places; null: shared memory is large enough
	i64 rows, n, inner, k;  // the input is [rows, n, inner], of which there are rows*inner lines
	i64 padded;             // k rounded up to a power of two
	u32 smallest;
};

DEV inline u32 float_key(f32 x) {
	u32 b = bits_of(x);
	if (x != x) return 0xffffffffu;
	if (x == 0) return 0x80000000u;
	return b >> 31 ? ~b : b | 0x80000000u;
}
template <typename T> struct keyed {
	typedef u32 key;
	static const int bits = 32;
	DEV static u32 of(T x) { return float_key(load(x)); }
};
template <> struct keyed<i32> {
	typedef u32 key;
	static const int bits = 32;
	DEV static u32 of(i32 x) { return (u32)x ^ 0x80000000u; }
};
template <> struct keyed<i64> {
	typedef u64 key;
	static const int bits = 64;
	DEV static u64 of(i64 x) { return (u64)x ^ 1ull << 63; }
};
template <> struct keyed<u8> { typedef u32 key; static const int bits = 8; DEV static u32 of(u8 x) { return x; } };
template <> struct keyed<i8> {
	typedef u32 key;
	static const int bits = 8;
	DEV static u32 of(i8 x) { return (u8)x ^ 0x80u; }
};

// line_of is a line of the input with its results.
template <typename T> struct line {
	const T *x;
	i64 step, out; // of elements; where results begin
	u32 smallest;
	typedef typename keyed<T>::key K;
	DEV K key(i64 i) const {
		const K all = keyed<T>::bits == 8 ? (K)0xff : (K)~(K)0;
		K k = keyed<T>::of(x[i * step]);
		return smallest ? k ^ all : k;
	}
};
template <typename T> DEV inline line<T> line_of(const topk_args &a, i64 l) {
	i64 row = l / a.inner, column = l - row * a.inner;
	return line<T>{(const T *)a.x + row * a.n * a.inner + column, a.inner, row * a.k * a.inner + column, a.smallest};
}
template <typename T> DEV inline void put(const topk_args &a, const line<T> &l, i64 i, i64 at) {
	if (a.values) ((T *)a.values)[l.out + i * a.inner] = l.x[at * a.inner];
	if (a.indices) ((i64 *)a.indices)[l.out + i * a.inner] = at;
}

// comes_first reports whether an element comes before another one.
DEV inline bool comes_first(u64 key, u64 at, u64 other, u64 other_at) {
	return key > other || (key == other && at < other_at);
}

// topkwarp has a warp for each line of at most WARP*TOPK_HELD elements: in each of at most WARP rounds it finds the
// best of those that come after the last one.
template <typename T> DEV inline void topk_warps(const topk_args &a) {
	u32 lane = thread_x();
	for (i64 r = (i64)block_x() * block_rows() + thread_y(); r < a.rows * a.inner; r += (i64)grid_x() * block_rows()) {
		line<T> l = line_of<T>(a, r);
		typename keyed<T>::key held[TOPK_HELD];
UNROLL
		for (int j = 0; j < TOPK_HELD; j++) held[j] = j * WARP + lane < a.n ? l.key(j * WARP + lane) : 0;
		u64 last = 0;
		u32 last_at = 0, mine = 0;
		for (u32 round = 0; round < a.k; round++) {
			u64 best = 0;
			u32 at = ~0u;
UNROLL
			for (int j = 0; j < TOPK_HELD; j++) {
				u32 i = j * WARP + lane;
				bool left = i < a.n && (round == 0 || comes_first(last, last_at, held[j], i));
				if (left && comes_first(held[j], i, best, at)) best = held[j], at = i;
			}
			for (u32 o = WARP / 2; o > 0; o >>= 1) {
				u64 other = shuffle_xor(best, o);
				u32 other_at = shuffle_xor(at, o);
				if (comes_first(other, other_at, best, at)) best = other, at = other_at;
			}
			last = best, last_at = at;
			if (lane == round) mine = at;
		}
		if (lane < a.k) put(a, l, lane, mine);
	}
}

// threshold is the k-th best key of a line, and how many are better.
struct threshold { u64 key; u64 above; };

// find_digit finds the digit of the need-th best element from the counts of all digits, by the first warp.
DEV inline void find_digit(const u32 *count, u64 need, u64 *found) {
	u32 lane = thread_x();
	u64 sum = 0;
	for (u32 j = 0; j < 8; j++) sum += count[255 - 8 * lane - j];
	u64 upto = sum;
	for (u32 o = 1; o < WARP; o <<= 1) {
		u64 before = shuffle_up(upto, o);
		if (lane >= o) upto += before;
	}
	u64 above = upto - sum;
	if (above >= need || upto < need) return;
	u32 digit = 255 - 8 * lane;
	while (above + count[digit] < need) above += count[digit--];
	found[0] = digit;
	found[1] = above;
}

// select counts the digits of keys, from the highest on, of those elements whose higher digits are the k-th best one's.
template <typename T> DEV inline threshold select(const topk_args &a, const line<T> &l, u32 *count, u64 *found) {
	threshold t = {0, 0};
	for (int shift = keyed<T>::bits - 8; shift >= 0; shift -= 8) {
		barrier(); // count and found may still be read
		count[thread_x()] = 0;
		barrier();
		for (i64 i = thread_x(); i < a.n; i += TOPK_THREADS) {
			u64 key = l.key(i) >> shift;
			if (key >> 8 == t.key) atomic_add(&count[key & 255], 1u);
		}
		barrier();
		if (thread_x() < WARP) find_digit(count, (u64)a.k - t.above, found);
		barrier();
		t.key = t.key << 8 | found[0];
		t.above += found[1];
	}
	return t;
}

// scan returns how much the threads before have together, and in total what all have.
DEV inline u64 scan(u64 x, u64 *partial, u64 &total) {
	u32 lane = thread_x() % WARP, warp = thread_x() / WARP;
	u64 upto = x;
	for (u32 o = 1; o < WARP; o <<= 1) {
		u64 before = shuffle_up(upto, o);
		if (lane >= o) upto += before;
	}
	barrier(); // partial may still be read
	if (lane == WARP - 1) partial[warp] = upto;
	barrier();
	u64 before = 0;
	total = 0;
	for (u32 w = 0; w < TOPK_THREADS / WARP; w++) {
		if (w < warp) before += partial[w];
		total += partial[w];
	}
	return before + upto - x;
}

// collect lists the elements above the threshold, and as many of those that equal it as are left, the first ones.
template <typename T>
DEV inline void collect(const topk_args &a, const line<T> &l, threshold t, u64 *keys, u64 *at, u64 *partial) {
	u64 above = 0, equal = t.above, total;
	for (i64 base = 0; base < a.n; base += TOPK_THREADS) {
		i64 i = base + thread_x();
		u64 key = i < a.n ? l.key(i) : 0;
		bool better = i < a.n && key > t.key, same = i < a.n && key == t.key;
		u64 place = scan((u64)same << 32 | (u64)better, partial, total);
		u64 to = better ? above + (place & 0xffffffffu) : equal + (place >> 32);
		if (better || (same && to < (u64)a.k)) keys[to] = key, at[to] = (u64)i;
		above += total & 0xffffffffu;
		equal += total >> 32;
	}
	for (i64 i = a.k + thread_x(); i < a.padded; i += TOPK_THREADS) keys[i] = 0, at[i] = ~0ull;
	barrier();
}

// sort puts a power of two of elements in order (Batcher 1968).
DEV inline void sort(u64 *keys, u64 *at, u32 n) {
	for (u32 size = 2; size <= n; size *= 2)
		for (u32 apart = size / 2; apart > 0; apart /= 2) {
			for (u32 i = thread_x(); i < n / 2; i += TOPK_THREADS) {
				u32 p = i / apart * 2 * apart + i % apart, q = p + apart;
				bool wrong = comes_first(keys[q], at[q], keys[p], at[p]);
				if ((p & size) != 0) wrong = comes_first(keys[p], at[p], keys[q], at[q]);
				if (!wrong) continue;
				u64 key = keys[p], place = at[p];
				keys[p] = keys[q], at[p] = at[q];
				keys[q] = key, at[q] = place;
			}
			barrier();
		}
}

template <typename T> DEV inline void topk_blocks(const topk_args &a, u64 *keys, u64 *at, u32 *count, u64 *partial) {
	if (a.work) keys = a.work + 2 * a.padded * (i64)block_x(), at = keys + a.padded;
	for (i64 r = block_x(); r < a.rows * a.inner; r += grid_x()) {
		line<T> l = line_of<T>(a, r);
		threshold t = select<T>(a, l, count, partial);
		collect(a, l, t, keys, at, partial);
		sort(keys, at, (u32)a.padded);
		for (i64 i = thread_x(); i < a.k; i += TOPK_THREADS) put(a, l, i, (i64)at[i]);
	}
}

#define TOPK(T)                                            \
	KERNEL(topkwarp_##T, topk_args) { topk_warps<T>(a); }  \
	KERNEL(topk_##T, topk_args) {                          \
		SHARED(u64, keys, TOPK_SHARED);                    \
		SHARED(u64, at, TOPK_SHARED);                      \
		SHARED(u32, count, TOPK_THREADS);                  \
		SHARED(u64, partial, WARP);                        \
		topk_blocks<T>(a, keys, at, count, partial);       \
	}
TOPK(f32)
TOPK(f16)
TOPK(bf16)
TOPK(i32)
TOPK(i64)
TOPK(u8)
TOPK(i8)
