// Local response normalization: x / (bias + scale*s)^beta, s being the sum of the squares of neighbouring channels.
#include "elementwise.h"

struct lrn_args {
	const void *x;
	void *y;
	i64 n;          // elements
	i64 channels, d; // elements of a channel
	i64 before, after; // channels that count
	divider by_d, by_channels;
	f32 scale, beta, bias;
};

// Neighbouring threads read neighbouring elements of every channel; a channel is in the cache when the next ones ask
// for it.
template <typename T> DEV inline void lrn(const lrn_args &a) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 q = a.n < 1ll << 31 ? (i64)divide((u32)i, a.by_d) : i / a.d;
		i64 c = a.n < 1ll << 31 ? q - (i64)divide((u32)q, a.by_channels) * a.channels : q % a.channels;
		i64 first = c < a.before ? -c : -a.before, last = a.channels - 1 - c < a.after ? a.channels - 1 - c : a.after;
		const T *x = (const T *)a.x + i;
		f32 s = 0;
		for (i64 j = first; j <= last; j++) {
			f32 v = load(x[j * a.d]);
			s = fused(v, v, s);
		}
		s = fused(s, a.scale, a.bias);
		s = a.beta == 0.75f ? square_root(s) * square_root(square_root(s)) : power(s, a.beta);
		((T *)a.y)[i] = store<T>(load(*x) / s);
	}
}
KERNEL(lrn_f32, lrn_args) { lrn<f32>(a); }
KERNEL(lrn_f16, lrn_args) { lrn<f16>(a); }
KERNEL(lrn_bf16, lrn_args) { lrn<bf16>(a); }
