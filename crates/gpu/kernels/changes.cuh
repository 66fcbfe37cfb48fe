// Augments pictures. The results are bit-identical to shardpack-augment's. Each block applies the changes of one row
// of the batch in order, and writes the output. Sums and products are rounded separately, as on the host.
#pragma once
#include "pictures.cuh"

#define CHANGE_THREADS 512

// Kinds of changes, as in src/pictures/changes.rs. The kinds that use a table of 256 levels come first.
#define BRIGHTNESS 0u
#define CONTRAST 1u
#define POSTERIZE 2u
#define SOLARIZE 3u
#define INVERT 4u
#define AUTOCONTRAST 5u
#define EQUALIZE 6u
#define SATURATION 7u
#define GRAYSCALE 8u
#define HUE 9u
#define ERASE 10u
#define SHARPNESS 11u
#define AFFINE 12u
#define BLUR 13u

struct Change {
    u32 kind;
    u32 number;               // POSTERIZE: mask of kept bits. ERASE: red, green, blue. BLUR: number of weights, odd.
    Array<u32, 4> place;      // ERASE: first row and column, rows and columns. BLUR: index of the first weight.
    Array<float, 2> factors;  // Factors of a level and of the level mixed with it. SOLARIZE: threshold. HUE: turn.
    Array<double, 6> map;     // AFFINE: map from output to source.
};

struct Changed {
    u64 pixels;   // Index of the row's first level. A copy follows, then three floats per pixel for a blur.
    u64 out;      // Index of the first element in the output.
    u32 height, width;
    u32 first;    // Index of the row's first change. `count` is the number of its changes.
    u32 count;
};

struct ChangesParams {
    Ptr<const Changed> rows;
    Ptr<const Change> changes;
    Ptr<const float> weights;
    Ptr<u32> levels;  // One pixel per word, red in the lowest byte.
    Ptr<u8> out;
    Output output;
};

// Number of copies of the counters for the levels. Threads use different copies, so fewer of them wait for each other.
#define COUNTS 4u

struct ChangesShared {
    Array<u32, 768> counts[COUNTS];
    Array<u8, 768> tables;
    Array<u32, 3> lowest, highest;
    u64 sum;
};

// Clamps to 0 to 255 and truncates. NaN becomes 0.
FN u32 level_of(float x) { return (u32)(x > 0.0f ? min(x, 255.0f) : 0.0f); }

FN u32 red_of(u32 rgb) { return rgb & 255; }
FN u32 green_of(u32 rgb) { return rgb >> 8 & 255; }
FN u32 blue_of(u32 rgb) { return rgb >> 16 & 255; }
FN u32 rgb_from(u32 red, u32 green, u32 blue) { return red | green << 8 | blue << 16; }

FN float gray_of(u32 rgb) { return floorf((float)red_of(rgb) * 0.2989f + (float)green_of(rgb) * 0.587f + (float)blue_of(rgb) * 0.114f); }

template <class F> FN void look_at_each(Ptr<const u32> levels, u32 pixels, F f) {
#pragma unroll 4
    for (u32 n = threadIdx.x; n < pixels; n += CHANGE_THREADS) f(levels[n]);
}

FN u32 warp_sum(u32 x) {
    for (u32 n = 16; n; n /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, n);
    return x;
}

FN u32 warp_max(u32 x) {
    for (u32 n = 16; n; n /= 2) x = max(x, __shfl_xor_sync(0xFFFFFFFFu, x, n));
    return x;
}

// Builds the equalization table of a channel with `all` pixels on one warp, as Pillow does. Each lane handles eight
// levels.
FN void equalize_table(ChangesShared& s, u32 channel, u32 all) {
    u32 lane = threadIdx.x % 32, first = channel * 256 + lane * 8, counts[8], sum = 0, last = 0;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        counts[k] = 0;
        for (u32 copy = 0; copy < COUNTS; copy++) counts[k] += s.counts[copy][first + k];
        sum += counts[k];
        last = counts[k] ? lane * 8 + k + 1 : last;
    }
    u32 below = sum;
    for (u32 delta = 1; delta < 32; delta *= 2) {
        u32 others = __shfl_up_sync(0xFFFFFFFFu, below, delta);
        if (lane >= delta) below += others;
    }
    below -= sum;
    u32 brightest = warp_max(last), own = 0;
