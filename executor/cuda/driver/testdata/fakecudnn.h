// A libcudnn: descriptors are kept as they are set, convolutions are computed in the plainest way, in floats. Algorithm
// 0 of the gradients is not deterministic; algorithm n works in 64*n bytes, and writes all of them.

enum { TENSOR = 1, FILTER, CONV };
struct descriptor { int what, type, n, dims[5], strides[5], pad[3], stride[3], dilation[3], groups, math; };
struct perf { int algo, status; float time; size_t memory; int determinism, math, reserved[3]; };

#define BAD_PARAM (state[DNN_VERSION] < 90000 ? 3 : 2000)
size_t cudnnGetVersion(void) { return (size_t)state[DNN_VERSION]; }
const char *cudnnGetErrorString(int status) {
	return status == 3000 || status == 9 ? "CUDNN_STATUS_NOT_SUPPORTED"
	    : status == 5000 || status == 8  ? "CUDNN_STATUS_EXECUTION_FAILED"
	                                     : 0;
}
int cudnnCreate(void **h) { int e = fails(DNN); return *h = (void *)12, e ? e : lost() ? 1001 : 0; }
int cudnnDestroy(void *h) { return (long)h != 12; }
int cudnnSetStream(void *h, void *s) { return (long)h != 12 || (long)s != 5; }

static int create(struct descriptor **d, int what) {
	*d = calloc(1, sizeof **d);
	(*d)->what = what;
	state[DNN_LIVE]++;
	return 0;
}
static int destroy(struct descriptor *d, int what) { int e = d->what != what; free(d); state[DNN_LIVE]--; return e; }
int cudnnCreateTensorDescriptor(struct descriptor **d) { return create(d, TENSOR); }
int cudnnCreateFilterDescriptor(struct descriptor **d) { return create(d, FILTER); }
int cudnnCreateConvolutionDescriptor(struct descriptor **d) { return create(d, CONV); }
int cudnnDestroyTensorDescriptor(struct descriptor *d) { return destroy(d, TENSOR); }
int cudnnDestroyFilterDescriptor(struct descriptor *d) { return destroy(d, FILTER); }
int cudnnDestroyConvolutionDescriptor(struct descriptor *d) { return destroy(d, CONV); }
int cudnnSetTensorNdDescriptor(struct descriptor *d, int type, int n, const int *dims, const int *strides) {
	if (d->what != TENSOR || n < 4 || n > 5) return BAD_PARAM;
	d->type = type, d->n = n;
	memcpy(d->dims, dims, n * sizeof(int)), memcpy(d->strides, strides, n * sizeof(int));
	return 0;
}
int cudnnSetFilterNdDescriptor(struct descriptor *d, int type, int format, int n, const int *dims) {
	if (d->what != FILTER || format || n < 4 || n > 5) return BAD_PARAM;
	d->type = type, d->n = n;
	memcpy(d->dims, dims, n * sizeof(int));
	return 0;
}
int cudnnSetConvolutionNdDescriptor(
    struct descriptor *d, int n, const int *pad, const int *stride, const int *dilation, int mode, int type) {
	if (d->what != CONV || n < 2 || n > 3 || mode != 1 || type) return BAD_PARAM;
	d->n = n;
	memcpy(d->pad, pad, n * sizeof(int)), memcpy(d->stride, stride, n * sizeof(int)),
	    memcpy(d->dilation, dilation, n * sizeof(int));
	return 0;
}
int cudnnSetConvolutionGroupCount(struct descriptor *d, int groups) {
	return d->groups = groups, d->what == CONV ? 0 : BAD_PARAM;
}
int cudnnSetConvolutionMathType(struct descriptor *d, int math) {
	return d->math = math, state[DNN_MATH] = math, d->what == CONV ? 0 : BAD_PARAM;
}

