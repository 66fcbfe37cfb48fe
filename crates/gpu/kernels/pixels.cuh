// Pixels from samples: upsampling and colours, to the bit as libjpeg's (jdsample.c "fancy", jdcolor.c).
#pragma once
#include "pictures.cuh"

// A sample of a plane that is kept block by block, `across` blocks in a row.
FN u32 sample_at(Ptr<const u8> planes, u32 first, u32 across, u32 x, u32 y) {
    return planes[((u64)first + (y >> 3) * across + (x >> 3)) * 64 + (y & 7) * 8 + (x & 7)];
}

// Chroma at a pixel of the picture. At the picture's edges the outermost sample is repeated.
FN u32 chroma_at(Ptr<const u8> planes, const Picture& pic, u32 first, u32 x, u32 y) {
    u32 across = pic.right - pic.left, x0 = pic.left * 8, y0 = pic.top * 8;
    if (pic.h == 1 && pic.v == 1) return sample_at(planes, first, across, x - x0, y - y0);
    u32 cx = x / pic.h, cy = y / pic.v;
    // The neighbour on the pixel's side.
    u32 nx = x & 1 ? min(cx + 1, pic.chroma_width - 1) : (cx ? cx - 1 : 0);
    u32 ny = y & 1 ? min(cy + 1, pic.chroma_height - 1) : (cy ? cy - 1 : 0);
    u32 near = sample_at(planes, first, across, cx - x0, cy - y0);
    if (pic.v == 1) {
        u32 far = sample_at(planes, first, across, nx - x0, cy - y0);
        return (3 * near + far + (x & 1 ? 2 : 1)) >> 2;
    }
    u32 below = sample_at(planes, first, across, cx - x0, ny - y0);
    if (pic.h == 1) return (3 * near + below + (y & 1 ? 2 : 1)) >> 2;
    u32 beside = sample_at(planes, first, across, nx - x0, cy - y0);
    u32 across_corner = sample_at(planes, first, across, nx - x0, ny - y0);
    u32 sum = 3 * near + below, other = 3 * beside + across_corner;
    return (3 * sum + other + (x & 1 ? 7 : 8)) >> 4;
}

FN u32 level(i32 value) { return (u32)min(max(value, 0), 255); }

// Red, green and blue from the lowest byte on.
FN u32 rgb_of(i32 y, i32 cb, i32 cr) {
    cb -= 128;
    cr -= 128;
    // As libjpeg-turbo: the upper half of a product of 16 bits each, doubled and rounded.
    i32 red = y + cr + (((2 * cr * 26345 >> 16) + 1) >> 1);
    i32 green = y - cr + ((18734 * cr - 22554 * cb + 32768) >> 16);
    i32 blue = y + 2 * cb + (((2 * cb * -14942 >> 16) + 1) >> 1);
    return level(red) | level(green) << 8 | level(blue) << 16;
}

// The pixel at (x, y) of the picture.
FN u32 pixel_at(Ptr<const u8> planes, const Picture& pic, u32 x, u32 y) {
    u32 luma = sample_at(planes, pic.planes[0], (pic.right - pic.left) * pic.h, x - pic.left * pic.h * 8, y - pic.top * pic.v * 8);
    if (pic.components == 1) return luma * 0x010101u;
    u32 cb = chroma_at(planes, pic, pic.planes[1], x, y), cr = chroma_at(planes, pic, pic.planes[2], x, y);
    return rgb_of((i32)luma, (i32)cb, (i32)cr);
}