#pragma unroll
    for (u32 k = 0; k < 8; k++) own = lane * 8 + k + 1 == brightest ? counts[k] : own;
    u32 step = (all - warp_max(own)) / 255;
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        s.tables[first + k] = (u8)(step ? min((below + step / 2) / step, 255u) : lane * 8 + k);
        below += counts[k];
    }
}

FN void make_tables(ChangesShared& s, const Change& change, Ptr<const u32> levels, u32 pixels) {
    u32 kind = change.kind, lane = threadIdx.x % 32;
    if (kind == CONTRAST) {
        if (threadIdx.x == 0) s.sum = 0;
        __syncthreads();
        u32 sum = 0;
        u64 all = 0;
        look_at_each(levels, pixels, [&](u32 rgb) {
            sum += (u32)gray_of(rgb);
            // Keep the sum over a warp within 32 bits.
            if (sum >> 24) all += sum, sum = 0;
        });
        sum = warp_sum(sum);
        if (lane == 0) all += sum;
        if (all) atomicAdd(&s.sum, all);
    } else if (kind == AUTOCONTRAST) {
        // `lowest` stores 255 minus the lowest level, so that both values are computed as maxima.
        if (threadIdx.x < 3) s.lowest[threadIdx.x] = s.highest[threadIdx.x] = 0;
        __syncthreads();
        u32 low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
        look_at_each(levels, pixels, [&](u32 rgb) {
#pragma unroll
            for (u32 c = 0; c < 3; c++) {
                u32 x = rgb >> 8 * c & 255;
                low[c] = max(low[c], 255 - x), high[c] = max(high[c], x);
            }
        });
#pragma unroll
        for (u32 c = 0; c < 3; c++) {
            u32 lowest = warp_max(low[c]), highest = warp_max(high[c]);
            if (lane == 0) atomicMax(&s.lowest[c], lowest), atomicMax(&s.highest[c], highest);
        }
    } else if (kind == EQUALIZE) {
        for (u32 n = threadIdx.x; n < 768; n += CHANGE_THREADS)
            for (u32 copy = 0; copy < COUNTS; copy++) s.counts[copy][n] = 0;
        __syncthreads();
        Array<u32, 768>& counts = s.counts[threadIdx.x / 32 % COUNTS];
        look_at_each(levels, pixels, [&](u32 rgb) {
            atomicAdd(&counts[red_of(rgb)], 1u);
            atomicAdd(&counts[256 + green_of(rgb)], 1u);
            atomicAdd(&counts[512 + blue_of(rgb)], 1u);
        });
        __syncthreads();
        if (threadIdx.x < 96) equalize_table(s, threadIdx.x / 32, pixels);
        __syncthreads();
        return;
    }
    __syncthreads();
    float factor = change.factors[0], rest = change.factors[1];
    if (kind == CONTRAST) rest = (float)((double)s.sum / (double)pixels) * rest;
    for (u32 n = threadIdx.x; n < 768; n += CHANGE_THREADS) {
        u32 x = n & 255, to = x;
        if (kind == BRIGHTNESS) to = level_of((float)x * factor);
        else if (kind == CONTRAST) to = level_of((float)x * factor + rest);
        else if (kind == POSTERIZE) to = x & change.number;
        else if (kind == SOLARIZE) to = (float)x >= factor ? 255 - x : x;
        else if (kind == INVERT) to = 255 - x;
        else if (kind == AUTOCONTRAST) {
            u32 low = 255 - s.lowest[n >> 8], high = s.highest[n >> 8];
            float scale = ((float)high - (float)low) * (1.0f / 255.0f);
            if (low < high) to = level_of(((float)x - (float)low) / scale);
        }
        s.tables[n] = (u8)to;
    }
    __syncthreads();
}

