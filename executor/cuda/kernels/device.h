// The device's side of memopt.h: clang's builtins and inline PTX stand in for the headers of a CUDA toolkit.
#ifndef MEMOPT_DEVICE_H
#define MEMOPT_DEVICE_H

#define DEV __attribute__((device)) __attribute__((always_inline))
#define CONSTANT static __attribute__((constant))

// KERNEL begins a kernel whose arguments are the members of the struct a.
#define KERNEL(name, args) extern "C" __attribute__((global)) void name(const args a)

// SHARED declares count elements that a block's threads share. Their first contents are undefined.
#define SHARED(type, name, count) static __attribute__((device)) __attribute__((shared)) type name[count]
// DYNAMIC_SHARED is the shared memory whose size the launch sets.
extern __attribute__((device)) __attribute__((shared))
__attribute__((aligned(16))) unsigned char memopt_dynamic_shared[];
#define DYNAMIC_SHARED(type, name) type *name = (type *)memopt_dynamic_shared

DEV inline u32 thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
DEV inline u32 thread_y() { return __nvvm_read_ptx_sreg_tid_y(); }
DEV inline u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEV inline u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEV inline u32 block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEV inline u32 grid_x() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEV inline u32 grid_y() { return __nvvm_read_ptx_sreg_nctaid_y(); }
DEV inline u32 grid_z() { return __nvvm_read_ptx_sreg_nctaid_z(); }
// block_size is the number of threads along x; block_rows along y.
DEV inline u32 block_size() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEV inline u32 block_rows() { return __nvvm_read_ptx_sreg_ntid_y(); }

// barrier waits for all threads of the block; each must come.
DEV inline void barrier() { __syncthreads(); }
// warp_barrier waits for all threads of the warp.
DEV inline void warp_barrier() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// shuffle_xor returns x of the thread whose lane differs in the bits of mask; all threads of the warp call it.
DEV inline u32 shuffle_xor(u32 x, u32 mask) {
	u32 y;
	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(mask));
	return y;
}
// shuffle_down returns x of the thread delta lanes on, or its own past the warp's end.
DEV inline u32 shuffle_down(u32 x, u32 delta) {
	u32 y;
	asm volatile("shfl.sync.down.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(delta));
	return y;
}
// shuffle_up returns x of the thread delta lanes back, or its own before the warp's start.
DEV inline u32 shuffle_up(u32 x, u32 delta) {
	u32 y;
	asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(y) : "r"(x), "r"(delta));
	return y;
}
// shuffle_at returns x of the thread at a lane.
DEV inline u32 shuffle_at(u32 x, u32 lane) {
	u32 y;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(lane));
	return y;
}
#define MEMOPT_SHUFFLE(name)                                                                              \
	DEV inline f32 name(f32 x, u32 by) { return __builtin_bit_cast(f32, name(__builtin_bit_cast(u32, x), by)); } \
	DEV inline i32 name(i32 x, u32 by) { return (i32)name((u32)x, by); }                                  \
	DEV inline u64 name(u64 x, u32 by) { return (u64)name((u32)(x >> 32), by) << 32 | name((u32)x, by); } \
	DEV inline i64 name(i64 x, u32 by) { return (i64)name((u64)x, by); }                                  \
	DEV inline f64 name(f64 x, u32 by) { return __builtin_bit_cast(f64, name(__builtin_bit_cast(u64, x), by)); }
MEMOPT_SHUFFLE(shuffle_xor)
MEMOPT_SHUFFLE(shuffle_down)
MEMOPT_SHUFFLE(shuffle_up)
MEMOPT_SHUFFLE(shuffle_at)

// atomic_add adds to global memory and returns what was there. Sums of floats depend on the order of threads:
// kernels whose results must be the same in every run use it on integers only.
DEV inline u32 atomic_add(u32 *p, u32 x) {
	u32 old;
	asm volatile("atom.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(x) : "memory");
	return old;
}
DEV inline i32 atomic_add(i32 *p, i32 x) { return (i32)atomic_add((u32 *)p, (u32)x); }
DEV inline u64 atomic_add(u64 *p, u64 x) {
	u64 old;
	asm volatile("atom.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(x) : "memory");
	return old;
}
DEV inline f32 atomic_add(f32 *p, f32 x) {
	f32 old;
	asm volatile("atom.add.f32 %0, [%1], %2;" : "=f"(old) : "l"(p), "f"(x) : "memory");
	return old;
}
DEV inline u32 atomic_max(u32 *p, u32 x) {
	u32 old;
	asm volatile("atom.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(x) : "memory");
	return old;
}
DEV inline i32 atomic_max(i32 *p, i32 x) {
	i32 old;
	asm volatile("atom.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(x) : "memory");
	return old;
}

DEV inline f32 half_to_float(u16 h) {
	f32 x;
	asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
	return x;
}
DEV inline u16 float_to_half(f32 x) {
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
	return h;
}

DEV inline f32 fused(f32 x, f32 y, f32 z) { return __builtin_fmaf(x, y, z); }
DEV inline f64 fused(f64 x, f64 y, f64 z) { return __builtin_fma(x, y, z); }
DEV inline f32 square_root(f32 x) {
	f32 y;
	asm("sqrt.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
DEV inline f64 square_root(f64 x) {
	f64 y;
	asm("sqrt.rn.f64 %0, %1;" : "=d"(y) : "d"(x));
	return y;
}
// to_nearest rounds to an integer, ties to even; round_down and round_up towards minus and plus infinity; truncate
// towards 0.
DEV inline f32 to_nearest(f32 x) { f32 y; asm("cvt.rni.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV inline f32 round_down(f32 x) { f32 y; asm("cvt.rmi.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV inline f32 round_up(f32 x) { f32 y; asm("cvt.rpi.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV inline f32 truncate(f32 x) { f32 y; asm("cvt.rzi.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV inline f64 to_nearest(f64 x) { f64 y; asm("cvt.rni.f64.f64 %0, %1;" : "=d"(y) : "d"(x)); return y; }
DEV inline f64 round_down(f64 x) { f64 y; asm("cvt.rmi.f64.f64 %0, %1;" : "=d"(y) : "d"(x)); return y; }
DEV inline f64 round_up(f64 x) { f64 y; asm("cvt.rpi.f64.f64 %0, %1;" : "=d"(y) : "d"(x)); return y; }
DEV inline f64 truncate(f64 x) { f64 y; asm("cvt.rzi.f64.f64 %0, %1;" : "=d"(y) : "d"(x)); return y; }
#endif
