// Common to all kernels: short type names, checked arrays, half floats. Kernels are written in a subset of CUDA C
// that is also C++. If PLAY is defined, the same files are compiled for the CPU, where play.h emulates blocks,
// threads, barriers and warps, and checks every access.
//
//   KERNEL(name, Params, threads) { ... p.field ... }   a kernel; p is its only parameter, a plain struct
//   KERNEL_BESIDE(name, Params, threads, blocks)        the same, with few enough registers for `blocks` concurrent blocks
//   SHARED(Type, name);                                 its shared memory, one struct; poisoned on the CPU
//   Ptr<T>                                              a pointer into device memory; checked on the CPU
//   Array<T, N>                                         an array; its index is checked on the CPU
//   cast<U>(p)                                          the same address as a Ptr<U>
#pragma once

#ifdef PLAY
#include "play.h"
#else

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#define FN static __device__ __forceinline__
#define CONSTANT static __constant__ const
#define KERNEL(name, Params, threads) \
    extern "C" __global__ void __launch_bounds__(threads) name(const Params p)
#define KERNEL_BESIDE(name, Params, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Params p)
#define SHARED(Type, name) __shared__ Type name

template <class T> using Ptr = T*;

template <class U, class T> FN U* cast(T* p) { return (U*)p; }

template <class T, u32 N> struct Array {
    T v[N];
    __device__ __forceinline__ T& operator[](u32 i) { return v[i]; }
    __device__ __forceinline__ const T& operator[](u32 i) const { return v[i]; }
};

// Converts a float to the nearest half, ties to even.
FN u16 f16_bits(float x) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

FN float f16_value(u16 h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

// Returns `c` plus the products of the two halves of `a` and the two lower (or upper) bytes of `b`.
FN u32 dot_lower(u32 a, u32 b, u32 c) {
    asm("dp2a.lo.u32.u32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
    return c;
}

FN u32 dot_upper(u32 a, u32 b, u32 c) {
    asm("dp2a.hi.u32.u32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
    return c;
}

// Clamps two numbers to 0 to 255 and puts them into the lower half of a word. Its upper half is the lower half of
// `rest`.
FN u32 clamped_below(i32 first, i32 second, u32 rest) {
    u32 all;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(second), "r"(first), "r"(rest));
    return all;
}

// Makes the compiler read memory again. It may otherwise keep written values in registers.
FN void compiler_barrier() { asm volatile("" ::: "memory"); }

FN u32 float_bits(float x) { return __float_as_uint(x); }
FN float bits_float(u32 x) { return __uint_as_float(x); }
FN u64 double_bits(double x) { return (u64)__double_as_longlong(x); }
FN double bits_double(u64 x) { return __longlong_as_double((i64)x); }

#endif

// Clamps four numbers to 0 to 255 and packs them into a word. The first is the lowest byte.
FN u32 clamped(i32 a, i32 b, i32 c, i32 d) { return clamped_below(a, b, clamped_below(c, d, 0)); }

// Converts a float to the nearest bfloat16, ties to even. The hardware instruction requires compute_80.
FN u16 bf16_bits(float x) {
    u32 bits = float_bits(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

FN float bf16_value(u16 b) { return bits_float((u32)b << 16); }