FN u32 saturated(u32 rgb, float own, float other) {
    float rest = gray_of(rgb) * other;
    return rgb_from(level_of((float)red_of(rgb) * own + rest), level_of((float)green_of(rgb) * own + rest),
                    level_of((float)blue_of(rgb) * own + rest));
}

FN float bounded(float x, float high) { return min(max(x * high, 0.0f), 1.0f); }

// Converts a number from 0 to 1 to a level, as torchvision does. With a factor of 255, only 1 would become level 255.
FN u32 level_of_share(float x) { return level_of(x * (256.0f - 1e-3f)); }

FN u32 turned(u32 rgb, float by) {
    float r = (float)red_of(rgb) * (1.0f / 255.0f), g = (float)green_of(rgb) * (1.0f / 255.0f), b = (float)blue_of(rgb) * (1.0f / 255.0f);
    float low = min(min(r, g), b), high = max(max(r, g), b), range = high - low;
    float saturation = range == 0.0f ? 0.0f : range / high;
    float rc = range == 0.0f ? 0.0f : (high - r) / range, gc = range == 0.0f ? 0.0f : (high - g) / range;
    float bc = range == 0.0f ? 0.0f : (high - b) / range;
    float sixths = high == r ? bc - gc : high == g ? rc + 2.0f - bc : gc + 4.0f - rc;
    // Remainder modulo 1. The subtraction is exact.
    float hue = sixths * (1.0f / 6.0f) + 1.0f;
    hue = hue - truncf(hue) + by;
    hue = hue - truncf(hue);
    if (hue < 0.0f) hue = hue + 1.0f;
    sixths = hue * 6.0f;
    float sector = floorf(sixths), within = sixths - sector;
    u32 v = level_of_share(high), p = level_of_share(bounded(1.0f - saturation, high));
    u32 q = level_of_share(bounded(1.0f - saturation * within, high));
    u32 t = level_of_share(bounded(saturation * within + (1.0f - saturation), high));
    switch (level_of(sector)) {
    case 1: return rgb_from(q, v, p);
    case 2: return rgb_from(p, v, t);
    case 3: return rgb_from(p, q, v);
    case 4: return rgb_from(t, p, v);
    case 5: return rgb_from(v, p, q);
    default: return rgb_from(v, t, p);  // Rounding can yield sector 6, which is sector 0.
    }
}

FN void erase(const Change& change, Ptr<u32> levels, u32 height, u32 width) {
    u32 top = min(change.place[0], height), left = min(change.place[1], width);
    u32 rows = min(change.place[2], height - top), columns = min(change.place[3], width - left);
    for (u32 n = threadIdx.x; n < rows * columns; n += CHANGE_THREADS) {
        u32 y = n / columns;
        levels[(top + y) * width + left + n - y * columns] = change.number;
    }
}

// Moves a pixel towards or away from its value in the picture blurred by a 3 × 3 kernel. Border pixels do not change.
FN u32 sharpened(Ptr<const u32> from, u32 n, u32 height, u32 width, float towards) {
    u32 y = n / width, x = n - y * width, own = from[n];
    if (y == 0 || x == 0 || y + 1 == height || x + 1 == width) return own;
    u32 red = 4 * red_of(own), green = 4 * green_of(own), blue = 4 * blue_of(own);
#pragma unroll
    for (u32 k = 0; k < 9; k++) {
        u32 rgb = from[n + k / 3 * width + k % 3 - width - 1];
        red += red_of(rgb), green += green_of(rgb), blue += blue_of(rgb);
    }
    // The eight neighbours have weight 1 and the pixel itself has weight 5. No multiple of 1/13 is a tie.
    float r = (float)((2 * red + 13) / 26), g = (float)((2 * green + 13) / 26), b = (float)((2 * blue + 13) / 26);
    float r0 = (float)red_of(own), g0 = (float)green_of(own), b0 = (float)blue_of(own);
    return rgb_from(level_of(r0 + (r - r0) * towards), level_of(g0 + (g - g0) * towards), level_of(b0 + (b - b0) * towards));
}

