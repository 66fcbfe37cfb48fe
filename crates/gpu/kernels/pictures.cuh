// Structs that the picture kernels share with the host. src/pictures writes them byte by byte, and a test compares
// their sizes with the output of pictures_config.
#pragma once
#include "device.cuh"

// Number of bits that index a Huffman table. Longer codes are rare, and a search finds them.
#define LOOKUP_BITS 9
// Number of threads per decoding block: four warps, each of which handles one group of segments.
#define DECODE_THREADS 128
#define BYTES_THREADS 128
// Number of words of each lane's segment in shared memory. A power of two.
#define RING_WORDS 16u
#define PIXEL_THREADS 256
#define BORDER_THREADS 256
// Capacities in shared memory: the source pixels of an output tile, and the pixels between the two resizing passes.
#define TILE_PIXELS 6144
#define TILE_BETWEEN 4096

#define ODD_ENTROPY 1u  // A segment has invalid bits, or the wrong number of bits.
#define ODD_RANGE 2u    // A coefficient or a sum is out of range, where libjpeg-turbo's 16-bit arithmetic differs.
#define ODD_TILE 4u     // A tile does not fit in shared memory, so the host has computed wrong numbers.

#define TRANSPOSED 1u
#define MIRRORED_X 2u
#define MIRRORED_Y 4u
#define X_FIRST 8u  // The first of the two passes is along the rows.

// Resizing filter along an axis.
#define TRIANGLE 0u
#define COPY 1u
#define CUBIC 2u
#define NEAREST 3u
#define NEAREST_MIRRORED 4u  // A centre on the border of two pixels belongs to the pixel before it.

struct Axis {
    double start;  // Start of the shown part, in window pixels.
    double end;
    u32 out;       // Number of output pixels.
    u32 in;        // Number of window pixels.
    u32 taps;      // Number of weights stored per output pixel, even.
    u32 spans;     // Index of the axis's first span.
    u32 weights;   // Index of the axis's first weight.
    u32 filter;
};

struct Picture {
    u64 out;              // Index of the first element in the output. Padding may surround the picture.
    Axis x, y;            // Axes of the stored picture.
    u32 window_x, window_y;
    u32 out_width, out_height;
    u32 turn;
    u32 tile_width, tile_height;
    u32 segments;         // Index of the picture's first segment.
    u32 segment_count;
    u32 interval;         // Number of MCUs per segment.
    u32 mcus;             // Number of MCUs in the picture.
    u32 columns;          // Number of MCUs per row.
    u32 left, top, right, bottom;  // Rectangle of MCUs whose samples are kept.
    u32 components;       // Number of components, 1 or 3.
    u32 h, v;             // Luma blocks per MCU, horizontally and vertically.
    u32 chroma_width, chroma_height;  // Number of chroma samples.
    u32 edges;            // Index of the picture's first edges, or NONE if it has no segment index.
    Array<u32, 3> planes; // Index of the first block of each component.
    Array<u32, 3> dc, ac; // Index of each component's DC and AC Huffman table.
    Array<u8, 192> quantisers;  // In zigzag order.
};

// A segment whose entropy-coded bytes start at `offset`.
struct Segment {
    u32 offset;
    u32 number;  // Number in the picture, with the tail in the two highest bits; END after the last segment.
};
#define END 0xFFFFFFFFu

FN u32 number_of(const Segment& segment) { return segment.number & 0x3FFFFFFFu; }

// Returns the number of bytes. The tail is 0 if a marker of two bytes follows, 2 if the segment ends at the
// next offset, and 3 if it shares its last byte with the next segment.
FN i32 bytes_of(const Segment& segment, const Segment& next) {
    return (i32)(next.offset - segment.offset + (segment.number >> 30)) - 2;
}

