// Mixup and CutMix: rows of a batch, each with the one before it as it was, the first with the last.
#include "device.cuh"

#define MIX_THREADS 256

// Types of elements (src/mix.rs).
#define MIX_U8 0u
#define MIX_F16 1u
#define MIX_BF16 2u
#define MIX_F32 3u

struct MixConfigParams {
    Ptr<u32> out;
};

// What the host and the kernel must agree on.
KERNEL(mix_config, MixConfigParams, 32) {
    if (threadIdx.x) return;
    p.out[0] = MIX_THREADS;
}

struct MixParams {
    Ptr<u8> out;
    Ptr<const u64> rows;  // The first byte of each.
    u32 count;
    u32 dtype;
    u64 elements;         // Of a row.
    float own, other;     // Weights of a sum.
    u32 is_rectangle;     // Whether elements of a rectangle come from the other row instead.
    u32 channels_first;
    u32 height, width;
    u32 top, left, rows_of, columns;  // Of the rectangle.
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

// An element of all rows in each thread, from the last row to the first: so each finds the one before it as it was.
KERNEL(mix, MixParams, MIX_THREADS) {
    for (u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x; n < p.elements; n += (u64)gridDim.x * blockDim.x) {
        if (p.is_rectangle) {
            u64 pixel = p.channels_first ? n % ((u64)p.height * p.width) : n / 3;
            u32 y = (u32)(pixel / p.width), x = (u32)(pixel % p.width);
            if (y - p.top >= p.rows_of || x - p.left >= p.columns) continue;
        }
        float last = value_of(p.out + p.rows[p.count - 1], n, p.dtype), own = last;
        for (u32 row = p.count; row > 0; row--) {
            float other = row > 1 ? value_of(p.out + p.rows[row - 2], n, p.dtype) : last;
            float mixed = other;
            // Levels are cut off, so that half a level more rounds them.
            if (!p.is_rectangle) mixed = own * p.own + other * p.other + (p.dtype == MIX_U8 ? 0.5f : 0.0f);
            put_value(p.out + p.rows[row - 1], n, p.dtype, mixed);
            own = other;
        }
    }
}
