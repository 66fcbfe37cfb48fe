// Emulates a GPU on the CPU, for tests: the parts of CUDA that the kernels need. device.cuh includes this file if
// PLAY is defined.
//
// A launch runs one block at a time. The threads of a block are fibers on one CPU thread. Each fiber runs until it
// ends or waits. Threads and blocks run either in forward or in backward order, and a kernel that lacks a barrier
// produces different results in the two orders. Bounds and alignment of every access through a Ptr or an Array are
// checked. An invalid access ends the launch with a message.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef unsigned long long u64;
typedef long long i64;

namespace play {

struct Dim {
    u32 x, y, z;
};

// Ends the launch with this message.
[[noreturn]] void fail(const char* format, ...);

struct Range {
    uintptr_t start, end;
    bool holds(uintptr_t at, size_t size) const { return at >= start && at < end && size <= end - at; }
};

extern __thread Range last;

// Ends the launch with an error unless one of its buffers contains `size` bytes at `address`, with this alignment.
void check_all(const void* address, size_t size, size_t alignment);
inline void check(const void* address, size_t size, size_t alignment) {
    if (!last.holds((uintptr_t)address, size) || (uintptr_t)address % alignment) check_all(address, size, alignment);
}

void* shared(size_t size);

void sync_block();

// Waits until all lanes of `mask` have called this function. Returns the values of all lanes. They stay valid until
// the next wait.
const u64* exchange(u32 mask, u64 value);

typedef void (*Body)(const void* params);

struct Registration {
    Registration(const char* name, Body body, size_t params, u32 threads);
};

template <class T> struct Ptr {
    T* raw;

    Ptr() = default;
    Ptr(T* raw) : raw(raw) {}
    operator Ptr<const T>() const { return Ptr<const T>(raw); }
    template <class I> Ptr operator+(I n) const { return Ptr((T*)((uintptr_t)raw + (intptr_t)n * (intptr_t)sizeof(T))); }
    template <class I> Ptr operator-(I n) const { return Ptr((T*)((uintptr_t)raw - (intptr_t)n * (intptr_t)sizeof(T))); }
    template <class I> T& operator[](I n) const { return *(*this + n); }
    T& operator*() const {
        check(raw, sizeof(T), alignof(T));
        return *raw;
    }
    T* operator->() const { return &**this; }
};

}  // namespace play

extern __thread play::Dim threadIdx, blockIdx, blockDim, gridDim;

#define FN static inline
#define CONSTANT static const
#define KERNEL(name, Params, threads)                                                                     \
    static void name(const Params& p);                                                                    \
    static void play_##name(const void* p) { name(*(const Params*)p); }                                   \
    static play::Registration register_##name(#name, play_##name, sizeof(Params), threads);               \
    static void name(const Params& p)
#define KERNEL_BESIDE(name, Params, threads, blocks) KERNEL(name, Params, threads)
#define SHARED(Type, name)                                                              \
    static_assert(sizeof(Type) <= 48 << 10, "more shared memory than every device has"); \
    Type& name = *(Type*)play::shared(sizeof(Type))
#define __syncthreads() play::sync_block()

using play::Ptr;

template <class U, class T> FN Ptr<U> cast(Ptr<T> p) { return Ptr<U>((U*)p.raw); }

template <class T, u32 N> struct Array {
    T v[N];
    T& operator[](u32 i) {
        if (i >= N) play::fail("an index outside of its array: %u of %u", i, N);
        return v[i];
    }
    const T& operator[](u32 i) const {
        if (i >= N) play::fail("an index outside of its array: %u of %u", i, N);
        return v[i];
    }
};

template <class T> FN u64 play_bits(T value) {
    u64 bits = 0;
    static_assert(sizeof(T) <= 8, "at most 8 bytes");
    memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T> FN T play_value(u64 bits) {
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}

FN u32 play_lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32; }

FN void __syncwarp(u32 mask = 0xFFFFFFFFu) { play::exchange(mask, 0); }

template <class T> FN T __shfl_sync(u32 mask, T value, u32 from) {
    if (!(mask >> (from & 31) & 1)) play::fail("a shuffle from lane %u, which is not in mask %08x", from & 31, mask);
    return play_value<T>(play::exchange(mask, play_bits(value))[from & 31]);
}

template <class T> FN T __shfl_up_sync(u32 mask, T value, u32 delta) {
    u32 lane = play_lane();
    const u64* all = play::exchange(mask, play_bits(value));
    return lane < delta ? value : play_value<T>(all[lane - delta]);
}

template <class T> FN T __shfl_down_sync(u32 mask, T value, u32 delta) {
    u32 lane = play_lane();
    const u64* all = play::exchange(mask, play_bits(value));
    return lane + delta > 31 ? value : play_value<T>(all[lane + delta]);
}

template <class T> FN T __shfl_xor_sync(u32 mask, T value, u32 bits) {
    u32 lane = play_lane();
    return play_value<T>(play::exchange(mask, play_bits(value))[(lane ^ bits) & 31]);
}

