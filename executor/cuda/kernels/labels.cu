// Labels of losses, looked at: int32, -1 for ignored ones. A label that is no class becomes -1 as well, and bad the
// complement of the place of the first one.
#include "memopt.h"

struct labels_args {
	const void *from;
	i32 *to;
	u32 *bad;
	i64 n, classes, ignored;
	u32 ignores;
};

template <typename L> DEV inline void labels_loop(const labels_args &a) {
	const L *from = (const L *)a.from;
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		i64 v = from[i];
		bool ignored = a.ignores && v == a.ignored, outside = !ignored && (v < 0 || v >= a.classes);
		if (outside) atomic_max(a.bad, ~(u32)(i < 0xfffffffell ? i : 0xfffffffell));
		a.to[i] = ignored || outside ? -1 : (i32)v;
	}
}

KERNEL(labels_i32, labels_args) { labels_loop<i32>(a); }
KERNEL(labels_i64, labels_args) { labels_loop<i64>(a); }
