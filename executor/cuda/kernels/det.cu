// Determinants by Gaussian elimination in f64, with the largest element of the rest of a column as its pivot.
#include "memopt.h"

#define DET_THREADS 256

struct det_args {
	const void *x;
	void *y;
	f64 *work; // a copy of every matrix
	i64 count, n;
};

struct pivot { f64 size; i64 row; };

// better_of is the larger one, the first one of equals.
DEV inline pivot better_of(pivot a, pivot b) { return b.size > a.size || (b.size == a.size && b.row < a.row) ? b : a; }

// pivot_of returns the row of the largest element of a column from row col on: col itself where that is NaN.
DEV inline i64 pivot_of(const f64 *m, i64 n, i64 col, pivot *all) {
	pivot p = {-1, n};
	for (i64 row = col + thread_x(); row < n; row += DET_THREADS) {
		f64 v = m[row * n + col];
		p = better_of(p, pivot{v < 0 ? -v : v, row});
	}
	all[thread_x()] = p;
	for (u32 half = DET_THREADS / 2; half > 0; half /= 2) {
		barrier();
		if (thread_x() < half) all[thread_x()] = better_of(all[thread_x()], all[thread_x() + half]);
	}
	barrier();
	f64 v = m[col * n + col];
	i64 row = v != v || all[0].size < 0 ? col : all[0].row;
	barrier(); // all is written again
	return row;
}

// determinant has a block for each matrix; each thread returns the same.
DEV inline f64 determinant(f64 *m, i64 n, pivot *all) {
	f64 det = 1;
	for (i64 col = 0; col < n; col++) {
		i64 row = pivot_of(m, n, col, all), rest = n - col - 1;
		if (row != col) {
			det = -det;
			for (i64 j = thread_x(); j < n; j += DET_THREADS) {
				f64 v = m[col * n + j];
				m[col * n + j] = m[row * n + j];
				m[row * n + j] = v;
			}
			barrier();
		}
		f64 head = m[col * n + col];
		det *= head;
		if (head == 0) continue; // NaN and infinities further on still show
		for (i64 i = thread_x(); i < rest; i += DET_THREADS) m[(col + 1 + i) * n + col] /= head;
		barrier();
		for (i64 i = thread_x(); i < rest * rest; i += DET_THREADS) {
			i64 r = col + 1 + i / rest, j = col + 1 + i % rest;
			m[r * n + j] -= m[r * n + col] * m[col * n + j];
		}
		barrier();
	}
	return det;
}

template <typename T> DEV inline void determinants(const det_args &a, pivot *all) {
	for (i64 k = block_x(); k < a.count; k += grid_x()) {
		f64 *m = a.work + k * a.n * a.n;
		for (i64 i = thread_x(); i < a.n * a.n; i += DET_THREADS) m[i] = (f64)load(((const T *)a.x)[k * a.n * a.n + i]);
		barrier();
		f64 det = determinant(m, a.n, all);
		if (thread_x() == 0) ((T *)a.y)[k] = store<T>((typename compute<T>::type)det);
	}
}

#define DET(T)                                \
	KERNEL(det_##T, det_args) {               \
		SHARED(pivot, all, DET_THREADS);      \
		determinants<T>(a, all);              \
	}
DET(f32)
DET(f64)
DET(f16)
DET(bf16)