FN u32 __ballot_sync(u32 mask, i32 predicate) {
    const u64* all = play::exchange(mask, predicate != 0);
    u32 bits = 0;
    for (u32 lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) bits |= (u32)all[lane] << lane;
    return bits;
}

FN i32 __any_sync(u32 mask, i32 predicate) { return __ballot_sync(mask, predicate) != 0; }
FN i32 __all_sync(u32 mask, i32 predicate) { return __ballot_sync(mask, predicate) == mask; }

FN u32 __funnelshift_l(u32 low, u32 high, u32 n) { return (u32)((((u64)high << 32 | low) << (n & 31)) >> 32); }
FN u32 __funnelshift_r(u32 low, u32 high, u32 n) { return (u32)(((u64)high << 32 | low) >> (n & 31)); }
FN i32 __clz(i32 x) { return x == 0 ? 32 : __builtin_clz((u32)x); }
FN i32 __ffs(i32 x) { return __builtin_ffs(x); }
FN i32 __popc(u32 x) { return __builtin_popcount(x); }
FN u32 __byte_perm(u32 a, u32 b, u32 selector) {
    u64 both = (u64)b << 32 | a;
    u32 out = 0;
    for (u32 i = 0; i < 4; i++) out |= (u32)(both >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
    return out;
}
FN u32 dot_lower(u32 a, u32 b, u32 c) { return c + (a & 0xFFFF) * (b & 0xFF) + (a >> 16) * (b >> 8 & 0xFF); }
FN u32 dot_upper(u32 a, u32 b, u32 c) { return dot_lower(a, b >> 16, c); }
FN u32 clamped_below(i32 first, i32 second, u32 rest) {
    u32 one = (u32)(first < 0 ? 0 : first > 255 ? 255 : first), other = (u32)(second < 0 ? 0 : second > 255 ? 255 : second);
    return rest << 16 | other << 8 | one;
}
FN u32 __brev(u32 x) {
    u32 out = 0;
    for (u32 i = 0; i < 32; i++) out |= (x >> i & 1) << (31 - i);
    return out;
}

template <class T> FN T min(T a, T b) { return b < a ? b : a; }
template <class T> FN T max(T a, T b) { return a < b ? b : a; }

// Fibers switch only at waits, so plain code is already atomic.
template <class T> FN T atomicAdd(Ptr<T> p, T value) {
    T before = *p;
    *p = (T)(before + value);
    return before;
}
template <class T> FN T atomicOr(Ptr<T> p, T value) {
    T before = *p;
    *p = (T)(before | value);
    return before;
}
template <class T> FN T atomicMax(Ptr<T> p, T value) {
    T before = *p;
    *p = max(before, value);
    return before;
}
template <class T> FN T atomicAdd(T* p, T value) {
    T before = *p;
    *p = (T)(before + value);
    return before;
}
template <class T> FN T atomicOr(T* p, T value) {
    T before = *p;
    *p = (T)(before | value);
    return before;
}
template <class T> FN T atomicMax(T* p, T value) {
    T before = *p;
    *p = max(before, value);
    return before;
}

FN float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
FN double __dmul_rn(double a, double b) { return a * b; }
FN double __dadd_rn(double a, double b) { return a + b; }
FN double __dsub_rn(double a, double b) { return a - b; }
FN double __ddiv_rn(double a, double b) { return a / b; }

struct uint2 {
    u32 x, y;
} __attribute__((aligned(8)));
struct uint4 {
    u32 x, y, z, w;
} __attribute__((aligned(16)));
FN uint2 make_uint2(u32 x, u32 y) { return uint2{x, y}; }
FN uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return uint4{x, y, z, w}; }

FN void compiler_barrier() {}

FN u32 float_bits(float x) { return play_value<u32>(play_bits(x)); }
FN float bits_float(u32 x) { return play_value<float>(x); }
FN u64 double_bits(double x) { return play_bits(x); }
FN double bits_double(u64 x) { return play_value<double>(x); }

FN u16 f16_bits(float x) {
    u32 bits = float_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 0x7FFF;  // The GPU converts every NaN to 0x7FFF.
    if (magnitude >= 0x477FF000) return (u16)(sign | 0x7C00);
    if (magnitude < 0x38800000) {
        // Subnormal half-precision floats are multiples of 2^-24. nearbyint rounds ties to even.
        float value = bits_float(magnitude);
        return (u16)(sign | (u32)std::nearbyint(value * 16777216.0f));
    }
    u32 rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return (u16)(sign | (rounded - 0x38000000) >> 13);
}

FN float f16_value(u16 h) {
    u32 sign = (u32)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3FF;
    if (exponent == 31) return bits_float(sign | 0x7F800000 | fraction << 13);
    if (exponent == 0) return bits_float(sign | float_bits((float)fraction / 16777216.0f));
    return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
}
