// Pictures changed at random: what shardpack-augment does to a row of levels, to the bit. A block takes a row, does one change after
// the other, and writes the output. Sums and products are rounded one by one, as the host's are.
#pragma once
#include "pictures.cuh"

#define CHANGE_THREADS 512

// What is done (src/pictures/changes.rs). The first kinds are tables of 256 levels.
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

// One change, with its choices made.
struct Change {
    u32 kind;
    u32 number;               // POSTERIZE: the bits that stay. ERASE: red, green, blue. BLUR: weights, an odd number.
    Array<u32, 4> place;      // ERASE: first row and column, rows and columns. BLUR: its first weight.
    Array<float, 2> factors;  // Of the level, and of what it is mixed with. SOLARIZE: the threshold. HUE: how far it is turned.
    Array<double, 6> map;     // AFFINE: where a pixel comes from.
};

// A row that is changed.
struct Changed {
    u64 levels;   // Its first byte among the levels; the same once more behind it, and for a blur four times that in floats.
    u64 out;      // Its first element in the output.
    u32 height, width;
    u32 first;    // Of its changes, and how many.
    u32 count;
};

// Bytes of a copy of the levels: they are read four pixels at a time.
FN u64 level_bytes(u32 height, u32 width) { return (((u64)height * width + 3) / 4 * 12 + 15) / 16 * 16; }

struct ChangesParams {
    Ptr<const Changed> rows;
    Ptr<const Change> changes;
    Ptr<const float> weights;
    Ptr<u8> levels;
    Ptr<u8> out;
    Output output;
};

struct ChangesShared {
    Array<u32, 768> counts;
    Array<u8, 768> tables;
    Array<u32, 3> lowest, highest;
    u64 sum;
};

// Limited to 0 to 255, and cut off. What is no number is 0.
FN u32 level_of(float x) { return (u32)(x > 0.0f ? min(x, 255.0f) : 0.0f); }

FN u32 red_of(u32 rgb) { return rgb & 255; }
FN u32 green_of(u32 rgb) { return rgb >> 8 & 255; }
FN u32 blue_of(u32 rgb) { return rgb >> 16 & 255; }
FN u32 rgb_from(u32 red, u32 green, u32 blue) { return red | green << 8 | blue << 16; }

// Brightness of a pixel, a whole number.
FN float gray_of(u32 rgb) { return floorf((float)red_of(rgb) * 0.2989f + (float)green_of(rgb) * 0.587f + (float)blue_of(rgb) * 0.114f); }

// Four pixels in three words.
struct Quad {
    u32 pixels[4];
};

FN Quad quad_at(Ptr<const u8> levels, u32 quad) {
    Ptr<const u32> words = cast<const u32>(levels + (u64)quad * 12);
    u32 a = words[0], b = words[1], c = words[2];
    return Quad{{a & 0xFFFFFF, a >> 24 | (b & 0xFFFF) << 8, b >> 16 | (c & 0xFF) << 16, c >> 8}};
}

FN void put_quad(Ptr<u8> levels, u32 quad, const Quad& q) {
    Ptr<u32> words = cast<u32>(levels + (u64)quad * 12);
    words[0] = q.pixels[0] | q.pixels[1] << 24;
    words[1] = q.pixels[1] >> 8 | q.pixels[2] << 16;
    words[2] = q.pixels[2] >> 16 | q.pixels[3] << 8;
}

FN u32 pixel_at(Ptr<const u8> levels, u32 pixel) {
    Ptr<const u8> at = levels + (u64)pixel * 3;
    return rgb_from(at[0], at[1], at[2]);
}

FN void put_pixel(Ptr<u8> levels, u32 pixel, u32 rgb) {
    Ptr<u8> at = levels + (u64)pixel * 3;
    at[0] = (u8)red_of(rgb);
    at[1] = (u8)green_of(rgb);
    at[2] = (u8)blue_of(rgb);
}

