// A libcuda, libcublas, libcudnn (fakecudnn.h) and libnvidia-ml for tests of the calls themselves: which arguments
// arrive where. Memory is the host's, and work is done at once. fake_set prepares answers; fake_get returns
// the record of calls.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	VERSION,
	DEVICES,
	CAPABILITY,
	FAIL_CALL,
	FAIL_CODE,
	ALLOCATED,
	CONTEXTS,
	RESETS,
	CURRENT,
	GRAPHS,
	WORKSPACE,
	COMPUTE,
	DNN_VERSION,
	DNN_MATH,
	DNN_LIVE,
	DNN_WORKSPACE,
	MADE,
	NUM
};
static long state[NUM] = {[VERSION] = 12040, [DEVICES] = 2, [CAPABILITY] = 90, [DNN_VERSION] = 90100};
void fake_set(long what, long value) { state[what] = value; }
long fake_get(long what) { return state[what]; }

// Calls that may be told to fail have numbers.
enum { ANY, ALLOC = 1, LAUNCH, SYNC, LOAD, GEMM, INIT, DNN, RETAIN, INFO, BLAS };
static int fails(int call) {
	if (state[FAIL_CALL] != call) return 0;
	if (state[FAIL_CODE] < 700) state[FAIL_CALL] = 0; // once; others stay
	return (int)state[FAIL_CODE];
}

int cuInit(unsigned flags) { return flags ? 1 : fails(INIT); }
int cuDriverGetVersion(int *v) { return *v = (int)state[VERSION], 0; }
int cuDeviceGetCount(int *n) { return *n = (int)state[DEVICES], 0; }
int cuDeviceGet(int *dev, int ordinal) { return *dev = ordinal + 10, 0; }
int cuDeviceGetName(char *name, int n, int dev) { return snprintf(name, n, "fake %d", dev), 0; }
int cuDeviceGetAttribute(int *v, int attr, int dev) {
	switch (attr) {
	case 75: *v = (int)state[CAPABILITY] / 10; break;
	case 76: *v = (int)state[CAPABILITY] % 10; break;
	case 16: *v = 132; break;
	case 8: *v = 49152; break;
	default: return 1;
	}
	return dev < 10;
}
int cuDeviceTotalMem_v2(size_t *n, int dev) { return *n = (size_t)80 << 30, dev < 10; }
int cuDevicePrimaryCtxRetain(void **ctx, int dev) {
	int e = fails(RETAIN);
	if (e) return e;
	return *ctx = (void *)(long)(1000 + dev), state[CONTEXTS]++, 0;
}
int cuDeviceGetPCIBusId(char *name, int n, int dev) { return snprintf(name, n, "0000:%02X:00.0", dev), n < 13; }
int cuDevicePrimaryCtxRelease_v2(int dev) { return state[CONTEXTS]--, dev < 10; }
int cuDevicePrimaryCtxReset_v2(int dev) { return state[RESETS]++, dev < 10; }
int cuCtxSetCurrent(void *ctx) { return state[CURRENT] = (long)ctx, 0; }
static int lost(void) { return state[CURRENT] < 1000 ? 201 : 0; }
int cuMemAlloc_v2(void **p, size_t n) {
	int e = fails(ALLOC);
	if (e) return e;
	*p = aligned_alloc(256, (n + 255) / 256 * 256);
	state[ALLOCATED]++;
	return lost();
}
int cuMemFree_v2(void *p) { return free(p), state[ALLOCATED]--, lost(); }
int cuMemHostAlloc(void **p, size_t n, unsigned flags) {
	return *p = malloc(n), state[ALLOCATED]++, flags ? 1 : lost();
}
int cuMemFreeHost(void *p) { return free(p), state[ALLOCATED]--, lost(); }
int cuMemGetInfo_v2(size_t *available, size_t *total) {
	int e = fails(INFO);
	return *available = 7, *total = 9, e ? e : lost();
}
// The last copy from the host during a capture is done again by the graph.
static struct { void *to; const void *from; size_t n; int capturing; } noted;
int cuMemcpyHtoDAsync_v2(void *d, const void *s, size_t n, void *stream) {
	if (noted.capturing) noted.to = d, noted.from = s, noted.n = n;
	else memcpy(d, s, n);
	return (long)stream != 5;
}
int cuMemcpyDtoHAsync_v2(void *d, const void *s, size_t n, void *stream) { return memcpy(d, s, n), (long)stream != 5; }
int cuMemcpyDtoDAsync_v2(void *d, const void *s, size_t n, void *stream) { return memcpy(d, s, n), (long)stream != 5; }
int cuMemsetD8Async(void *d, unsigned char v, size_t n, void *stream) { return memset(d, v, n), (long)stream != 5; }
int cuModuleLoadDataEx(void **m, const char *image, unsigned n, int *keys, void **values) {
	int e = fails(LOAD);
	if (n != 2 || keys[0] != 5 || keys[1] != 6) return 1;
	if (e) snprintf(values[0], (size_t)values[1], "line 3:\n  no such instruction");
	*m = (void *)strlen(image);
	if (!e) state[MADE]++;
	return e;
}
int cuModuleGetFunction(void **f, void *m, const char *name) {
	return *f = (void *)7, strcmp(name, "bump") ? 500 : m == 0;
}
// The one kernel adds to n ints, as many as there are threads.
struct bump { int *p; int64_t n; int by; };
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **params, void **extra) {
	int e = fails(LAUNCH);
	struct bump *a = params[0];
	if (e) return e;
	if ((long)f != 7 || gy != 2 || gz != 3 || by != 5 || bz != 6 || shared != 77 || (long)stream != 5 || extra ||
	    a->n != gx * bx)
		return 1;
	for (int64_t i = 0; i < a->n; i++) a->p[i] += a->by;
	return lost();
}
int cuModuleUnload(void *m) { return state[MADE]--, m == 0; }
int cuStreamCreate(void **s, unsigned flags) { return *s = (void *)5, state[MADE]++, flags != 1; }
int cuStreamDestroy_v2(void *s) { return state[MADE]--, (long)s != 5; }
int cuStreamSynchronize(void *s) { int e = fails(SYNC); return e ? e : (long)s != 5; }
int cuStreamWaitEvent(void *s, void *e, unsigned flags) { return (long)s != 5 || (long)e != 6 || flags; }
int cuStreamBeginCapture_v2(void *s, int mode) { return noted.capturing = 1, noted.n = 0, (long)s != 5 || mode != 2; }
int cuStreamEndCapture(void *s, void **g) { return noted.capturing = 0, *g = (void *)8, state[GRAPHS]++, (long)s != 5; }
int cuEventCreate(void **e, unsigned flags) { return *e = (void *)6, state[MADE]++, flags; }
int cuEventDestroy_v2(void *e) { return state[MADE]--, (long)e != 6; }
int cuEventRecord(void *e, void *s) { return (long)e != 6 || (long)s != 5; }
int cuEventElapsedTime(float *ms, void *a, void *b) { return *ms = 2.5f, a != b; }
int cuGraphInstantiateWithFlags(void **x, void *g, unsigned long long flags) {
	return *x = (void *)9, state[GRAPHS]++, (long)g != 8 || flags;
}
int cuGraphLaunch(void *x, void *s) {
	return noted.n ? memcpy(noted.to, noted.from, noted.n) : 0, (long)x != 9 || (long)s != 5;
}
int cuGraphExecDestroy(void *x) { return state[GRAPHS]--, (long)x != 9; }
int cuGraphDestroy(void *g) { return state[GRAPHS]--, (long)g != 8; }
int cuGetErrorName(int code, const char **s) {
	return *s = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
	           : code == 2  ? "CUDA_ERROR_OUT_OF_MEMORY"
	                        : "CUDA_ERROR_OTHER",
	       0;
}
int cuGetErrorString(int code, const char **s) { return *s = "a text", code == 12345; }