// The three kinds of convolution, by which of x, w and y is computed: sums of out[c] += a[..]*b[..] over all taps.
enum { FORWARD, DATA, WEIGHTS };
static int matches(struct descriptor *x, struct descriptor *w, struct descriptor *y, struct descriptor *c) {
	if (x->what != TENSOR || y->what != TENSOR || w->what != FILTER || c->what != CONV || x->n != c->n + 2 ||
	    x->type != w->type || x->type != y->type)
		return 0;
	if (x->dims[0] != y->dims[0] || x->dims[1] != w->dims[1] * c->groups || y->dims[1] != w->dims[0]) return 0;
	for (int i = 0; i < c->n; i++)
		if (y->dims[2 + i] !=
		    1 + (x->dims[2 + i] + 2 * c->pad[i] - (w->dims[2 + i] - 1) * c->dilation[i] - 1) / c->stride[i])
			return 0;
	return 1;
}
static void convolve(int kind, struct descriptor *X, float *x, struct descriptor *W, float *w, struct descriptor *Y,
    float *y, struct descriptor *c) {
	long total = 1, taps = 1, places = 1, plane = 1;
	for (int i = 0; i < c->n; i++) taps *= W->dims[2 + i], places *= Y->dims[2 + i], plane *= X->dims[2 + i];
	total = kind == FORWARD ? Y->dims[0] * Y->dims[1] * places
	    : kind == DATA      ? X->dims[0] * X->dims[1] * plane
	                        : W->dims[0] * W->dims[1] * taps;
	memset(kind == FORWARD ? y : kind == DATA ? x : w, 0, total * sizeof(float));
	int per = Y->dims[1] / c->groups;
	for (int image = 0; image < X->dims[0]; image++)
		for (int m = 0; m < Y->dims[1]; m++)
			for (int k = 0; k < W->dims[1]; k++)
				for (long place = 0; place < places; place++)
					for (long tap = 0; tap < taps; tap++) {
						long p = place, t = tap, inside = 1,
						     at = image * X->strides[0] + (m / per * W->dims[1] + k) * X->strides[1];
						for (int i = c->n - 1; i >= 0; i--) {
							long v =
							    p % Y->dims[2 + i] * c->stride[i] - c->pad[i] + t % W->dims[2 + i] * c->dilation[i];
							p /= Y->dims[2 + i], t /= W->dims[2 + i];
							inside &= v >= 0 && v < X->dims[2 + i];
							at += v * X->strides[2 + i];
						}
						if (!inside) continue;
						float *a = &x[at], *b = &w[(m * W->dims[1] + k) * taps + tap],
						      *r = &y[image * Y->strides[0] + m * Y->strides[1] + place];
						if (kind == FORWARD) *r += *a * *b;
						else if (kind == DATA) *a += *r * *b;
						else *b += *r * *a;
					}
}
static int run(void *h, int kind, const float *alpha, const float *beta, struct descriptor *x, float *px,
    struct descriptor *w, float *pw, struct descriptor *y, float *py, struct descriptor *c, int algo, char *workspace,
    size_t bytes) {
	int e = fails(DNN);
	if (e) return e;
	if ((long)h != 12 || !matches(x, w, y, c) || *alpha != 1 || *beta != 0 || bytes != 64 * (size_t)algo ||
	    !workspace != !bytes)
		return BAD_PARAM;
	memset(workspace, 0xff, bytes);
	state[DNN_WORKSPACE] = (long)bytes;
	if (x->type) return 3000;
	convolve(kind, x, px, w, pw, y, py, c);
	return 0;
}
typedef struct descriptor *D;
typedef const float *F;
int cudnnConvolutionForward(
    void *h, F alpha, D x, float *px, D w, float *pw, D c, int algo, void *ws, size_t n, F beta, D y, float *py) {
	return run(h, FORWARD, alpha, beta, x, px, w, pw, y, py, c, algo, ws, n);
}
int cudnnConvolutionBackwardData(
    void *h, F alpha, D w, float *pw, D y, float *py, D c, int algo, void *ws, size_t n, F beta, D x, float *px) {
	return run(h, DATA, alpha, beta, x, px, w, pw, y, py, c, algo, ws, n);
}
int cudnnConvolutionBackwardFilter(
    void *h, F alpha, D x, float *px, D y, float *py, D c, int algo, void *ws, size_t n, F beta, D w, float *pw) {
	return run(h, WEIGHTS, alpha, beta, x, px, w, pw, y, py, c, algo, ws, n);
}
static int size(void *h, int fits, int algo, size_t *n) {
	return *n = 64 * (size_t)algo, (long)h != 12 || !fits ? BAD_PARAM : 0;
}
int cudnnGetConvolutionForwardWorkspaceSize(void *h, D x, D w, D c, D y, int algo, size_t *n) {
	return size(h, matches(x, w, y, c), algo, n);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void *h, D w, D y, D c, D x, int algo, size_t *n) {
	return size(h, matches(x, w, y, c), algo, n);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *h, D x, D y, D c, D w, int algo, size_t *n) {
	return size(h, matches(x, w, y, c), algo, n);
}
// Four algorithms, of which the second does not work; the third would round its operands, unless told not to.
static int guess(void *h, int kind, int fits, D c, int most, int *count, struct perf *p) {
	int e = fails(DNN);
	if (e) return e;
	if ((long)h != 12 || !fits || most < 4) return BAD_PARAM;
	for (int i = 0; i < 4; i++) p[i] = (struct perf){i, i == 1 ? 3000 : 0, -1, 999, kind == FORWARD || i > 0, c->math};
	if (c->math == 3) p[2].math = 0;
	return *count = 4, 0;
}
int cudnnGetConvolutionForwardAlgorithm_v7(void *h, D x, D w, D c, D y, int most, int *count, struct perf *p) {
	return guess(h, FORWARD, matches(x, w, y, c), c, most, count, p);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *h, D w, D y, D c, D x, int most, int *count, struct perf *p) {
	return guess(h, DATA, matches(x, w, y, c), c, most, count, p);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *h, D x, D y, D c, D w, int most, int *count, struct perf *p) {
	return guess(h, WEIGHTS, matches(x, w, y, c), c, most, count, p);
}
#ifndef WITHOUT_FIND
static int find(void *h, int kind, D x, float *px, D w, float *pw, D y, float *py, D c, int most, int *count,
    struct perf *p, char *workspace, size_t bytes) {
	float one = 1, zero = 0;
	int n = 0;
	if ((long)h != 12 || most < 4) return BAD_PARAM;
	for (int algo = 3; algo >= 0; algo--) {
		size_t wanted = 64 * (size_t)algo;
		int e = wanted > bytes
		    ? 4000
		    : run(h, kind, &one, &zero, x, px, w, pw, y, py, c, algo, wanted ? workspace : 0, wanted);
		p[n++] = (struct perf){algo, e, 4 - algo, wanted, kind == FORWARD || algo > 0, c->math};
	}
	return *count = n, 0;
}
int cudnnFindConvolutionForwardAlgorithmEx(void *h, D x, float *px, D w, float *pw, D c, D y, float *py, int most,
    int *count, struct perf *p, void *ws, size_t n) {
	return find(h, FORWARD, x, px, w, pw, y, py, c, most, count, p, ws, n);
}
int cudnnFindConvolutionBackwardDataAlgorithmEx(void *h, D w, float *pw, D y, float *py, D c, D x, float *px, int most,
    int *count, struct perf *p, void *ws, size_t n) {
	return find(h, DATA, x, px, w, pw, y, py, c, most, count, p, ws, n);
}
int cudnnFindConvolutionBackwardFilterAlgorithmEx(void *h, D x, float *px, D y, float *py, D c, D w, float *pw,
    int most, int *count, struct perf *p, void *ws, size_t n) {
	return find(h, WEIGHTS, x, px, w, pw, y, py, c, most, count, p, ws, n);
}
#endif
