// Mixup and CutMix: mixes each row of a batch with the original of the previous row, and the first row with the last.
#include "device.cuh"

#define MIX_THREADS 256

// Element types (src/mix.rs).
#define MIX_U8 0u
#define MIX_F16 1u
#define MIX_BF16 2u
#define MIX_F32 3u

struct MixConfigParams {
    Ptr<u32> out;
};

// Reports a constant, which the host compares with its own.
KERNEL(mix_config, MixConfigParams, 32) {
    if (threadIdx.x) return;
    p.out[0] = MIX_THREADS;
}

struct MixParams {
    Ptr<u8> out;
    Ptr<const u64> rows;  // Offset of the first byte of each row.
    u32 count;
    u32 dtype;
    u64 elements;         // Number of elements per row.
    float own, other;     // Weights of the row itself and of the other row in a sum.
    u32 is_rectangle;     // True if a rectangle is copied from the other row.
    u32 channels_first;
    u32 height, width;
    u32 top, left, rows_of, columns;  // Rectangle.
};

FN float value_of(Ptr<const u8> row, u64 n, u32 dtype) {
    if (dtype == MIX_U8) return (float)row[n];
    if (dtype == MIX_F16) return f16_value(cast<const u16>(row)[n]);
    if (dtype == MIX_BF16) return bf16_value(cast<const u16>(row)[n]);
    return cast<const float>(row)[n];
}

FN void put_value(Ptr<u8> row, u64 n, u32 dtype, float x) {
    if (dtype == MIX_U8) row[n] = (u8)(u32)x;
    else if (dtype == MIX_F16) cast<u16>(row)[n] = f16_bits(x);
    else if (dtype == MIX_BF16) cast<u16>(row)[n] = bf16_bits(x);
    else cast<float>(row)[n] = x;
}

// Number of rows that a thread loads ahead.
#define MIX_AHEAD 8u

// Mixes one element of all rows per thread, from the last row to the first, so that the previous row is still unmixed.
template <u32 DTYPE> FN void mix_element(const MixParams& p, u64 n) {
    float last = value_of(p.out + p.rows[p.count - 1], n, DTYPE), own = last;
    for (u32 row = p.count; row > 0; row -= min(row, MIX_AHEAD)) {
        float others[MIX_AHEAD];
#pragma unroll
        for (u32 k = 0; k < MIX_AHEAD; k++) others[k] = k + 1 < row ? value_of(p.out + p.rows[row - 2 - k], n, DTYPE) : last;
#pragma unroll
        for (u32 k = 0; k < MIX_AHEAD; k++) {
            if (k >= row) break;
            float x = own * p.own + others[k] * p.other;
            // Levels are truncated, so adding a half rounds them. Nothing is added to floats, because -0 + 0 would be
            // 0.
            if (DTYPE == MIX_U8) x += 0.5f;
            put_value(p.out + p.rows[row - 1 - k], n, DTYPE, p.is_rectangle ? others[k] : x);
            own = others[k];
        }
    }
}

KERNEL(mix, MixParams, MIX_THREADS) {
    for (u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x; n < p.elements; n += (u64)gridDim.x * blockDim.x) {
        if (p.is_rectangle) {
            u64 pixel = p.channels_first ? n % ((u64)p.height * p.width) : n / 3;
            u32 y = (u32)(pixel / p.width), x = (u32)(pixel % p.width);
            if (y - p.top >= p.rows_of || x - p.left >= p.columns) continue;
        }
        if (p.dtype == MIX_U8) mix_element<MIX_U8>(p, n);
        else if (p.dtype == MIX_F16) mix_element<MIX_F16>(p, n);
        else if (p.dtype == MIX_BF16) mix_element<MIX_BF16>(p, n);
        else mix_element<MIX_F32>(p, n);
    }
}
