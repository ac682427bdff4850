// The host's side of memopt.h. A grid's blocks run one after the other, and so do the threads of a block, each until it
// waits at a barrier or a shuffle: there it is set aside, and the next one goes on. Threads that never wait share one
// stack. A thread that ends while others wait at a barrier is a fault, as is one part of a warp that waits where the
// other does not: devices may hang there.
//
// One launch at a time: the caller sees to that.
#ifndef MEMOPT_HOST_H
#define MEMOPT_HOST_H

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define DEV
#define CONSTANT static const
#define EXPORT __attribute__((visibility("default")))

namespace memopt_host {

// launch is what the driver double passes; Go has the same struct (double/launch.go).
struct launch {
	u32 grid[3], block[3];
	u32 shared_bytes;
	u32 backwards; // threads and blocks in descending order: results must not depend on it
	const void *args;
	u64 args_bytes;
	char *message; // of 256 bytes: what went wrong, "" if nothing
};

enum state { idle, ready, at_barrier, at_warp };

struct fiber {
	jmp_buf at;
	ucontext_t first;
	char *stack;
	u32 thread;
	state is;
	bool begun;
};

const u64 stack_bytes = 128 << 10;
const u32 most_threads = 1024, most_shared = 96 << 10;

static fiber fibers[most_threads];
static fiber *current;
static u32 threads, begun, ended, used; // of the block; fibers in use
static jmp_buf scheduler;
static u64 slots[most_threads]; // what threads exchange in shuffles
static u64 block_serial;        // distinguishes blocks, for SHARED
static u32 block_at[3];
static launch now;
static void (*body)();
static bool broken;
static u64 dynamic_shared[most_shared / 8];

inline u32 thread() { return current->thread; }

inline void leave() {
	if (_setjmp(current->at) == 0) _longjmp(scheduler, 1);
}

// fail ends the launch with a message; the first one counts.
inline void fail(const char *text) {
	if (!broken)
		snprintf(
		    now.message, 256, "block %u,%u,%u thread %u: %s", block_at[0], block_at[1], block_at[2], thread(), text);
	broken = true;
	for (;;) leave();
}

// main_of_fiber runs threads as long as there are any that have not begun.
static void main_of_fiber() {
	for (;;) {
		while (begun < threads) {
			u32 t = begun++;
			current->thread = now.backwards ? threads - 1 - t : t;
			body();
			ended++;
		}
		current->is = idle;
		leave();
	}
}

static void resume(fiber *f) {
	current = f;
	if (_setjmp(scheduler)) return;
	if (f->begun) _longjmp(f->at, 1);
	f->begun = true;
	getcontext(&f->first);
	if (!f->stack)
		f->stack =
		    (char *)mmap(0, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	f->first.uc_stack.ss_sp = f->stack;
	f->first.uc_stack.ss_size = stack_bytes;
	f->first.uc_link = 0;
	makecontext(&f->first, main_of_fiber, 0);
	setcontext(&f->first);
}

// release lets the threads go on that all wait at the same place. It reports whether there were any.
static bool release() {
	u32 waiting[most_threads / WARP] = {}, blocked = 0;
	for (u32 i = 0; i < used; i++) {
		if (fibers[i].is == at_warp) waiting[fibers[i].thread / WARP]++;
		if (fibers[i].is == at_barrier) blocked++;
	}
	bool any = false;
	for (u32 i = 0; i < used; i++) {
		u32 warp = fibers[i].thread / WARP, size = threads - warp * WARP < WARP ? threads - warp * WARP : WARP;
		bool all = fibers[i].is == at_warp ? waiting[warp] == size : fibers[i].is == at_barrier && blocked == threads;
		if (!all) continue;
		any = true;
	}
	if (!any) return false;
	for (u32 i = 0; i < used; i++) {
		u32 warp = fibers[i].thread / WARP, size = threads - warp * WARP < WARP ? threads - warp * WARP : WARP;
		if ((fibers[i].is == at_warp && waiting[warp] == size) || (fibers[i].is == at_barrier && blocked == threads))
			fibers[i].is = ready;
	}
	return true;
}

static void run_block() {
	block_serial++;
	begun = ended = used = 0;
	while (begun < threads && !broken) {
		fibers[used].is = ready;
		resume(&fibers[used++]);
	}
	while (ended < threads && !broken) {
		if (!release()) {
			snprintf(now.message, 256,
			    "block %u,%u,%u: %u of %u threads have ended, the others wait at a barrier or a shuffle that not all "
			    "of them reach",
			    block_at[0], block_at[1], block_at[2], ended, threads);
			broken = true;
		}
		for (u32 i = 0; i < used && !broken; i++) {
			fiber *f = &fibers[now.backwards ? used - 1 - i : i];
			if (f->is == ready) resume(f);
		}
	}
}

static void run() {
	threads = now.block[0] * now.block[1] * now.block[2];
	broken = false;
	now.message[0] = 0;
	if (threads == 0 || threads > most_threads || now.shared_bytes > most_shared) {
		snprintf(now.message, 256, "%u threads and %u bytes of shared memory in a block; at most %u and %u", threads,
		    now.shared_bytes, most_threads, most_shared);
		return;
	}
	u64 blocks = (u64)now.grid[0] * now.grid[1] * now.grid[2];
	for (u64 i = 0; i < blocks && !broken; i++) {
		u64 b = now.backwards ? blocks - 1 - i : i;
		block_at[0] = b % now.grid[0];
		block_at[1] = b / now.grid[0] % now.grid[1];
		block_at[2] = b / now.grid[0] / now.grid[1];
		memset(dynamic_shared, 0xff, now.shared_bytes);
		run_block();
	}
	if (broken)
		for (u32 i = 0; i < most_threads; i++) fibers[i].begun = false; // stacks hold what was left in the middle
}

inline void wait(state at) {
	current->is = at;
	leave();
}

// enter_shared fills shared memory with NaN where a block comes to it first.
inline void enter_shared(u64 *serial, void *p, u64 n) {
	if (*serial == block_serial) return;
	*serial = block_serial;
	memset(p, 0xff, n);
}

template <typename T> T exchange(T x, i32 from) {
	u32 base = thread() / WARP * WARP;
	memcpy(&slots[thread()], &x, sizeof x);
	wait(at_warp);
	T y = x;
	u32 size = threads - base < WARP ? threads - base : WARP;
	if (from >= 0 && (u32)from < WARP) {
		if ((u32)from >= size) fail("a shuffle reads a lane that has no thread");
		memcpy(&y, &slots[base + from], sizeof y);
	}
	wait(at_warp);
	return y;
}

} // namespace memopt_host

#define KERNEL(name, args) MEMOPT_KERNEL(name, args) // so that name may be a macro
#define MEMOPT_KERNEL(name, arguments) \
	static void name##_thread(const arguments a); \
	static const arguments *name##_args; \
	static void name##_body() { name##_thread(*name##_args); } \
	extern "C" EXPORT void name(const memopt_host::launch *l) { \
		memopt_host::now = *l; \
		if (l->args_bytes != sizeof(arguments)) { \
			snprintf(l->message, 256, "got %llu bytes of arguments, " #arguments " has %llu", l->args_bytes, \
			    (u64)sizeof(arguments)); \
			return; \
		} \
		name##_args = (const arguments *)l->args; \
		memopt_host::body = name##_body; \
		memopt_host::run(); \
	} \
	static void name##_thread(const arguments a)

#define SHARED(type, name, count)                           \
	static type name[count];                                \
	static u64 name##_serial;                               \
	memopt_host::enter_shared(&name##_serial, name, sizeof name)
#define DYNAMIC_SHARED(type, name) type *name = (type *)memopt_host::dynamic_shared

inline u32 thread_x() { return memopt_host::thread() % memopt_host::now.block[0]; }
inline u32 thread_y() { return memopt_host::thread() / memopt_host::now.block[0] % memopt_host::now.block[1]; }
inline u32 block_x() { return memopt_host::block_at[0]; }
inline u32 block_y() { return memopt_host::block_at[1]; }
inline u32 block_z() { return memopt_host::block_at[2]; }
inline u32 grid_x() { return memopt_host::now.grid[0]; }
inline u32 grid_y() { return memopt_host::now.grid[1]; }
inline u32 grid_z() { return memopt_host::now.grid[2]; }
inline u32 block_size() { return memopt_host::now.block[0]; }
inline u32 block_rows() { return memopt_host::now.block[1]; }

inline void barrier() { memopt_host::wait(memopt_host::at_barrier); }
inline void warp_barrier() { memopt_host::wait(memopt_host::at_warp); }

template <typename T> T shuffle_xor(T x, u32 mask) {
	return memopt_host::exchange(x, (i32)(memopt_host::thread() % WARP ^ mask));
}
template <typename T> T shuffle_down(T x, u32 by) {
	return memopt_host::exchange(x, (i32)(memopt_host::thread() % WARP + by));
}
template <typename T> T shuffle_up(T x, u32 by) {
	return memopt_host::exchange(x, (i32)(memopt_host::thread() % WARP) - (i32)by);
}
template <typename T> T shuffle_at(T x, u32 lane) { return memopt_host::exchange(x, (i32)(lane % WARP)); }

template <typename T> T atomic_add(T *p, T x) {
	T old = *p;
	*p = old + x;
	return old;
}
template <typename T> T atomic_max(T *p, T x) {
	T old = *p;
	*p = x > old ? x : old;
	return old;
}

inline f32 half_to_float(u16 h) {
	u32 sign = (u32)(h >> 15) << 31, exp = h >> 10 & 31, frac = h & 1023;
	f32 x;
	if (exp == 0) { // a multiple of 2^-24
		x = (f32)frac * (1.0f / 16777216);
		return sign ? -x : x;
	}
	u32 bits = sign | (exp == 31 ? 255 : exp + 112) << 23 | frac << 13;
	return __builtin_bit_cast(f32, bits);
}
inline u16 float_to_half(f32 x) {
	u32 u = __builtin_bit_cast(u32, x);
	u16 sign = u >> 16 & 0x8000;
	u &= 0x7fffffff;
	if (u > 0x7f800000) return 0x7fff;
	if (u >= 0x477ff000) return sign | 0x7c00; // rounds beyond 65504
	if (u < 0x38800000)
		return sign | (u16)lrintf(__builtin_bit_cast(f32, u) * 16777216.0f); // subnormal: in units of 2^-24
	u += 0xfff + (u >> 13 & 1);
	return sign | (u16)((u >> 13) - (112 << 10));
}

inline f32 fused(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
inline f64 fused(f64 x, f64 y, f64 z) { return fma(x, y, z); }
inline f32 square_root(f32 x) { return sqrtf(x); }
inline f64 square_root(f64 x) { return sqrt(x); }
inline f32 to_nearest(f32 x) { return rintf(x); }
inline f32 round_down(f32 x) { return floorf(x); }
inline f32 round_up(f32 x) { return ceilf(x); }
inline f32 truncate(f32 x) { return truncf(x); }
inline f64 to_nearest(f64 x) { return rint(x); }
inline f64 round_down(f64 x) { return floor(x); }
inline f64 round_up(f64 x) { return ceil(x); }
inline f64 truncate(f64 x) { return trunc(x); }
#endif