// Every pixel for itself. What stands behind the last one is changed too, and means nothing.
template <class F> FN void change_each(Ptr<u8> levels, u32 pixels, F f) {
    for (u32 n = threadIdx.x; n < (pixels + 3) / 4; n += blockDim.x) {
        Quad q = quad_at(levels, n);
#pragma unroll
        for (u32 k = 0; k < 4; k++) q.pixels[k] = f(q.pixels[k]);
        put_quad(levels, n, q);
    }
}

template <class F> FN void look_at_each(Ptr<const u8> levels, u32 pixels, F f) {
    for (u32 n = threadIdx.x; n < (pixels + 3) / 4; n += blockDim.x) {
        Quad q = quad_at(levels, n);
#pragma unroll
        for (u32 k = 0; k < 4; k++)
            if (n * 4 + k < pixels) f(q.pixels[k]);
    }
}

// The entry for each level of a channel, of `all` pixels: Pillow's scheme.
FN void equalize_table(ChangesShared& s, u32 channel, u32 all) {
    u32 brightest = 0, below = 0;
    for (u32 x = 0; x < 256; x++) brightest = s.counts[channel * 256 + x] ? s.counts[channel * 256 + x] : brightest;
    u32 step = (all - brightest) / 255;
    for (u32 x = 0; x < 256; x++) {
        s.tables[channel * 256 + x] = (u8)(step ? min((below + step / 2) / step, 255u) : x);
        below += s.counts[channel * 256 + x];
    }
}

