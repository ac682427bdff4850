// Products of matrices where the vendor's library is not there: C = alpha*A'*B' + beta*C for batches of matrices in
// rows. gemm_TYPE.cu defines T and includes this.
//
// A block computes a tile of C. It goes along K in steps: panels of A' and B' are brought to shared memory as sum_t, k
// by k, while the panels before them are multiplied, and each thread keeps a small tile of C in registers. Sums go up
// in k with one rounding per step; where K is cut into pieces (product_plan.go says when) their sums are added in
// order. So results depend on the operands and the shapes alone.
#include "elementwise.h"
#include "wide.h"

typedef compute<T>::type sum_t;

// Elements of 16 bytes: of operands, and of sums.
const int WIDE = 16 / sizeof(T), GROUP = 16 / sizeof(sum_t);
typedef pack<sum_t, GROUP> group;

struct gemm_args {
	const void *a, *b;
	void *c;
	void *part; // sums of the pieces of K, where there are several
	i64 m, n, k;
	i64 lda, ldb, ldc, stride_a, stride_b, stride_c;
	i64 chunk; // length of a piece
	f64 alpha, beta;
	u32 deep_a, deep_b; // elements side by side in memory follow one another in k
};

// LAUNCH_BOUNDS before a kernel tells the compiler the size of its blocks, and how many of them a processor is to hold
// at once, which bounds its registers.
#ifdef MEMOPT_HOST
#define LAUNCH_BOUNDS(name, args, threads, blocks)
#else
#define LAUNCH_BOUNDS(name, args, threads, blocks) \
	extern "C" __attribute__((global)) __attribute__((launch_bounds(threads, blocks))) void name(const args a)
#endif

// panel is DEPTH values of k of ROWS rows of A', or columns of B', on their way to shared memory. There the rows of one
// k lie side by side; every WIDE values of k are followed by a gap, so that the threads of a warp write to different
// banks.
template <int ROWS, int DEPTH, int THREADS> struct panel {
	static const int COUNT = ROWS * DEPTH / (WIDE * THREADS); // packs of a thread
	static const int PER_K = ROWS / WIDE, PER_ROW = DEPTH / WIDE;
	static const int GAP = 128 / sizeof(sum_t) / PER_ROW, SIZE = ROWS * DEPTH + GAP * PER_ROW;

	const T *at;    // the thread's first pack
	i64 next, step; // from pack to pack, and from panel to panel
	i32 row, k;     // of the first pack, within the panel
	i32 rows;       // of the operand, from the panel's first on
	bool deep, wide;
	words held[COUNT];

	// place is where element k of a row lies in shared memory.
	DEV static int place(int row, int k) { return k * ROWS + k / WIDE * GAP + row; }

	// begin goes to the rows from number first on, of so many, and to number from of k.
	DEV void begin(const T *x, i64 ld, bool lies_deep, i64 first, i64 end, i64 from) {
		i32 t = (i32)thread_x();
		deep = lies_deep;
		row = deep ? t / PER_ROW : t % PER_K * WIDE;
		k = deep ? t % PER_ROW * WIDE : t / PER_K;
		rows = (i32)(end - first < ROWS ? end - first : ROWS);
		wide = aligned16(x) && ld % WIDE == 0;
		at = x + (deep ? (first + row) * ld + from + k : (from + k) * ld + first + row);
		next = (deep ? THREADS / PER_ROW : THREADS / PER_K) * ld;
		step = deep ? (i64)DEPTH : DEPTH * ld;
	}

	// fetch starts to read the next panel, of which the first left values of k are there; the others count as 0.
	DEV void fetch(i32 left) {
UNROLL
		for (int i = 0; i < COUNT; i++) {
			i32 n = deep ? (row + i * (THREADS / PER_ROW) < rows ? left - k : 0)
			             : (k + i * (THREADS / PER_K) < left ? rows - row : 0);
			const T *p = at + i * next;
			if (wide && n >= WIDE) {
				held[i] = read_wide<words>(p);
			} else {
				pack<T, WIDE> some;
UNROLL
				for (int j = 0; j < WIDE; j++) some.v[j] = j < n ? p[j] : T{};
				held[i] = to_words(some);
			}
		}
		at += step;
	}

	// put writes what was fetched to shared memory.
	DEV void put(sum_t *to) const {
UNROLL
		for (int i = 0; i < COUNT; i++) {
			pack<T, WIDE> q = from_words<T>(held[i]);
			if (deep) {
				apart();
UNROLL
				for (int j = 0; j < WIDE; j++) to[place(row + i * (THREADS / PER_ROW), k) + j * ROWS] = load(q.v[j]);
				apart();
			} else {
				group *at = (group *)(to + place(row, k + i * (THREADS / PER_K)));
UNROLL
				for (int j = 0; j < WIDE; j += GROUP) {
					group g;
UNROLL
					for (int l = 0; l < GROUP; l++) g.v[l] = load(q.v[j + l]);
					at[j / GROUP] = g;
				}
			}
		}
	}
};

