// Applies affine maps to the pixels of a cube: finds the source pixels of each output pixel, and computes their
// weighted mean. The host computes the same results (crates/array, warp.rs and finish/warped.rs), so products and
// sums are rounded separately.
#pragma once
#include "cube.cuh"

// A position within this distance of a pixel's centre, in pixels, counts as the centre.
#define AFFINE_NEAR (1.0 / 1048576.0)

// Source pixels of an output pixel, in reading order, as indices in the region. A pixel of weight 0 does not count.
// Bit i of `inside` is set if pixel i is in the region.
struct Taps {
    Array<u32, 4> pixel;
    Array<float, 4> weight;
    u32 inside;
};

// Size of the region, or of each plane of a box, in pixels. In a two-axis array and in a volume without channels, the
// columns count as bands.
FN u32 affine_columns(const Cube& c) { return c.flat ? c.picks_count : c.region_columns; }
FN u32 affine_rows(const Cube& c) {
    if (!c.boxed) return c.region_rows;
    return c.flat ? c.region_columns : c.plane_rows;
}

// Finds the two pixels around a position on an axis. Sets `first` to the first one, and returns the weight of the
// second.
FN float axis_of(double at, double& first) {
    first = floor(at + AFFINE_NEAR);
    const double beyond = at - first;
    return beyond < AFFINE_NEAR ? 0.0f : (float)beyond;
}

// Returns the source pixels of pixel `n` of the region.
CALLED Taps taps_of(const Cube& c, u32 n) {
    const u32 columns = affine_columns(c), row = n / columns;
    const double wide = (double)columns, high = (double)affine_rows(c);
    // A pixel's centre is half a pixel from its edge.
    const double y = (double)row + 0.5 - high * 0.5, x = (double)(n - row * columns) + 0.5 - wide * 0.5;
    const double at_x = c.map[0] * x + (c.map[1] * y + c.map[2] + wide * 0.5);
    const double at_y = c.map[3] * x + (c.map[4] * y + c.map[5] + high * 0.5);
    Taps taps;
    taps.inside = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) taps.pixel[i] = 0, taps.weight[i] = 0.0f;
    if (c.affine == AFFINE_NEAREST) {
        taps.weight[0] = 1.0f;
        // After a quarter turn, positions may be exactly on the edge between two pixels. The rounding of the sine would
        // then choose one of the two at random, so positions are moved by a small distance first.
        const double near_x = at_x + AFFINE_NEAR, near_y = at_y + AFFINE_NEAR;
        if (near_x >= 0.0 && near_x < wide && near_y >= 0.0 && near_y < high) {
            taps.inside = 1;
            taps.pixel[0] = (u32)near_y * columns + (u32)near_x;
        }
        return taps;
    }
    const double left = at_x - 0.5, top = at_y - 0.5;
    // The condition is also false for NaN.
    if (left > -1.0 && left < wide && top > -1.0 && top < high) {
        Array<double, 2> first;
        Array<float, 4> weights;
        weights[1] = axis_of(left, first[0]);
        weights[3] = axis_of(top, first[1]);
        weights[0] = 1.0f - weights[1];
        weights[2] = 1.0f - weights[3];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const double column = first[0] + (double)(i % 2), line = first[1] + (double)(i / 2);
            taps.weight[i] = rounded_product(weights[i % 2], weights[2 + i / 2]);
            if (taps.weight[i] == 0.0f || column < 0.0 || column >= wide || line < 0.0 || line >= high) continue;
            taps.inside |= 1u << i;
            taps.pixel[i] = (u32)line * columns + (u32)column;
        }
    }
    if (taps.inside == 0) {
        // If all four pixels are outside, use one weight, because the rounded sum of the four may not be 1.
        taps.weight[0] = 1.0f;
        taps.weight[1] = taps.weight[2] = taps.weight[3] = 0.0f;
    }
    return taps;
}

FN Taps taps_from(const Taps& mine, u32 lane) {
    Taps taps;
    taps.inside = __shfl_sync(0xFFFFFFFFu, mine.inside, lane);
#pragma unroll
    for (u32 i = 0; i < 4; i++) taps.pixel[i] = 0, taps.weight[i] = __shfl_sync(0xFFFFFFFFu, mine.weight[i], lane);
    return taps;
}

// True if stored elements can be invalid. All elements of the region are then checked, as on the host.
FN bool affine_checks(const Cube& c) { return c.transform == FROM_FIXED || c.stored == BOOL; }

FN void affine_check(const Cube& c, Ptr<u32> status, u64 q) {
    if (!cube_fits(c, q)) cube_fault(status, c.row, FAULT_FIXED, 0);
    if (c.stored == BOOL && q > 1) cube_fault(status, c.row, FAULT_BOOL, 0);
}

