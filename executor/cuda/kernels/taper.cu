// HannWindow, HammingWindow and BlackmanWindow: y[i] = a - b*cos(2*pi*i/n) + c*cos(4*pi*i/n). The angle is computed in f64, so that
// long windows lose nothing.
#include "anyfloat.h"

struct taper_args {
	void *y;
	i64 n;
	i64 period; // 0: all is 1
	u32 type;
	f32 a, b, c;
};

KERNEL(taper_any, taper_args) {
	for (i64 i = global_thread(); i < a.n; i += global_threads()) {
		f64 turn = a.period ? (f64)i / (f64)a.period : 0.0;
		f32 t = (f32)(turn * 6.283185307179586);
		f32 v = a.a - a.b * cosine(t) + a.c * cosine(2.0f * t);
		put_stat(a.y, a.type, i, a.period ? v : 1.0f);
	}
}