// Returns the source pixel of pixel `n`, or black outside the picture.
FN u32 moved(Ptr<const u32> from, u32 n, u32 height, u32 width, const Array<double, 6>& map) {
    double wide = (double)width, high = (double)height;
    u32 row = n / width;
    double y = (double)row + 0.5 - high * 0.5, x = (double)(n - row * width) + 0.5 - wide * 0.5;
    double x_from = map[0] * x + (map[1] * y + map[2] + wide * 0.5), y_from = map[3] * x + (map[4] * y + map[5] + high * 0.5);
    bool inside = x_from >= 0.0 && x_from < wide && y_from >= 0.0 && y_from < high;
    return inside ? from[(u32)y_from * width + (u32)x_from] : 0;
}

// Returns the index of the pixel at `at` on a side of `side` pixels that is extended by `reach` mirrored
// pixels at each end.
FN u32 mirrored(u32 at, u32 reach, u32 side) {
    if (at >= reach && at - reach < side) return at - reach;
    u32 period = 2 * (side - 1);
    if (period == 0) return 0;
    at = (at + (reach + period - 1) / period * period - reach) % period;
    return min(at, period - at);
}

// Blurs rows into floats, then columns into levels.
FN void blur(const Change& change, Ptr<const float> all_weights, Ptr<u32> levels, Ptr<float> floats, u32 height, u32 width) {
    Ptr<const float> weights = all_weights + change.place[0];
    u32 size = change.number, reach = size / 2;
    for (u32 n = threadIdx.x; n < height * width; n += CHANGE_THREADS) {
        u32 y = n / width, x = n - y * width;
        float red = 0.0f, green = 0.0f, blue = 0.0f;
        for (u32 k = 0; k < size; k++) {
            u32 rgb = levels[y * width + mirrored(x + k, reach, width)];
            float weight = weights[k];
            red = red + (float)red_of(rgb) * weight;
            green = green + (float)green_of(rgb) * weight;
            blue = blue + (float)blue_of(rgb) * weight;
        }
        Ptr<float> to = floats + (u64)n * 3;
        to[0] = red, to[1] = green, to[2] = blue;
    }
    __syncthreads();
    for (u32 n = threadIdx.x; n < height * width; n += CHANGE_THREADS) {
        u32 y = n / width, x = n - y * width;
        float red = 0.0f, green = 0.0f, blue = 0.0f;
        for (u32 k = 0; k < size; k++) {
            Ptr<const float> from = floats + ((u64)mirrored(y + k, reach, height) * width + x) * 3;
            float weight = weights[k];
            red = red + from[0] * weight;
            green = green + from[1] * weight;
            blue = blue + from[2] * weight;
        }
        levels[n] = rgb_from(level_of(rintf(red)), level_of(rintf(green)), level_of(rintf(blue)));
    }
}

// Computes every pixel and passes it to `put_pixel`. The lanes of a warp stay together. Lanes past the last pixel are
// idle.
template <u32 AT_A_TIME, class F, class P> FN void each_pixel(u32 pixels, F make, P put_pixel) {
    u32 lane = threadIdx.x % 32;
#pragma unroll AT_A_TIME
    for (u32 first = threadIdx.x - lane; first < pixels; first += CHANGE_THREADS) {
        u32 n = first + lane;
        put_pixel(n, n < pixels ? make(n) : 0);
    }
}