// tile is the sums of a thread: ROWS*COLS of the M*N of its block, in groups that lie as far apart as the block's
// threads need, so that a warp reads neighbouring shared memory at once.
template <int M, int N, int ROWS, int COLS> struct tile {
	static const int ACROSS = N / COLS; // threads along n
	static const int THREADS = M / ROWS * ACROSS;
	static const int ROW_STEP = M / ROWS * GROUP, COL_STEP = N / COLS * GROUP; // from group to group
	sum_t sum[ROWS][COLS];

	// A warp is 4 threads high and 8 wide.
	DEV static i32 thread_col() { return thread_x() / WARP % (ACROSS / 8) * 8 + thread_x() % 8; }
	DEV static i32 thread_row() { return thread_x() / WARP / (ACROSS / 8) * 4 + thread_x() % WARP / 8; }
	// row and col are where sum[i][j] is in the block's tile.
	DEV static i32 row(int i) { return i / GROUP * ROW_STEP + thread_row() * GROUP + i % GROUP; }
	DEV static i32 col(int j) { return j / GROUP * COL_STEP + thread_col() * GROUP + j % GROUP; }

	DEV void clear() {
UNROLL
		for (int i = 0; i < ROWS; i++) {
UNROLL
			for (int j = 0; j < COLS; j++) sum[i][j] = 0;
		}
	}

	// add multiplies two panels. From the thread's first row and column all others are constants away.
	template <int DEPTH> DEV void add(const sum_t *a, const sum_t *b) {
		a += row(0);
		b += col(0);
UNROLL
		for (int k = 0; k < DEPTH; k++) {
			group x[ROWS / GROUP], y[COLS / GROUP];
UNROLL
			for (int i = 0; i < ROWS; i += GROUP)
				x[i / GROUP] = *(const group *)(a + panel<M, DEPTH, THREADS>::place(i / GROUP * ROW_STEP, k));
UNROLL
			for (int j = 0; j < COLS; j += GROUP)
				y[j / GROUP] = *(const group *)(b + panel<N, DEPTH, THREADS>::place(j / GROUP * COL_STEP, k));
UNROLL
			for (int i = 0; i < ROWS; i++) {
UNROLL
				for (int j = 0; j < COLS; j++)
					sum[i][j] = fused(x[i / GROUP].v[i % GROUP], y[j / GROUP].v[j % GROUP], sum[i][j]);
			}
		}
	}

	// write writes what lies within rows and cols: alpha*sum + beta*c.
	template <typename C> DEV void write(C *c, i64 ld, i64 rows, i64 cols, sum_t alpha, sum_t beta) const {
		typedef pack<C, GROUP> out;
		bool wide = (u64)c % sizeof(out) == 0 && ld % GROUP == 0;
UNROLL
		for (int i = 0; i < ROWS; i++) {
			if (row(i) >= rows) continue;
UNROLL
			for (int j = 0; j < COLS; j += GROUP) {
				C *to = c + row(i) * ld + col(j);
				bool whole = wide && col(j) + GROUP <= cols;
				sum_t y[GROUP];
UNROLL
				for (int l = 0; l < GROUP; l++) y[l] = alpha * sum[i][j + l];
				if (beta != 0) {
UNROLL
					for (int l = 0; l < GROUP; l++)
						if (col(j) + l < cols) y[l] = fused(beta, (sum_t)load(to[l]), y[l]);
				}
				out q;
UNROLL
				for (int l = 0; l < GROUP; l++) q.v[l] = store<C>(y[l]);
				if (whole) {
					write_wide(to, q);
					continue;
				}
UNROLL
				for (int l = 0; l < GROUP; l++)
					if (col(j) + l < cols) to[l] = q.v[l];
			}
		}
	}
};