// Converts stored element `q` to a float32 for a mean, and returns its bits. Bit 32 is set if the element is no-data.
CALLED u64 affine_single(const Cube& c, Ptr<const u8> slot, Ptr<u32> status, u64 q, CubePick pick) {
    const u64 value = cube_decoded(c, slot, status, q, pick.band);
    if (c.fill != FILL_NOTHING && is_no_data(c, value)) return (u64)1 << 32;
    return cube_single(c, slot, value, pick.place);
}

// Returns a pixel's value, computed from its source pixels, as bits of the output type.
FN u64 affine_value(const Cube& c, Ptr<const u8> slot, Ptr<u32> status, const Array<u64, 4>& q, const Taps& taps, CubePick pick) {
    if (c.affine == AFFINE_NEAREST && !taps.inside) return c.outside;
    float sum = 0.0f;
    bool is_first = true, no_data = false;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        if (taps.weight[i] == 0.0f) continue;
        if (c.flat) pick.band = c.first_band + taps.pixel[i] % c.picks_count;
        if (c.affine == AFFINE_NEAREST) return cube_value(c, slot, status, q[i], pick);
        u64 x = (u32)c.outside;
        if (taps.inside >> i & 1) x = affine_single(c, slot, status, q[i], pick);
        no_data = no_data || x >> 32;
        const float term = rounded_product(taps.weight[i], bits_float((u32)x));
        sum = is_first ? term : rounded_sum(sum, term);
        is_first = false;
    }
    // Processors produce different NaNs from products and sums, so replace every NaN by the same one.
    u32 mean = float_bits(sum);
    if (is_nan32(mean)) mean = 0x7FC00000u;
    return float_output(no_data ? c.fill_with : mean, c.output);
}

// How cube_means converts a stored element of two bytes: as a float16, as an integer, or by the general conversion.
enum Direct { DIRECT_NOTHING, DIRECT_F16, DIRECT_U16, DIRECT_I16 };

FN u32 direct_of(const Cube& c) {
    if (c.has_codes != 0 || c.fill != FILL_NOTHING) return DIRECT_NOTHING;
    if (c.stored == F16) return c.decoded == F16 || c.decoded == F32 ? DIRECT_F16 : DIRECT_NOTHING;
    // An integer that decodes to float16 must be rounded, which only the general conversion does.
    if (c.transform != AS_STORED && c.decoded != F32) return DIRECT_NOTHING;
    return c.stored == U16 ? DIRECT_U16 : c.stored == I16 ? DIRECT_I16 : DIRECT_NOTHING;
}

FN float direct_value(u32 direct, u32 q) {
    if (direct == DIRECT_F16) return f16_value((u16)q);
    return direct == DIRECT_U16 ? (float)(u16)q : (float)(i16)(u16)q;
}

// Copies of the Cube fields that means need, kept in registers.
struct Means {
    u32 direct, bands, pixels, first_band, factor_bands;
    bool difference;
    float outside;
};

// Returns the mean of the stored elements of four pixels in a band, as float32 bits. `factors` contains the band's
// scale and bias, if it has any. `affine_value` computes the same mean before it converts it to the output type.
template <bool HALF>
FN u32 mean_of(const Cube& c, Ptr<const u8> slot, Ptr<u32> status, const Means& m, const Array<u32, 4>& q,
               const Array<float, 4>& weight, u32 inside, u32 band, uint2 factors) {
    // Adding to -0 returns the other summand, even if that is a zero of either sign.
    float sum = -0.0f;
    bool no_data = false;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const bool is_inside = inside >> i & 1;
        float x = m.outside;
        if (HALF || m.direct != DIRECT_NOTHING) {
            float value = HALF ? f16_value((u16)q[i]) : direct_value(m.direct, q[i]);
            const float scale = bits_float(factors.x), bias = bits_float(factors.y);
            if (m.factor_bands != 0) value = scale == 0.0f ? bias : __fmaf_rn(value, scale, bias);
            x = is_inside ? value : x;
        } else if (is_inside && weight[i] != 0.0f) {
            const u64 single = affine_single(c, slot, status, q[i], {band, band - m.first_band});
            no_data = no_data || single >> 32;
            x = bits_float((u32)single);
        }
        const float with = rounded_sum(sum, rounded_product(weight[i], x));
        sum = weight[i] == 0.0f ? sum : with;
    }
    const u32 mean = float_bits(sum);
    if (no_data) return c.fill_with;
    return is_nan32(mean) ? 0x7FC00000u : mean;
}
