// Mixes the rows of a batch. Mixup and CutMix mix each row with the original of the previous row, and the first row
// with the last. Mosaics combine four rows.
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

// One of the four pictures of a mosaic: the index of its row among the mixed rows, the column and row of the canvas
// at which that row begins, and the left, top, right and bottom edges of the part that contains the picture.
struct MosaicTile {
    u64 row;
    i64 x, y;
    Array<u32, 4> content;
};

// The mosaic of a row: the map back to the canvas, and the column and row of the canvas where the pictures meet.
struct MosaicRow {
    Array<double, 6> inverse;
    u32 centre_x, centre_y;
    u32 is_mosaic;  // 0 if the row stays unchanged.
    u32 unused;
};

// Reports constants, which the host compares with its own.
KERNEL(mix_config, MixConfigParams, 32) {
    if (threadIdx.x) return;
    p.out[0] = MIX_THREADS;
    p.out[1] = sizeof(MosaicTile);
    p.out[2] = sizeof(MosaicRow);
}

struct MixParams {
    Ptr<u8> out;
    Ptr<const u64> rows;  // Offset of the first byte of each row.
    u32 count;
    u32 dtype;
    u64 elements;         // Number of elements per row.
    float own, other;     // Weights of the row and of the other row.
    u32 is_rectangle;     // True if a rectangle is copied from the other row.
    u32 channels_first;
    u32 channels;
    u32 element;          // Number of kernel elements per field element: 1, or its size if it is copied as bytes.
    u32 height, width;
    u32 top, left, rows_of, columns;  // First row, first column, number of rows and columns of the rectangle.
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
            const u64 value = n / p.element;
            u64 pixel = p.channels_first ? value % ((u64)p.height * p.width) : value / p.channels;
            u32 y = (u32)(pixel / p.width), x = (u32)(pixel % p.width);
            if (y - p.top >= p.rows_of || x - p.left >= p.columns) continue;
        }
        if (p.dtype == MIX_U8) mix_element<MIX_U8>(p, n);
        else if (p.dtype == MIX_F16) mix_element<MIX_F16>(p, n);
        else if (p.dtype == MIX_BF16) mix_element<MIX_BF16>(p, n);
        else mix_element<MIX_F32>(p, n);
    }
}

struct CopyParams {
    Ptr<u8> to;
    Ptr<const u8> from;  // `to` and `from` are multiples of 8.
    u64 bytes;
};

// Copies the rows. The mosaics are then made from the copy.
KERNEL(mix_copy, CopyParams, MIX_THREADS) {
    const u64 words = p.bytes / 8, step = (u64)gridDim.x * blockDim.x;
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const Ptr<u64> to = cast<u64>(p.to);
    const Ptr<const u64> from = cast<const u64>(p.from);
    for (u64 n = first; n < words; n += step) to[n] = from[n];
    for (u64 n = 8 * words + first; n < p.bytes; n += step) p.to[n] = p.from[n];
}

struct MosaicParams {
    Ptr<u8> out;
    Ptr<const u8> before;  // Copy of the output from `start` on.
    Ptr<const u64> rows;   // First byte of each row in the output.
    Ptr<const MosaicRow> mosaics;
    Ptr<const MosaicTile> tiles;  // Four for each row.
    u64 start;
    Array<u64, 3> fill;    // Bits of elements that no picture covers. Further channels use the last value.
    u32 count;
    u32 dtype;             // Element type, for bilinear means.
    u32 element;           // Size of an element in bytes.
    u32 is_bilinear;
    u32 channels_first;
    u32 channels;
    u32 height, width;
};

// Finds the two pixels around a position along an axis, clamped to the picture, and the weight of the second.
FN void mosaic_axis(double at, u32 low, u32 high, Array<u32, 2>& pixel, float& weight) {
    const double first = floor(at - 0.5);
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const double near = first + (double)i, least = (double)low;
        pixel[i] = min((u32)(near > least ? near : least), high - 1);
    }
    weight = (float)(at - 0.5 - first);
}

FN void mosaic_copy_element(Ptr<u8> to, Ptr<const u8> from, u32 element) {
    for (u32 n = 0; n < element; n++) to[n] = from[n];
}

FN void mosaic_fill(Ptr<u8> to, u64 bits, u32 element) {
    for (u32 n = 0; n < element; n++) to[n] = (u8)(bits >> 8 * n);
}

// Computes one pixel of a mosaic per thread. The host computes the same results (crates/loader, stage/row_mosaic.rs),
// so products and sums are rounded separately.
KERNEL(mosaic, MosaicParams, MIX_THREADS) {
    const u64 plane = (u64)p.height * p.width;
    const double wide = (double)p.width, high = (double)p.height;
    const u64 to_pixel = p.channels_first ? 1 : p.channels, to_channel = p.channels_first ? plane : 1;
    for (u64 row = blockIdx.y; row < p.count; row += gridDim.y) {
        const MosaicRow m = p.mosaics[row];
        if (!m.is_mosaic) continue;
        for (u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x; n < plane; n += (u64)gridDim.x * blockDim.x) {
            const u32 line = (u32)(n / p.width), column = (u32)(n % p.width);
            // A pixel's centre is half a pixel from its edge.
            const double from_y = (double)line + 0.5 - high * 0.5, from_x = (double)column + 0.5 - wide * 0.5;
            double x = m.inverse[0] * from_x + (m.inverse[1] * from_y + m.inverse[2] + wide);
            double y = m.inverse[3] * from_x + (m.inverse[4] * from_y + m.inverse[5] + high);
            const u32 number = (x >= (double)m.centre_x ? 1u : 0u) + (y >= (double)m.centre_y ? 2u : 0u);
            const MosaicTile tile = p.tiles[4 * row + number];
            x = x - (double)tile.x;
            y = y - (double)tile.y;
            const bool is_within = x >= (double)tile.content[0] && x < (double)tile.content[2] &&
                                   y >= (double)tile.content[1] && y < (double)tile.content[3];
            const Ptr<u8> out = p.out + p.rows[row];
            if (!is_within) {
                for (u32 c = 0; c < p.channels; c++) {
                    mosaic_fill(out + (n * to_pixel + c * to_channel) * p.element, p.fill[min(c, 2u)], p.element);
                }
                continue;
            }
            const Ptr<const u8> from = p.before + (p.rows[tile.row] - p.start);
            if (!p.is_bilinear) {
                const u64 pixel = (u64)(u32)y * p.width + (u32)x;
                for (u32 c = 0; c < p.channels; c++) {
                    mosaic_copy_element(out + (n * to_pixel + c * to_channel) * p.element,
                                        from + (pixel * to_pixel + c * to_channel) * p.element, p.element);
                }
                continue;
            }
            Array<u32, 2> columns, lines;
            float right, lower;
            mosaic_axis(x, tile.content[0], tile.content[2], columns, right);
            mosaic_axis(y, tile.content[1], tile.content[3], lines, lower);
            for (u32 c = 0; c < p.channels; c++) {
                float along[2];
#pragma unroll
                for (u32 i = 0; i < 2; i++) {
                    const u64 first = (u64)lines[i] * p.width;
                    const float a = value_of(from, (first + columns[0]) * to_pixel + c * to_channel, p.dtype);
                    const float b = value_of(from, (first + columns[1]) * to_pixel + c * to_channel, p.dtype);
                    along[i] = a * (1.0f - right) + b * right;
                }
                float mean = along[0] * (1.0f - lower) + along[1] * lower;
                if (p.dtype == MIX_U8) mean += 0.5f;
                put_value(out, n * to_pixel + c * to_channel, p.dtype, mean);
            }
        }
    }
}
