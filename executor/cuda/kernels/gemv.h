// Products of a matrix and a vector, which take as long as it takes to read the matrix, and sums of the pieces of K.
// Block y is the piece, z the product of the batch. gemm.h includes this.

struct gemv_args {
	const void *x, *v; // y[r] = alpha * the sum over k of X[r,k]*v[k] + beta*y[r]
	void *y;
	void *part; // sums of the pieces of K, where there are several
	i64 rows, k;
	i64 ld, step_v, step_y; // of X from row to row, or from k to k where rows lie side by side; from element to element
	i64 stride_x, stride_v, stride_y;
	i64 chunk; // length of a piece of K
	f64 alpha, beta;
};

// gemv_put writes a sum to y, or to its place among the sums of pieces.
DEV inline void gemv_put(const gemv_args &a, i64 z, i64 r, sum_t sum) {
	if (a.part) {
		((sum_t *)a.part)[(block_y() * (i64)grid_z() + z) * a.rows + r] = sum;
		return;
	}
	T *y = (T *)a.y + z * a.stride_y + r * a.step_y;
	sum_t s = (sum_t)a.alpha * sum;
	*y = store<T>(a.beta != 0 ? fused((sum_t)a.beta, (sum_t)load(*y), s) : s);
}

// gemvdeep: the elements of a row of X lie side by side. A team, a warp or a block, sums up a row: packs of WIDE
// elements, as many apart as the team has threads, in the same order whether packs can be read at once or not.
KERNEL(JOIN(gemvdeep, T), gemv_args) {
	SHARED(sum_t, partial, WARP);
	i64 z = block_z(), from = block_y() * a.chunk, end = from + a.chunk < a.k ? from + a.chunk : a.k;
	for (i64 r = (i64)block_x() * block_rows() + thread_y(); r < a.rows; r += (i64)grid_x() * block_rows()) {
		const T *x = (const T *)a.x + z * a.stride_x + r * a.ld, *v = (const T *)a.v + z * a.stride_v;
		bool wide_x = aligned16(x), wide_v = aligned16(v) && a.step_v == 1;
		sum_t sum = 0;
		for (i64 i = from + (i64)thread_x() * WIDE; i < end; i += block_size() * WIDE) {
			pack<T, WIDE> p, q;
			bool whole = i + WIDE <= end;
			if (whole && wide_x) {
				p = read_wide<pack<T, WIDE>>(x + i);
			} else {
UNROLL
				for (int j = 0; j < WIDE; j++) p.v[j] = i + j < end ? x[i + j] : T{};
			}
			if (whole && wide_v) {
				q = read_wide<pack<T, WIDE>>(v + i);
			} else {
UNROLL
				for (int j = 0; j < WIDE; j++) q.v[j] = i + j < end ? v[(i + j) * a.step_v] : T{};
			}
UNROLL
			for (int j = 0; j < WIDE; j++) sum = fused((sum_t)load(p.v[j]), (sum_t)load(q.v[j]), sum);
		}
		sum = block_size() == WARP ? warp_sum(sum) : block_sum(sum, partial);
		if (thread_x() == 0) gemv_put(a, z, r, sum);
	}
}

#define GEMV_ROWS 8 // threads among which the values of k are dealt out

// gemvflat: the elements of X of one k lie side by side. A block has a warp's width of rows; each of its warps sums up
// every GEMV_ROWS-th k, and the first adds up the sums of the others, in order.
KERNEL(JOIN(gemvflat, T), gemv_args) {
	SHARED(sum_t, partial, GEMV_ROWS * WARP);
	i64 z = block_z(), from = block_y() * a.chunk, end = from + a.chunk < a.k ? from + a.chunk : a.k;
	i64 r = (i64)block_x() * WARP + thread_x();
	sum_t sum = 0;
	if (r < a.rows) {
		const T *x = (const T *)a.x + z * a.stride_x + r, *v = (const T *)a.v + z * a.stride_v;
		i64 k = from + thread_y();
		for (; k + 3 * GEMV_ROWS < end; k += 4 * GEMV_ROWS) { // four reads under way at once
			T p[4], q[4];
UNROLL
			for (int j = 0; j < 4; j++) p[j] = x[(k + j * GEMV_ROWS) * a.ld], q[j] = v[(k + j * GEMV_ROWS) * a.step_v];
UNROLL
			for (int j = 0; j < 4; j++) sum = fused((sum_t)load(p[j]), (sum_t)load(q[j]), sum);
		}
		for (; k < end; k += GEMV_ROWS) sum = fused((sum_t)load(x[k * a.ld]), (sum_t)load(v[k * a.step_v]), sum);
	}
	partial[thread_y() * WARP + thread_x()] = sum;
	barrier();
	if (thread_y() == 0 && r < a.rows) {
		for (u32 j = 1; j < GEMV_ROWS; j++) sum += partial[j * WARP + thread_x()];
		gemv_put(a, z, r, sum);
	}
}

struct gemmparts_args {
	const void *part; // [piece][product][row][column]
	void *c;
	i64 count, pieces; // elements of all products, below 2^31
	i64 ldc, stride_c;
	divider by_n, by_m;
	f64 alpha, beta;
};

// gemmparts adds up the pieces of K in their order: C = alpha*sum + beta*C.
KERNEL(JOIN(gemmparts, T), gemmparts_args) {
	const sum_t *part = (const sum_t *)a.part;
	for (i64 i = global_thread(); i < a.count; i += global_threads()) {
		sum_t sum = part[i];
		for (i64 p = 1; p < a.pieces; p++) sum += part[p * a.count + i];
		u32 row = divide((u32)i, a.by_n), z = divide(row, a.by_m);
		T *c = (T *)a.c + z * a.stride_c + (i64)(row - z * a.by_m.d) * a.ldc + ((u32)i - row * a.by_n.d);
		sum *= (sum_t)a.alpha;
		*c = store<T>(a.beta != 0 ? fused((sum_t)a.beta, (sum_t)load(*c), sum) : sum);
	}
}