// Decoder state at the start of a segment, and the state that it must reach at the end. Only pictures with a segment
// index have edges.
struct Edges {
    Array<i16, 3> start;  // DC predictions at the start of the segment.
    Array<i16, 3> end;    // Last DC coefficient of each component.
    u16 bit;              // Position of the first bit in the first byte.
    u16 unused;           // Number of bits left in the last byte, or ANY before a marker.
};
#define NONE 0xFFFFFFFFu
#define ANY 8u

// Returns the index of the first word of the n-th segment, a multiple of four. A segment gets two times four words
// more than its bytes occupy. So it never overlaps the next segment, even if the two share a byte, and one to four words
// of zeros fit after it.
FN u32 first_word(const Segment& segment, u32 n) { return (segment.offset / 16 + 2 * n) * 4; }

// A warp's work: up to 32 segments of a picture.
struct Group {
    u32 picture;
    u32 first;  // Index within the picture's segments.
};

// Part of the output that a block writes.
struct Tile {
    u32 picture;
    u32 place;  // Column of the tile, and its row in the upper half.
};

// The padding of a picture, which surrounds a rectangle of the output.
struct Border {
    u64 out;  // Index of the first element in the output.
    u32 height, width;
    u32 left, top, right, bottom;
    u32 fill;  // Colour of the padding, with red in the lowest byte.
    Array<u32, 3> unused;
};

// A Huffman table in the uploaded bytes: 16 counts, then the symbols.
struct Codes {
    u32 offset;
    u32 symbols;
};

struct Huffman {
    Array<u16, 1 << LOOKUP_BITS> lookup;  // Packed codes (entropy.cuh), or 0 for longer codes.
    Array<u32, 17> ends;                  // For each code length: code after the last code, left-justified to 16 bits.
    Array<i32, 17> offsets;               // For each code length: difference between a symbol's index and its code.
    Array<u8, 256> symbols;
};

// The next words of each lane's segment.
typedef Array<u32, RING_WORDS * 32> Ring;

// Shared memory of a warp that decodes segments.
struct alignas(16) WarpBlocks {
    Ring ring;
    Array<u16, 2048> block;
    Array<Array<u32, 64>, 3> steps;
    // DC predictions of the components, for each lane.
    Array<i32, 96> predictions;
    // DC tables of the components, followed by their AC tables.
    Array<u32, 6> codes;
    // Index of the edges of the first segment, or NONE.
    u32 edges;
    // Numbers of the picture, which need registers only where they are used. `beyond` is the number of columns from
    // the left edge of the kept MCUs to the right edge of the picture.
    u32 across, down, beyond, left, h, v, luma, blocks;
    Array<u32, 3> planes;
};

// Source pixels of an output pixel along one axis.
struct Span {
    u32 start;
    u32 size;
};

// Element type of levels that are changed before they are output. An element is a whole pixel, in one word with red
// in the lowest byte.
#define PACKED 4u

struct Output {
    u32 dtype;        // 0 uint8, 1 float16, 2 bfloat16, 3 float32, or PACKED.
    u32 channels_first;  // Number of consecutive planes of a channel, one per frame. 0 if channels are the last axis.
    Array<float, 3> scale, bias;
};

// Writes a level. Floats are rounded twice: by the fused multiply-add and by the conversion.
template <u32 DTYPE> FN void put(Ptr<u8> out, const Output& how, u64 element, u32 channel, u32 level) {
    if (DTYPE == 0) {
        out[element] = (u8)level;
        return;
    }
    // Do not index the arrays, because kernel parameters have no address.
    float scale = channel == 0 ? how.scale[0] : channel == 1 ? how.scale[1] : how.scale[2];
    float bias = channel == 0 ? how.bias[0] : channel == 1 ? how.bias[1] : how.bias[2];
    float x = __fmaf_rn((float)level, scale, bias);
    if (DTYPE == 1) cast<u16>(out)[element] = f16_bits(x);
    else if (DTYPE == 2) cast<u16>(out)[element] = bf16_bits(x);
    else cast<float>(out)[element] = x;
}