// Makes the tables of a change that has some: one for each channel.
FN void make_tables(ChangesShared& s, const Change& change, Ptr<const u8> levels, u32 pixels) {
    u32 kind = change.kind;
    if (kind == CONTRAST) {
        if (threadIdx.x == 0) s.sum = 0;
        __syncthreads();
        u64 sum = 0;
        look_at_each(levels, pixels, [&](u32 rgb) { sum += (u64)gray_of(rgb); });
        atomicAdd(&s.sum, sum);
    } else if (kind == AUTOCONTRAST) {
        // The lowest as the highest of what is missing up to 255.
        if (threadIdx.x < 3) s.lowest[threadIdx.x] = s.highest[threadIdx.x] = 0;
        __syncthreads();
        u32 low = 0, high = 0, red_low = 0, red_high = 0, green_low = 0, green_high = 0;
        look_at_each(levels, pixels, [&](u32 rgb) {
            red_low = max(red_low, 255 - red_of(rgb)), red_high = max(red_high, red_of(rgb));
            green_low = max(green_low, 255 - green_of(rgb)), green_high = max(green_high, green_of(rgb));
            low = max(low, 255 - blue_of(rgb)), high = max(high, blue_of(rgb));
        });
        atomicMax(&s.lowest[0], red_low), atomicMax(&s.highest[0], red_high);
        atomicMax(&s.lowest[1], green_low), atomicMax(&s.highest[1], green_high);
        atomicMax(&s.lowest[2], low), atomicMax(&s.highest[2], high);
    } else if (kind == EQUALIZE) {
        for (u32 n = threadIdx.x; n < 768; n += blockDim.x) s.counts[n] = 0;
        __syncthreads();
        look_at_each(levels, pixels, [&](u32 rgb) {
            atomicAdd(&s.counts[red_of(rgb)], 1u);
            atomicAdd(&s.counts[256 + green_of(rgb)], 1u);
            atomicAdd(&s.counts[512 + blue_of(rgb)], 1u);
        });
        __syncthreads();
        if (threadIdx.x < 3) equalize_table(s, threadIdx.x, pixels);
        __syncthreads();
        return;
    }
    __syncthreads();
    float factor = change.factors[0], rest = change.factors[1];
    if (kind == CONTRAST) rest = (float)((double)s.sum / (double)pixels) * rest;
    for (u32 n = threadIdx.x; n < 768; n += blockDim.x) {
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

// A colour as torchvision makes levels of floats: 1 alone would be 255 otherwise.
FN u32 level_of_share(float x) { return level_of(x * (256.0f - 1e-3f)); }

// The hue turned, through HSV and back.
FN u32 turned(u32 rgb, float by) {
    float r = (float)red_of(rgb) * (1.0f / 255.0f), g = (float)green_of(rgb) * (1.0f / 255.0f), b = (float)blue_of(rgb) * (1.0f / 255.0f);
    float low = min(min(r, g), b), high = max(max(r, g), b), range = high - low;
    float saturation = range == 0.0f ? 0.0f : range / high;
    float rc = range == 0.0f ? 0.0f : (high - r) / range, gc = range == 0.0f ? 0.0f : (high - g) / range;
    float bc = range == 0.0f ? 0.0f : (high - b) / range;
    float sixths = high == r ? bc - gc : high == g ? rc + 2.0f - bc : gc + 4.0f - rc;
    // Remainders by 1: the subtraction is exact.
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
    default: return rgb_from(v, t, p);  // A sixth sector, by rounding, is the first again.
    }
}

FN void erase(const Change& change, Ptr<u8> levels, u32 height, u32 width) {
    u32 top = min(change.place[0], height), left = min(change.place[1], width);
    u32 rows = min(change.place[2], height - top), columns = min(change.place[3], width - left);
    for (u32 n = threadIdx.x; n < rows * columns; n += blockDim.x) {
        u32 y = n / columns;
        put_pixel(levels, (top + y) * width + left + n - y * columns, change.number);
    }
}

// Away from the picture blurred by a kernel of 3 × 3, or towards it. The border stays as it is.
FN void sharpen(const Change& change, Ptr<const u8> from, Ptr<u8> to, u32 height, u32 width) {
    for (u32 n = threadIdx.x; n < height * width; n += blockDim.x) {
        u32 y = n / width, x = n - y * width, own = pixel_at(from, n);
        if (y == 0 || x == 0 || y + 1 == height || x + 1 == width) {
            put_pixel(to, n, own);
            continue;
        }
        u32 red = 4 * red_of(own), green = 4 * green_of(own), blue = 4 * blue_of(own);
        for (u32 row = n - width; row <= n + width; row += width) {
            for (u32 at = row - 1; at <= row + 1; at++) {
                u32 rgb = pixel_at(from, at);
                red += red_of(rgb), green += green_of(rgb), blue += blue_of(rgb);
            }
        }
        // Eight neighbours count 1 and the pixel 5; of 13 there is no half to round.
        float r = (float)((2 * red + 13) / 26), g = (float)((2 * green + 13) / 26), b = (float)((2 * blue + 13) / 26);
        float towards = change.factors[1], r0 = (float)red_of(own), g0 = (float)green_of(own), b0 = (float)blue_of(own);
        put_pixel(to, n, rgb_from(level_of(r0 + (r - r0) * towards), level_of(g0 + (g - g0) * towards), level_of(b0 + (b - b0) * towards)));
    }
}

// Each pixel from where it comes; black from outside of the picture.
FN void move_pixels(const Change& change, Ptr<const u8> from, Ptr<u8> to, u32 height, u32 width) {
    double wide = (double)width, high = (double)height;
    double xx = change.map[0], xy = change.map[1], x0 = change.map[2], yx = change.map[3], yy = change.map[4], y0 = change.map[5];
    for (u32 n = threadIdx.x; n < height * width; n += blockDim.x) {
        u32 row = n / width;
        double y = (double)row + 0.5 - high * 0.5, x = (double)(n - row * width) + 0.5 - wide * 0.5;
        double x_from = xx * x + (xy * y + x0 + wide * 0.5), y_from = yx * x + (yy * y + y0 + high * 0.5);
        bool inside = x_from >= 0.0 && x_from < wide && y_from >= 0.0 && y_from < high;
        put_pixel(to, n, inside ? pixel_at(from, (u32)y_from * width + (u32)x_from) : 0);
    }
}

// Which of `side` pixels stands at place `at` of a side that begins `reach` before the first: mirrored at the outermost ones.
FN u32 mirrored(u32 at, u32 reach, u32 side) {
    if (at >= reach && at - reach < side) return at - reach;
    u32 period = 2 * (side - 1);
    if (period == 0) return 0;
    at = (at + (reach + period - 1) / period * period - reach) % period;
    return min(at, period - at);
}

// Blurs rows to floats, and these down to levels.
FN void blur(const Change& change, Ptr<const float> all_weights, Ptr<u8> levels, Ptr<float> floats, u32 height, u32 width) {
    Ptr<const float> weights = all_weights + change.place[0];
    u32 size = change.number, reach = size / 2;
    for (u32 n = threadIdx.x; n < height * width; n += blockDim.x) {
        u32 y = n / width, x = n - y * width;
        float red = 0.0f, green = 0.0f, blue = 0.0f;
        for (u32 k = 0; k < size; k++) {
            u32 rgb = pixel_at(levels, y * width + mirrored(x + k, reach, width));
            float weight = weights[k];
            red = red + (float)red_of(rgb) * weight;
            green = green + (float)green_of(rgb) * weight;
            blue = blue + (float)blue_of(rgb) * weight;
        }
        Ptr<float> to = floats + (u64)n * 3;
        to[0] = red, to[1] = green, to[2] = blue;
    }
    __syncthreads();
    for (u32 n = threadIdx.x; n < height * width * 3; n += blockDim.x) {
        u32 y = n / (width * 3), x = n - y * width * 3;
        float sum = 0.0f;
        for (u32 k = 0; k < size; k++) sum = sum + floats[(u64)mirrored(y + k, reach, height) * width * 3 + x] * weights[k];
        levels[n] = (u8)level_of(rintf(sum));
    }
}

template <u32 DTYPE> FN void write_levels(Ptr<u8> out, const Output& how, Ptr<const u8> levels, u64 first, u32 pixels) {
    u64 channel = how.channels_first ? pixels : 1, pixel = how.channels_first ? 1 : 3;
    for (u32 n = threadIdx.x; n < pixels; n += blockDim.x) {
        u32 rgb = pixel_at(levels, n);
        u64 at = first + n * pixel;
#pragma unroll
        for (u32 c = 0; c < 3; c++) put<DTYPE>(out, how, at + c * channel, c, rgb >> 8 * c & 255);
    }
}

// A row in each block.
KERNEL(picture_changes, ChangesParams, CHANGE_THREADS) {
    SHARED(ChangesShared, s);
    Changed row = p.rows[blockIdx.x];
    u32 height = row.height, width = row.width, pixels = height * width;
    u64 bytes = level_bytes(height, width);
    Ptr<u8> now = p.levels + row.levels, other = now + bytes;
    for (u32 n = row.first; n < row.first + row.count; n++) {
        const Change& change = p.changes[n];
        u32 kind = change.kind;
        if (kind <= EQUALIZE) {
            make_tables(s, change, now, pixels);
            change_each(now, pixels, [&](u32 rgb) {
                return rgb_from(s.tables[red_of(rgb)], s.tables[256 + green_of(rgb)], s.tables[512 + blue_of(rgb)]);
            });
        } else if (kind == SATURATION) {
            float own = change.factors[0], rest = change.factors[1];
            change_each(now, pixels, [&](u32 rgb) { return saturated(rgb, own, rest); });
        } else if (kind == GRAYSCALE) {
            change_each(now, pixels, [&](u32 rgb) { return level_of(gray_of(rgb)) * 0x010101u; });
        } else if (kind == HUE) {
            float by = change.factors[0];
            change_each(now, pixels, [&](u32 rgb) { return turned(rgb, by); });
        } else if (kind == ERASE) {
            erase(change, now, height, width);
        } else if (kind == BLUR) {
            blur(change, p.weights, now, cast<float>(p.levels + (row.levels + 2 * bytes)), height, width);
        } else {
            if (kind == SHARPNESS) sharpen(change, now, other, height, width);
            else move_pixels(change, now, other, height, width);
            Ptr<u8> before = now;
            now = other;
            other = before;
        }
        __syncthreads();
    }
    if (p.output.dtype == 0) write_levels<0>(p.out, p.output, now, row.out, pixels);
    else if (p.output.dtype == 1) write_levels<1>(p.out, p.output, now, row.out, pixels);
    else if (p.output.dtype == 2) write_levels<2>(p.out, p.output, now, row.out, pixels);
    else write_levels<3>(p.out, p.output, now, row.out, pixels);
}
