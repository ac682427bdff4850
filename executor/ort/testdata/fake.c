/* A library with the functions of ONNX Runtime's C API that memopt calls, at their places in the table. It counts the
 * objects that it hands out and takes back, writes down its calls, and lets the call fail that it is told to. A session
 * has the input x and the outputs y and z, each of which is a copy of the first input. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char trail[1 << 16];
static int calls, fails, alive, kind = 1, dtype, crooked;

void fake_reset(int fail) { calls = 0, fails = fail, kind = 1, dtype = 0, crooked = 0, trail[0] = 0; }
int fake_alive(void) { return alive; }
void fake_kind(int k) { kind = k; }
void fake_dtype(int d) { dtype = d; }
void fake_crooked(int c) { crooked = c; }
const char *fake_trail(void) { return trail; }

static void note(const char *format, ...) {
	size_t n = strlen(trail);
	va_list list;
	va_start(list, format);
	vsnprintf(trail + n, sizeof trail - n, format, list);
	va_end(list);
}

static void *made(size_t size) { return alive++, calloc(1, size); }
static void gone(void *p) { if (p) alive--, free(p); }

/* failure is the status of a call: NULL, or an error that names it. */
static void *failure(const char *name) {
	if (++calls != fails) return NULL;
	char *text = made(64);
	snprintf(text, 64, "%s  fails\n", name);
	return text;
}
#define CALL(name) do { void *bad = failure(name); if (bad) return bad; } while (0)
#define MAKES(name, out, size) do { CALL(name); *(out) = made(size); return NULL; } while (0)

struct value { void *data; int owned, dtype; int64_t bytes; size_t rank; int64_t dims[8]; };

static int error_code(void *status) { return status ? 6 : 0; }
static const char *error_message(void *status) { return status; }
static void *create_env(int level, const char *name, void **out) {
	note("env %d %s\n", level, name);
	MAKES("CreateEnv", out, 1);
}
static void *no_telemetry(void *env) { note("no telemetry\n"); CALL("DisableTelemetryEvents"); return NULL; }
static void *create_session(void *env, const char *path, void *options, void **out) {
	note("session %s\n", path);
	MAKES("CreateSession", out, 1);
}
static void *create_session_from_array(void *env, const void *data, size_t n, void *options, void **out) {
	note("session of %zu bytes\n", n);
	MAKES("CreateSessionFromArray", out, 1);
}
static void *create_options(void **out) { MAKES("CreateSessionOptions", out, 1); }
static void *set_level(void *o, int n) { note("level %d\n", n); CALL("SetSessionGraphOptimizationLevel"); return NULL; }
static void *set_intra(void *o, int n) { note("threads %d\n", n); CALL("SetIntraOpNumThreads"); return NULL; }
static void *set_inter(void *o, int n) { note("inter-op %d\n", n); CALL("SetInterOpNumThreads"); return NULL; }
static void *set_mode(void *o, int n) { note("mode %d\n", n); CALL("SetSessionExecutionMode"); return NULL; }
static void *no_pattern(void *o) { note("no pattern\n"); CALL("DisableMemPattern"); return NULL; }
static void *no_arena(void *o) { note("no arena\n"); CALL("DisableCpuMemArena"); return NULL; }
static void *config(void *o, const char *k, const char *v) {
	note("%s=%s\n", k, v);
	CALL("AddSessionConfigEntry");
	return NULL;
}
static void *input_count(void *s, size_t *n) { CALL("SessionGetInputCount"); *n = 1; return NULL; }
static void *output_count(void *s, size_t *n) { CALL("SessionGetOutputCount"); *n = 2; return NULL; }
static void *input_name(void *s, size_t i, void *a, char **out) {
	CALL("SessionGetInputName");
	*out = made(2), **out = 'x';
	return NULL;
}
static void *output_name(void *s, size_t i, void *a, char **out) {
	CALL("SessionGetOutputName");
	*out = made(2), **out = 'y' + i;
	return NULL;
}
static void *allocator_free(void *a, void *p) { gone(p); CALL("AllocatorFree"); return NULL; }
static void *default_allocator(void **out) {
	static int it;
	CALL("GetAllocatorWithDefaultOptions");
	*out = &it;
	return NULL;
}
static void *memory_info(int type, int mem, void **out) { MAKES("CreateCpuMemoryInfo", out, 1); }
static void *create_allocator(void *s, void *info, void **out) { MAKES("CreateAllocator", out, 1); }
static void *arena_config(const char **keys, const size_t *values, size_t n, void **out) {
	for (size_t i = 0; i < n; i++) note("arena %s=%zu\n", keys[i], values[i]);
	MAKES("CreateArenaCfgV2", out, 1);
}
static void *register_allocator(void *env, void *info, void *arena) {
	note("arena registered\n");
	CALL("CreateAndRegisterAllocator");
	return NULL;
}

