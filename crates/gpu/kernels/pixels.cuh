// Computes pixels from samples: upsampling and colour conversion, bit-identical to libjpeg (jdsample.c "fancy",
// jdcolor.c). Four neighbours in a row are computed together. The first is at a multiple of four.
#pragma once
#include "pictures.cuh"

#define EVEN_BYTES 0x00FF00FFu

// Returns red, green and blue, with red in the lowest byte. `chroma` has blue in the lower half and red in
// the upper half.
FN u32 rgb_of(u32 luma, u32 chroma) {
    i32 y = (i32)luma, cb = (i32)(chroma & 0xFFFF) - 128, cr = (i32)(chroma >> 16) - 128;
    // As in libjpeg-turbo, take the upper half of a 16-bit product, doubled and rounded.
    i32 red = y + cr + (((2 * cr * 26345 >> 16) + 1) >> 1);
    i32 green = y - cr + ((18734 * cr - 22554 * cb + 32768) >> 16);
    i32 blue = y + 2 * cb + (((2 * cb * -14942 >> 16) + 1) >> 1);
    return clamped(red, green, blue, 0);
}

// Returns the start of a row of samples in a plane that is stored block by block. Sample x of the row is at
// place_in_row(x). `across` is the number of blocks per row.
FN Ptr<const u8> row_of(Ptr<const u8> planes, u32 first, u32 across, u32 y) {
    return planes + (((u64)first + (y >> 3) * across) * 64 + (y & 7) * 8);
}

FN u32 place_in_row(u32 x) { return (x >> 3) * 64 + (x & 7); }

// Chroma sums of four pixels, blue in the lower half and red in the upper half.
struct Four {
    u32 a, b, c, d;
};

FN Four weighted(const Four& near, const Four& far) {
    return Four{3 * near.a + far.a, 3 * near.b + far.b, 3 * near.c + far.c, 3 * near.d + far.d};
}

FN Four four_at(Ptr<const u8> blue, Ptr<const u8> red, u32 place) {
    u32 cb = *cast<const u32>(blue + place), cr = *cast<const u32>(red + place);
    return Four{__byte_perm(cb, cr, 0x4440) & EVEN_BYTES, __byte_perm(cb, cr, 0x5551) & EVEN_BYTES,
                __byte_perm(cb, cr, 0x6662) & EVEN_BYTES, __byte_perm(cb, cr, 0x7773) & EVEN_BYTES};
}

struct Places {
    u32 before, pair, behind;
    bool ends;  // True if the second sample is outside the picture. The first sample is then used twice.
};

FN Four pair_at(Ptr<const u8> blue, Ptr<const u8> red, const Places& at) {
    u32 cb = *cast<const u16>(blue + at.pair), cr = *cast<const u16>(red + at.pair);
    Four all;
    all.a = blue[at.before] | (u32)red[at.before] << 16;
    all.b = (cb | cr << 16) & EVEN_BYTES;
    all.c = at.ends ? all.b : (cb >> 8 | cr << 8) & EVEN_BYTES;
    all.d = blue[at.behind] | (u32)red[at.behind] << 16;
    return all;
}

// Returns the chroma of the picture's four pixels that start at (x, y).
FN Four chroma_at(Ptr<const u8> planes, const Picture& pic, u32 x, u32 y) {
    u32 across = pic.right - pic.left, cy = y / pic.v - pic.top * 8, x0 = pic.left * 8;
    Ptr<const u8> blue = row_of(planes, pic.planes[1], across, cy), red = row_of(planes, pic.planes[2], across, cy);
    Ptr<const u8> far_blue = blue, far_red = red;
    if (pic.v == 2) {
        // Use the neighbour on the pixel's side. At the edges of the picture the outermost sample repeats.
        u32 row = y / 2, ny = (y & 1 ? min(row + 1, pic.chroma_height - 1) : (row ? row - 1 : 0)) - pic.top * 8;
        far_blue = row_of(planes, pic.planes[1], across, ny);
        far_red = row_of(planes, pic.planes[2], across, ny);
    }
    if (pic.h == 1) {
        u32 place = place_in_row(x - x0);
        Four near = four_at(blue, red, place);
        if (pic.v == 1) return near;
        Four sum = weighted(near, four_at(far_blue, far_red, place));
        u32 half = y & 1 ? 0x00020002u : 0x00010001u;
        return Four{(sum.a + half) >> 2 & EVEN_BYTES, (sum.b + half) >> 2 & EVEN_BYTES, (sum.c + half) >> 2 & EVEN_BYTES,
                    (sum.d + half) >> 2 & EVEN_BYTES};
    }
    // For pixels outside the view, the neighbours may not have been kept. Their values are not used, so read any
    // sample.
    u32 cx = x / 2, last = min(pic.chroma_width, pic.right * 8) - 1;
    Places at = {place_in_row(max(cx, x0 + 1) - 1 - x0), place_in_row(cx - x0), place_in_row(min(cx + 2, last) - x0), cx >= last};
    Four sum = pair_at(blue, red, at);
    u32 even = 0x00010001u, odd = 0x00020002u, shift = 2;
    if (pic.v == 2) {
        sum = weighted(sum, pair_at(far_blue, far_red, at));
        even = 0x00080008u;
        odd = 0x00070007u;
        shift = 4;
    }
    return Four{(3 * sum.b + sum.a + even) >> shift & EVEN_BYTES, (3 * sum.b + sum.c + odd) >> shift & EVEN_BYTES,
                (3 * sum.c + sum.b + even) >> shift & EVEN_BYTES, (3 * sum.c + sum.d + odd) >> shift & EVEN_BYTES};
}

// Returns the picture's four pixels that start at (x, y), where x is a multiple of four. Pixels outside the
// picture or its kept part are meaningless.
FN uint4 pixels_at(Ptr<const u8> planes, const Picture& pic, u32 x, u32 y) {
    Ptr<const u8> row = row_of(planes, pic.planes[0], (pic.right - pic.left) * pic.h, y - pic.top * pic.v * 8);
    u32 luma = *cast<const u32>(row + place_in_row(x - pic.left * pic.h * 8));
    u32 y0 = luma & 255, y1 = luma >> 8 & 255, y2 = luma >> 16 & 255, y3 = luma >> 24;
    if (pic.components == 1) return make_uint4(y0 * 0x010101u, y1 * 0x010101u, y2 * 0x010101u, y3 * 0x010101u);
    Four chroma = chroma_at(planes, pic, x, y);
    return make_uint4(rgb_of(y0, chroma.a), rgb_of(y1, chroma.b), rgb_of(y2, chroma.c), rgb_of(y3, chroma.d));
}
