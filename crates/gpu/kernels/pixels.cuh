// Computes pixels from samples: upsampling and colour conversion, bit-identical to libjpeg (jdsample.c "fancy",
// jdcolor.c). Four neighbours in a row are computed together. The first is at a multiple of four.
#pragma once
#include "pictures.cuh"

#define EVEN_BYTES 0x00FF00FFu

// Returns red, green and blue, with red in the lowest byte. `chroma` has blue in the lower half and red in the upper
// half. libjpeg-turbo adds products that are rounded, and halved, in steps. A single shift of the sum gives the same,
// because floor((floor(a) + 1) / 2) = floor((a + 1) / 2). The constants include the offset of 128 of both samples.
FN u32 rgb_of(u32 luma, u32 chroma) {
    i32 y = (i32)luma, cb = (i32)(chroma & 0xFFFF), cr = (i32)(chroma >> 16);
    i32 red = y + ((183762 * cr - 23456000) >> 17);
    i32 green = y + ((8910336 - 46802 * cr - 22554 * cb) >> 16);
    i32 blue = y + ((232260 * cb - 29663744) >> 17);
    return clamped(red, green, blue, 0);
}

// Returns the offset of a row of samples in a plane that is stored block by block. Sample x of the row is
// place_in_row(x) further on. `across` is the number of blocks per row.
FN u32 place_of_row(u32 y, u32 across) { return (y >> 3) * across * 64 + (y & 7) * 8; }

FN u32 place_in_row(u32 x) { return (x >> 3) * 64 + (x & 7); }

// The samples of a picture's kept part.
struct Planes {
    Ptr<const u8> luma, blue, red;
    u32 across;          // Number of blocks per row of chroma.
    u32 left, top;       // Position of the first kept chroma sample.
    u32 last_x, last_y;  // Position of the last chroma sample of the picture, at most the last kept one along the rows.
    u32 h, v;
};

FN Planes planes_of(Ptr<const u8> planes, const Picture& pic) {
    Planes all;
    all.luma = planes + (u64)pic.planes[0] * 64;
    all.blue = planes + (u64)pic.planes[1] * 64;
    all.red = planes + (u64)pic.planes[2] * 64;
    all.across = pic.right - pic.left;
    all.left = pic.left * 8;
    all.top = pic.top * 8;
    all.last_x = min(pic.chroma_width, pic.right * 8) - 1;
    all.last_y = pic.chroma_height - 1;
    all.h = pic.h;
    all.v = pic.v;
    return all;
}

// Chroma sums of four pixels, blue in the lower half and red in the upper half.
struct Four {
    u32 a, b, c, d;
};

FN Four weighted(const Four& near, const Four& far) {
    return Four{3 * near.a + far.a, 3 * near.b + far.b, 3 * near.c + far.c, 3 * near.d + far.d};
}

FN Four shifted(const Four& sum, u32 half) {
    return Four{(sum.a + half) >> 2 & EVEN_BYTES, (sum.b + half) >> 2 & EVEN_BYTES, (sum.c + half) >> 2 & EVEN_BYTES,
                (sum.d + half) >> 2 & EVEN_BYTES};
}

// Offsets of the chroma samples of four pixels in their row. If a sample belongs to two pixels, a pair of samples is
// needed, and one on either side.
struct Places {
    u32 before, pair, behind;
    bool ends;  // True if the second sample is outside the picture. The first sample is then used twice.
};

FN Places places_at(const Planes& planes, u32 x) {
    if (planes.h == 1) return Places{0, place_in_row(x - planes.left), 0, false};
    // For pixels outside the view, the neighbours may not have been kept. Their values are not used, so read any
    // sample.
    u32 cx = x / 2, left = planes.left;
    return Places{place_in_row(max(cx, left + 1) - 1 - left), place_in_row(cx - left), place_in_row(min(cx + 2, planes.last_x) - left),
                  cx >= planes.last_x};
}