static void *tensor_with_data(
    void *info, void *data, size_t bytes, const int64_t *dims, size_t rank, int type, void **out) {
	CALL("CreateTensorWithDataAsOrtValue");
	struct value *v = made(sizeof *v);
	v->data = data, v->bytes = bytes, v->rank = rank, v->dtype = type;
	memcpy(v->dims, dims, rank * sizeof *dims);
	*out = v;
	return NULL;
}

static void *run(
    void *s, void *options, const char **in, void **values, size_t nin, const char **names, size_t nout, void **out) {
	for (size_t i = 0; i < nin; i++) note("run with %s\n", in[i]);
	for (size_t i = 0; i < nout; i++) { /* what was made before a failure is the caller's */
		struct value *v = made(sizeof *v), *from = values[0];
		*v = *from;
		v->owned = 1, v->data = malloc(from->bytes + 1);
		memcpy(v->data, from->data, from->bytes);
		out[i] = v;
		if (i == 0) CALL("Run");
	}
	return NULL;
}

static void *mutable_data(struct value *v, void **out) { CALL("GetTensorMutableData"); *out = v->data; return NULL; }
static void *value_type(struct value *v, int32_t *out) { CALL("GetValueType"); *out = kind; return NULL; }
static void *type_and_shape(struct value *v, void **out) {
	CALL("GetTensorTypeAndShape");
	struct value *i = made(sizeof *i);
	*i = *v;
	*out = i;
	return NULL;
}
static void *element_type(struct value *i, int32_t *out) {
	CALL("GetTensorElementType");
	*out = dtype ? dtype : i->dtype;
	return NULL;
}
static void *dimensions_count(struct value *i, size_t *out) { CALL("GetDimensionsCount"); *out = i->rank; return NULL; }
static void *dimensions(struct value *i, int64_t *out, size_t n) {
	CALL("GetDimensions");
	memcpy(out, i->dims, n * sizeof *out);
	return NULL;
}
static void *stats(void *a, void **out) { MAKES("AllocatorGetStats", out, 1); }
static void pairs(void *p, const char ***keys, const char ***values, size_t *n) {
	static const char *k[] = {"NumAllocs", "InUse", "MaxInUse", "TotalAllocated"}, *v[] = {"9", "256", "512", "1024"},
	                  *w[] = {"9", "256", "many", "1024"};
	*keys = k, *values = crooked ? w : v, *n = 4;
}
static void release_value(struct value *v) { if (v->owned) free(v->data); gone(v); }

static const void *table[320];
static const void *api(unsigned version) {
	note("version %u\n", version);
	table[1] = error_code, table[2] = error_message, table[3] = create_env, table[6] = no_telemetry,
	table[7] = create_session, table[8] = create_session_from_array, table[9] = run;
	table[10] = create_options, table[13] = set_mode, table[17] = no_pattern, table[19] = no_arena,
	table[23] = set_level, table[24] = set_intra, table[25] = set_inter;
	table[30] = input_count, table[31] = output_count, table[36] = input_name, table[37] = output_name,
	table[49] = tensor_with_data, table[51] = mutable_data;
	table[60] = element_type, table[61] = dimensions_count, table[62] = dimensions, table[65] = type_and_shape,
	table[67] = value_type, table[69] = memory_info;
	table[76] = allocator_free, table[78] = default_allocator, table[96] = release_value, table[130] = config,
	table[131] = create_allocator;
	table[92] = table[93] = table[94] = table[95] = table[99] = table[100] = table[132] = table[157] = table[300] =
	    gone;
	table[144] = register_allocator, table[164] = arena_config, table[298] = pairs, table[319] = stats;
	return table;
}
static const char *release(void) { return "1.99.0-fake"; }
static struct { const void *(*api)(unsigned); const char *(*release)(void); } base = { api, release };
const void *OrtGetApiBase(void) { return &base; }