// Computes every pixel of a change from the current pixels. Changes by a table have their own loop, because they are
// the most common.
template <class P> FN void make_each(const ChangesShared& s, const Change& change, Ptr<const u32> from, u32 height, u32 width, P put_pixel) {
    u32 kind = change.kind, pixels = height * width;
    if (kind <= EQUALIZE) {
        each_pixel<4>(pixels, [&](u32 n) {
            u32 rgb = from[n];
            return rgb_from(s.tables[red_of(rgb)], s.tables[256 + green_of(rgb)], s.tables[512 + blue_of(rgb)]);
        }, put_pixel);
        return;
    }
    each_pixel<1>(pixels, [&](u32 n) {
        if (kind == SHARPNESS) return sharpened(from, n, height, width, change.factors[1]);
        if (kind == AFFINE) return moved(from, n, height, width, change.map);
        u32 rgb = from[n];
        if (kind == SATURATION) return saturated(rgb, change.factors[0], change.factors[1]);
        if (kind == GRAYSCALE) return level_of(gray_of(rgb)) * 0x010101u;
        return kind == HUE ? turned(rgb, change.factors[0]) : rgb;
    }, put_pixel);
}

#define NOTHING 14u

FN void put_level(Ptr<u8> out, const Output& how, u64 at, u32 channel, u32 level) {
    if (how.dtype == 0) put<0>(out, how, at, channel, level);
    else if (how.dtype == 1) put<1>(out, how, at, channel, level);
    else if (how.dtype == 2) put<2>(out, how, at, channel, level);
    else put<3>(out, how, at, channel, level);
}

// Writes a pixel whose channels are `channel` elements apart.
FN void put_pixel(Ptr<u8> out, const Output& how, u64 at, u64 channel, u32 rgb) {
    if (how.dtype == PACKED) {
        cast<u32>(out)[at] = rgb;
        return;
    }
#pragma unroll
    for (u32 c = 0; c < 3; c++) put_level(out, how, at + c * channel, c, rgb >> 8 * c & 255);
}

// Writes each lane's pixel. Neighbouring lanes write neighbouring elements. With channels last, a lane
// therefore gets two of its three levels from other lanes.
FN void put_output(Ptr<u8> out, const Output& how, const Changed& row, u32 n, u32 rgb) {
    u32 pixels = row.height * row.width;
    if (how.channels_first) {
        if (n >= pixels) return;
#pragma unroll
        for (u32 c = 0; c < 3; c++) {
            put_level(out, how, row.out + (u64)c * how.channels_first * pixels + n, c, rgb >> 8 * c & 255);
        }
        return;
    }
    u32 lane = threadIdx.x % 32, first = (n - lane) * 3;
#pragma unroll
    for (u32 k = 0; k < 3; k++) {
        u32 element = k * 32 + lane, pixel = element / 3, c = element - pixel * 3;
        u32 level = __shfl_sync(0xFFFFFFFFu, rgb, pixel) >> 8 * c & 255;
        if (n - lane + pixel < pixels) put_level(out, how, row.out + first + element, c, level);
    }
}

// Changes one row per block. The last change also writes the output. If the last change works in place, an extra pass
// writes the output.
KERNEL(picture_changes, ChangesParams, CHANGE_THREADS) {
    SHARED(ChangesShared, s);
    Changed row = p.rows[blockIdx.x];
    u32 height = row.height, width = row.width, pixels = height * width, end = row.first + row.count;
    Ptr<u32> now = p.levels + row.pixels, other = now + pixels;
    Ptr<float> floats = cast<float>(other + pixels);
    bool is_last = false;
    for (u32 n = row.first; !is_last; n++) {
        Change change = {};
        change.kind = NOTHING;
        if (n < end) change = p.changes[n];
        if (change.kind == ERASE) {
            erase(change, now, height, width);
        } else if (change.kind == BLUR) {
            blur(change, p.weights, now, floats, height, width);
        } else {
            if (change.kind <= EQUALIZE) make_tables(s, change, now, pixels);
            is_last = n + 1 >= end;
            make_each(s, change, now, height, width, [&](u32 at, u32 rgb) {
                if (is_last) put_output(p.out, p.output, row, at, rgb);
                else if (at < pixels) other[at] = rgb;
            });
            Ptr<u32> before = now;
            now = other;
            other = before;
        }
        __syncthreads();
    }
}