// Returns the samples of four pixels in a row of chroma, which starts at the top of the picture.
FN Four samples_at(const Planes& planes, u32 row, const Places& at) {
    u32 start = place_of_row(row - planes.top, planes.across);
    Ptr<const u8> blue = planes.blue + start, red = planes.red + start;
    if (planes.h == 1) {
        u32 cb = *cast<const u32>(blue + at.pair), cr = *cast<const u32>(red + at.pair);
        return Four{__byte_perm(cb, cr, 0x4440) & EVEN_BYTES, __byte_perm(cb, cr, 0x5551) & EVEN_BYTES,
                    __byte_perm(cb, cr, 0x6662) & EVEN_BYTES, __byte_perm(cb, cr, 0x7773) & EVEN_BYTES};
    }
    u32 cb = *cast<const u16>(blue + at.pair), cr = *cast<const u16>(red + at.pair);
    Four all;
    all.a = blue[at.before] | (u32)red[at.before] << 16;
    all.b = (cb | cr << 16) & EVEN_BYTES;
    all.c = at.ends ? all.b : (cb >> 8 | cr << 8) & EVEN_BYTES;
    all.d = blue[at.behind] | (u32)red[at.behind] << 16;
    return all;
}

// Upsamples sums along the row. Sums of two rows have four times the size of a sample.
FN Four along(const Four& sum, u32 v) {
    u32 even = v == 2 ? 0x00080008u : 0x00010001u, odd = v == 2 ? 0x00070007u : 0x00020002u, shift = 2 * v;
    return Four{(3 * sum.b + sum.a + even) >> shift & EVEN_BYTES, (3 * sum.b + sum.c + odd) >> shift & EVEN_BYTES,
                (3 * sum.c + sum.b + even) >> shift & EVEN_BYTES, (3 * sum.c + sum.d + odd) >> shift & EVEN_BYTES};
}

FN u32 luma_at(const Planes& planes, u32 x, u32 y) {
    u32 place = place_of_row(y - planes.top * planes.v, planes.across * planes.h) + place_in_row(x - planes.left * planes.h);
    return *cast<const u32>(planes.luma + place);
}

FN uint4 coloured(u32 luma, const Four& chroma) {
    return make_uint4(rgb_of(luma & 255, chroma.a), rgb_of(luma >> 8 & 255, chroma.b), rgb_of(luma >> 16 & 255, chroma.c),
                      rgb_of(luma >> 24, chroma.d));
}

// The functions below return the picture's four pixels that start at (x, y), where x is a multiple of four. Pixels
// outside the picture or its kept part are meaningless.

FN uint4 grey_at(const Planes& planes, u32 x, u32 y) {
    u32 luma = luma_at(planes, x, y);
    return make_uint4((luma & 255) * 0x010101u, (luma >> 8 & 255) * 0x010101u, (luma >> 16 & 255) * 0x010101u, (luma >> 24) * 0x010101u);
}

// For pictures with a row of chroma for each row of pixels.
FN uint4 pixels_at(const Planes& planes, u32 x, u32 y) {
    u32 luma = luma_at(planes, x, y);
    Four chroma = samples_at(planes, y, places_at(planes, x));
    return coloured(luma, planes.h == 1 ? chroma : along(chroma, 1));
}

// The chroma of two rows of pixels between two rows of samples. The sample nearer to a pixel has the weight 3/4,
// the other 1/4. At the edges of the picture the outermost sample repeats.
struct TwoRows {
    Four above, below;
};

// Returns the chroma of the rows 2 · pair - 1 and 2 · pair, for pictures with a row of chroma for two rows of pixels.
FN TwoRows chroma_at(const Planes& planes, u32 x, u32 pair) {
    Places at = places_at(planes, x);
    Four upper = samples_at(planes, pair ? pair - 1 : 0, at), lower = samples_at(planes, min(pair, planes.last_y), at);
    Four above = weighted(upper, lower), below = weighted(lower, upper);
    if (planes.h == 1) return TwoRows{shifted(above, 0x00020002u), shifted(below, 0x00010001u)};
    return TwoRows{along(above, 2), along(below, 2)};
}
