// Scales the range of a cube's values to 0 to 1, raises the values to a power, and scales them back. The host
// (crates/augment, gamma.rs) computes the same sums, products and quotients of float64 in the same order. None of them
// are fused.
#pragma once
#include "cube.cuh"

// Number of threads per block, and of values per thread.
#define GAMMA_THREADS 256u
#define GAMMA_EACH 8u

// Returns a key above 0. Keys have the same order as the floats.
FN u32 gamma_key(float x) {
    const u32 bits = float_bits(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

FN float gamma_of_key(u32 key) { return bits_float(key >> 31 ? key & 0x7FFFFFFFu : ~key); }

// Returns the base-2 logarithm of a normal number above 0.
FN double gamma_log2(double x) {
    const u64 bits = double_bits(x);
    i64 exponent = (i64)(bits >> 52) - 1023;
    double mantissa = bits_double((bits & 0x000FFFFFFFFFFFFFull) | (u64)1023 << 52);
    if (mantissa > 1.41421356237309504880) {
        mantissa *= 0.5;
        exponent += 1;
    }
    const double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s;
    double sum = 0.0;
#pragma unroll 1
    for (u32 n = 10; n > 0; n--) sum = sum * square + 1.0 / (double)(2 * n - 1);
    return (double)exponent + 2.0 * s * sum * 1.44269504088896340736;
}

// Returns 2 to the power of `x`, which is at most 0.
FN double gamma_exp2(double x) {
    if (x < -1000.0) return 0.0;
    const double whole = floor(x + 0.5), rest = (x - whole) * 0.693147180559945309417;
    // The coefficients are 1 / n! for n from 14 to 0.
    double sum = 1.0 / 87178291200.0;
    sum = sum * rest + 1.0 / 6227020800.0;
    sum = sum * rest + 1.0 / 479001600.0;
    sum = sum * rest + 1.0 / 39916800.0;
    sum = sum * rest + 1.0 / 3628800.0;
    sum = sum * rest + 1.0 / 362880.0;
    sum = sum * rest + 1.0 / 40320.0;
    sum = sum * rest + 1.0 / 5040.0;
    sum = sum * rest + 1.0 / 720.0;
    sum = sum * rest + 1.0 / 120.0;
    sum = sum * rest + 1.0 / 24.0;
    sum = sum * rest + 1.0 / 6.0;
    sum = sum * rest + 0.5;
    sum = sum * rest + 1.0;
    sum = sum * rest + 1.0;
    return sum * bits_double((u64)(1023.0 + whole) << 52);
}

FN float gamma_value(float value, float least, float greatest, double exponent) {
    const double low = (double)least, range = (double)greatest - low;
    if (!(range > 0.0)) return value;
    const double share = ((double)value - low) / range;
    const double power = share > 0.0 ? gamma_exp2(exponent * gamma_log2(share)) : 0.0;
    return (float)(low + range * power);
}

// Returns value `n` of a row, as bits of a float32.
FN u32 gamma_load(const Cube& c, Ptr<const u8> out, u32 n) {
    switch (c.output) {
        case F16: return f32_of_f16(cast<const u16>(out)[n]);
        case BF16: return (u32)cast<const u16>(out)[n] << 16;
        default: return cast<const u32>(out)[n];
    }
}

// Returns true for values that the gamma changes and that define the range: all finite values except the replacement
// of no-data.
FN bool gamma_counts(const Cube& c, u32 x) {
    if ((x & 0x7F800000u) == 0x7F800000u) return false;
    return !c.keeps || bits_float(x) != bits_float(c.noise_keep);
}