int cublasCreate_v2(void **h) {
	int e = fails(BLAS);
	return *h = (void *)11, e ? e : lost();
}
int cublasDestroy_v2(void *h) { return (long)h != 11; }
int cublasSetStream_v2(void *h, void *s) { return state[WORKSPACE] = 0, (long)h != 11 || (long)s != 5; }
int cublasSetWorkspace_v2(void *h, void *p, size_t n) {
	return state[WORKSPACE] = (long)n, (long)h != 11 || (p == 0) != (n == 0);
}
int cublasSetMathMode(void *h, int mode) { return (long)h != 11 || mode != 16; }
// Matrices in columns, of floats.
int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const float *A, int at,
    int lda, long long sa, const float *B, int bt, int ldb, long long sb, const void *beta, float *C, int ct, int ldc,
    long long sc, int batch, int compute, int algo) {
	int e = fails(GEMM);
	if (e) return e;
	state[COMPUTE] = compute;
	if ((long)h != 11 || at || bt || ct || algo != -1) return 7;
	for (int b = 0; b < batch; b++, A += sa, B += sb, C += sc)
		for (int j = 0; j < n; j++)
			for (int i = 0; i < m; i++) {
				float sum = 0, *c = &C[i + j * ldc];
				for (int l = 0; l < k; l++)
					sum += (ta ? A[l + i * lda] : A[i + l * lda]) * (tb ? B[j + l * ldb] : B[l + j * ldb]);
				*c = *(float *)alpha * sum + (*(float *)beta ? *(float *)beta * *c : 0);
			}
	return lost();
}

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **d) {
	return *d = (void *)21L, strcmp(bus, "0000:0B:00.0") ? 6 : 0;
}
struct process { unsigned pid; unsigned long long used; unsigned a, b; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *p) {
	p[0] = (struct process){1, 1, 0, 0};
	p[1] = (struct process){(unsigned)getpid(), 123456, 0, 0};
	return *n = 2, (long)d != 21;
}

#include "fakecudnn.h"
