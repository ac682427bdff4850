// Ones at the places that were chosen along an axis, zeros elsewhere.
#include "elementwise.h"

struct hardmax_args {
	const i64 *chosen; // [rows, inner]
	void *y;           // [rows, n, inner]
	i64 total;         // elements of y
	i64 n, inner;
	divider by_inner, by_n;
};

template <typename T> DEV inline void hardmax(const hardmax_args &a) {
	for (i64 i = global_thread(); i < a.total; i += global_threads()) {
		i64 q, row;
		if (a.total < 1ll << 31) q = divide((u32)i, a.by_inner), row = divide((u32)q, a.by_n);
		else q = i / a.inner, row = q / a.n;
		((T *)a.y)[i] = store<T>(a.chosen[row * a.inner + (i - q * a.inner)] == q - row * a.n ? 1.0f : 0.0f);
	}
}
KERNEL(hardmax_f32, hardmax_args) { hardmax<f32>(a); }
KERNEL(hardmax_f16, hardmax_args) { hardmax<f16>(a); }
KERNEL(hardmax_bf16, hardmax_args) { hardmax<bf16>(a); }
