// Structs that the kernels for pictures share with the host. src/pictures writes them byte by byte;
// pictures_config returns their sizes, which a test compares.
#pragma once
#include "device.cuh"

// Bits of an index into a Huffman table. Longer codes are rare, and searched.
#define LOOKUP_BITS 9
// Threads of a decoding block: four warps, each within one picture.
#define DECODE_THREADS 128
#define BYTES_THREADS 128
#define PIXEL_THREADS 256
// Source pixels of a tile of output, and pixels between the two passes of resizing, in shared
// memory.
#define TILE_PIXELS 6144
#define TILE_BETWEEN 4096

// Faults of a row.
#define ODD_ENTROPY 1u  // Invalid bits in a segment, or a segment with the wrong number of bits.
#define ODD_RANGE 2u    // A coefficient or a sum is out of range: libjpeg-turbo's arithmetic of 16 bits would differ.
#define ODD_TILE 4u     // A tile does not fit: the host's numbers are wrong.

#define TRANSPOSED 1u
#define MIRRORED_X 2u
#define MIRRORED_Y 4u

// One axis of the resizing.
struct Axis {
    double start;  // Of the shown part, in pixels of the window.
    double end;
    u32 out;       // Pixels of the output.
    u32 in;        // Pixels of the window.
    u32 taps;      // Weights kept for each pixel of the output, an even number.
    u32 spans;     // Its first span.
    u32 weights;   // Its first weight.
    u32 copies;    // Not 0: pixels are copied from `start` on.
};

struct Picture {
    u64 out;              // Its first element in the output.
    Axis x, y;            // Axes of the stored picture.
    u32 window_x, window_y;
    u32 out_width, out_height;
    u32 turn;
    u32 tile_width, tile_height;
    u32 segments;         // Its first segment in the table of segments, and their number.
    u32 segment_count;
    u32 interval;         // MCUs of a segment.
    u32 mcus;             // MCUs of the picture.
    u32 columns;          // MCUs in a row.
    u32 left, top, right, bottom;  // The MCUs whose samples are kept.
    u32 components;       // 1 or 3.
    u32 h, v;             // Blocks of luma in an MCU.
    u32 chroma_width, chroma_height;  // Samples.
    Array<u32, 3> planes; // Each component's first block.
    Array<u32, 3> dc, ac; // Each component's Huffman tables.
    Array<u8, 192> quantisers;  // In zigzag order.
};

// Entropy-coded bytes, from `offset` to two bytes before the next segment's offset: a marker has
// two bytes.
struct Segment {
    u32 offset;
    u32 number;  // Its number in the picture, or END after the last segment.
};
#define END 0xFFFFFFFFu

// First word of the n-th segment. It has as many words as its bytes and its marker touch, and two
// more, so that it never meets the next segment, and a word of zeros fits after it.
FN u32 first_word(const Segment& segment, u32 n) { return (segment.offset >> 2) + 2 * n; }

// Work of a warp: up to 32 segments of a picture.
struct Group {
    u32 picture;
    u32 first;  // Counted from the picture's first segment.
};

// Part of the output that a block writes.
struct Tile {
    u32 picture;
    u32 place;  // Column, and row in the upper half, in tiles.
};

// Place of a Huffman table among the uploaded bytes: 16 counts, then symbols.
struct Codes {
    u32 offset;
    u32 symbols;
};

struct Huffman {
    Array<u16, 1 << LOOKUP_BITS> lookup;  // Entries (entropy.cuh); 0 for longer codes.
    Array<u32, 17> ends;                  // For each length: the code after its last code, left-justified to 16 bits.
    Array<i32, 17> offsets;               // For each length: the difference between a symbol's place and its code.
    Array<u8, 256> symbols;
};

// Source pixels of an output pixel, on one axis.
struct Span {
    u32 start;
    u32 size;
};

// Levels that are changed before the output: a word for each pixel, red in the lowest byte. An
// element is a pixel.
#define PACKED 4u

struct Output {
    u32 dtype;        // 0 uint8, 1 float16, 2 bfloat16, 3 float32; PACKED.
    u32 channels_first;
    Array<float, 3> scale, bias;
};

// Writes a level. Floats are rounded twice: by the fused multiply-add, and by the conversion.
template <u32 DTYPE> FN void put(Ptr<u8> out, const Output& how, u64 element, u32 channel, u32 level) {
    if (DTYPE == 0) {
        out[element] = (u8)level;
        return;
    }
    // Selected instead of indexed, because parameters have no address.
    float scale = channel == 0 ? how.scale[0] : channel == 1 ? how.scale[1] : how.scale[2];
    float bias = channel == 0 ? how.bias[0] : channel == 1 ? how.bias[1] : how.bias[2];
    float x = __fmaf_rn((float)level, scale, bias);
    if (DTYPE == 1) cast<u16>(out)[element] = f16_bits(x);
    else if (DTYPE == 2) cast<u16>(out)[element] = bf16_bits(x);
    else cast<float>(out)[element] = x;
}