// tile_at finds the tile of a block. Blocks go down 8 tiles before they go right, so that those that run at the same
// time share panels in the cache.
DEV inline void tile_at(u32 block, u32 high, u32 across, u32 *i, u32 *j) {
	const u32 band = 8;
	u32 first = block / (band * across) * band, in = block % (band * across),
	    rows = high - first < band ? high - first : band;
	*i = first + in % rows;
	*j = in / rows;
}

// gemm_tiles computes tiles: block x is the tile, y the piece of K, z the product of the batch.
template <int M, int N, int DEPTH, int ROWS, int COLS> DEV inline void gemm_tiles(const gemm_args &a, group *shared) {
	typedef tile<M, N, ROWS, COLS> sums;
	typedef panel<M, DEPTH, sums::THREADS> panel_a;
	typedef panel<N, DEPTH, sums::THREADS> panel_b;
	const int SIZE = panel_a::SIZE + panel_b::SIZE;
	u32 ti, tj;
	tile_at(block_x(), (u32)((a.m + M - 1) / M), (u32)((a.n + N - 1) / N), &ti, &tj);
	i64 i0 = (i64)ti * M, j0 = (i64)tj * N, from = block_y() * a.chunk, z = block_z();
	i32 left = (i32)(a.k - from < a.chunk ? a.k - from : a.chunk);
	panel_a pa;
	panel_b pb;
	sums s;
	pa.begin((const T *)a.a + z * a.stride_a, a.lda, a.deep_a, i0, a.m, from);
	pb.begin((const T *)a.b + z * a.stride_b, a.ldb, a.deep_b, j0, a.n, from);
	s.clear();
	sum_t *at = (sum_t *)shared, *other = at + SIZE;
	pa.fetch(left);
	pb.fetch(left);
	pa.put(at);
	pb.put(at + panel_a::SIZE);
	barrier();
	for (;;) {
		bool more = left > DEPTH;
		if (more) {
			left -= DEPTH;
			pa.fetch(left);
			pb.fetch(left);
		}
		s.template add<DEPTH>(at, at + panel_a::SIZE);
		if (!more) break;
		sum_t *done = at;
		at = other;
		other = done;
		pa.put(at);
		pb.put(at + panel_a::SIZE);
		barrier();
	}
	sum_t *part = (sum_t *)a.part + ((block_y() * (i64)grid_z() + z) * a.m + i0) * a.n + j0;
	T *c = (T *)a.c + z * a.stride_c + i0 * a.ldc + j0;
	if constexpr (sizeof(T) == sizeof(sum_t)) // one type: the code is there once
		s.write(a.part ? (T *)part : c, a.part ? a.n : a.ldc, a.m - i0, a.n - j0, a.part ? (sum_t)1 : (sum_t)a.alpha,
		    a.part ? (sum_t)0 : (sum_t)a.beta);
	else if (a.part)
		s.write(part, a.n, a.m - i0, a.n - j0, (sum_t)1, (sum_t)0);
	else
		s.write(c, a.ldc, a.m - i0, a.n - j0, (sum_t)a.alpha, (sum_t)a.beta);
}

// GEMM makes the kernel of a size of tiles: gemmMxN_TYPE for blocks of THREADS threads.
#define GEMM(name, M, N, DEPTH, ROWS, COLS, BLOCKS)                                             \
	LAUNCH_BOUNDS(JOIN(name, T), gemm_args, (tile<M, N, ROWS, COLS>::THREADS), BLOCKS);         \
	KERNEL(JOIN(name, T), gemm_args) {                                                          \
		typedef tile<M, N, ROWS, COLS> sums;                                                    \
		const int SIZE = panel<M, DEPTH, sums::THREADS>::SIZE + panel<N, DEPTH, sums::THREADS>::SIZE; \
		SHARED(group, shared, 2 * SIZE / GROUP);                                                \
		gemm_tiles<M, N, DEPTH, ROWS, COLS>(a, shared);                                         \
	}

#include "gemv.h"
