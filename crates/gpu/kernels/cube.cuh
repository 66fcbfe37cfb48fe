// Constants and structs of cubes that the host and the device share, and the conversion of stored elements to values
// (format-spec §4.3).
//
// A slot is one piece of device memory: uploaded bytes (compressed bytes as in the files, then tables), then room for
// decoded bytes. Places are offsets from its start, which is a multiple of 256. The 16 bytes after the last used byte
// are readable. Compressed bytes may also be in the memory for kept values, with the same alignment and margin.
#pragma once
#include "device.cuh"

// Number of elements in a Blosc2 block. The table of byte planes is divided into blocks of this size for every codec.
#define CUBE_BLOCK 65536u
// Flag in the highest bit of a place. If it is set, the place is in the memory for kept values instead of the slot.
#define PLACE_KEPT ((u64)1 << 63)
// Number of pixels in a tile, one per lane.
#define CUBE_PIXELS 32u
// Number of pixels in a tile with four pixels per lane.
#define QUAD_PIXELS 128u
// Number of threads per block of cube_pieces.
#define CUBE_PIECE_THREADS 1024u

// Element types by their codes on disk. BF16 has no code.
enum Type { BOOL = 1, U8, I8, U16, I16, U32, I32, U64, I64, F16, F32, F64, BF16 };
enum Transform { AS_STORED, FROM_F16, FROM_INTEGER, FROM_FIXED };
// Conversion of elements: a copy of the bits, float16 to float32, any conversion, or float16 to any float with
// optional factors. cube_quads has special code for the last mode.
enum Mode { MODE_COPY, MODE_WIDEN, MODE_ANY, MODE_FLOAT };
// Fault of a cube, in the upper 4 bits of its status word. The lower bits hold the number of the stream.
enum Fault { FAULT_LZ4 = 1, FAULT_FIXED, FAULT_BOOL, FAULT_ZSTD };

// Order in which elements are stored and read. WALK_PIXELS: the bands of a pixel are contiguous. WALK_BANDS: the
// pixels of a band are contiguous. WALK_QUADS: four pixels are read at a time, from two-byte elements that are
// contiguous in every block.
enum Walk { WALK_PIXELS, WALK_BANDS, WALK_QUADS };

// Kinds of no-data values: none, a bit pattern, both zeros of a float, or all NaNs.
enum Fill { FILL_NOTHING, FILL_BITS, FILL_ZEROS, FILL_NANS };

// Values that receive noise: none, all, or all but one value.
enum Noise { NOISE_NOTHING, NOISE_ALL, NOISE_BUT };
#define NOISE_THREADS 256u

// Source of an output pixel: the pixel in the same position, the nearest pixel after an affine map, the mean of four
// pixels, or, with a view, the pixel of the region that a table names, if any. For the box of a volume that is moved
// across planes: the nearest voxel, or the mean of eight.
enum Affine { AFFINE_NOTHING, AFFINE_NEAREST, AFFINE_MEAN, AFFINE_VIEW, AFFINE_VOLUME_NEAREST, AFFINE_VOLUME_MEAN };

enum Stored { STREAM_LZ4, STREAM_STORED, STREAM_RUN, STREAM_ZSTD };

// A stream to decode, or to copy next to the other streams of its block.
struct CubeStream {
    // Place of the stream's bytes. For a run, the repeated byte itself.
    u64 from;
    u64 to;
    u32 bytes, out_bytes;
    // Index of the status word, and number of the stream in its payload.
    u32 row, number;
    u32 kind;
    u32 unused;
};

// Byte `j` of every element of a block, still filtered. The kernel writes `count` bytes.
struct CubePiece {
    u64 from, to;
    // For bit planes: place of byte `j` of the first leftover element, and the distance to the next one. The leftover
    // elements are the last ones of the block, too few for a whole byte of bits.
    u64 rest;
    u32 step;
    u32 count;
    // 0 for bit planes, 1 for byte differences.
    u32 delta;
    u32 unused;
};

// Byte `j` of element `i` of a block is at `at + i * step`. If `step` is 0, `at` is also the value of the byte,
// because the slot begins with a table of all 256 byte values.
struct CubePlane {
    u64 at;
    u32 step, unused;
};

// A requested band, and its index in the output.
struct CubePick {
    u32 band, place;
};

// A cube `[rows, columns, bands]`, its requested part, and its conversion.
struct Cube {
    // Offsets of tables in the slot. `planes` is CubePlane[blocks][width]. The others exist only if `picked`: `picks`
    // is CubePick[picks] in band order, and `chunk_picks` holds the index of the first pick in each chunk of bands
    // from `first_chunk` on, followed by the number of picks.
    u64 planes, picks, chunk_picks;
    // For fixed point: where the scales of all bands begin in the slot. The biases of all bands follow them.
    u64 tables;
    // For normalisation: offset in the slot of the (scale, bias) pairs of the output bands.
    u64 factors;
    u64 out;
    // Values of the reserved codes, as bits of the decoded type.
    u64 special[4];
    // The no-data value, as bits of the decoded type.
    u64 no_data;
    // For an affine map: output pixel (x, y) shows source pixel (map[0] x + map[1] y + map[2], map[3] x + map[4] y +
    // map[5]), both relative to the centre. `outside` is the value of output pixels whose source is outside the array,
    // as bits of the output type, or of a float32 for means.
    Array<double, 6> map;
    u64 outside;
    // Exponent of the gamma, or 0 for no gamma.
    double gamma;
    // For a view, or a map across planes: offset of its table in the slot. `outside` of a view is the value of its
    // border.
    u64 view;
    u32 codes[4];
    // Bit n is set if codes[n] is reserved.
    u32 has_codes;
    // Size of a stored element in bytes.
    u32 width;
    u32 stored, decoded, output, transform, mode;
    // `walk` is a Walk. `difference` is 1 if stored elements are differences along the bands. `out_by_band` is 1 if
    // the bands are the first axis of the output.
    u32 walk, difference, out_by_band;
    // Size of the whole array: columns per row, pixels, bands, and bands in the tables.
    u32 columns, pixels, bands, table_bands;
    // The region: first pixel, rows, columns, and number of bands.
    u32 first_pixel, region_rows, region_columns, picks_count;
    // Output index of the first element, and the steps in the output to the next row, column and band, modulo 2^32.
    // Flipped axes have negative steps.
    u32 origin, step_row, step_column, step_band;
    // Number of factor pairs: 0, 1 for all bands, or a larger number, through which the bands cycle.
    u32 factor_bands;
    // If `picked`, the table of picks lists the requested bands. Otherwise, they are `picks_count` bands from
    // `first_band` on.
    u32 picked, first_band;
    // First chunk of bands to read, number of chunks, and number of chunks per warp.
    u32 first_chunk, chunks, chunks_each;
    // Largest valid fixed-point element.
    u32 top;
    u32 row;
    // Values to replace (a Fill), and the replacement as float32 bits.
    u32 fill, fill_with;
    // Values that receive noise (a Noise). `noise_scale` is the factor of the deviates, and `noise_keep` the value
    // that receives no noise, both as float32 bits. `noise_key` and `noise_sample` determine the draws.
    u32 noise, noise_scale, noise_keep;
    u32 noise_key[2], noise_sample[2];
    // `affine` is an Affine. `flat` is 1 if the pixels of a two-axis array are moved. Its columns count as bands.
    u32 affine, flat;
    // Rows and columns of the view, and number of maps that move its pixels.
    u32 view_rows, view_columns, view_moves;
    // True if cube_means processes the cube instead of cube_affine.
    u32 means;
    // For a box of a volume with channels: rows per plane, pixels to skip between two planes, and the extra step in
    // the output from one plane to the next. Otherwise, all rows belong to one plane. If `boxed`, all planes of a box
    // are moved in the same way.
    u32 plane_rows, plane_gap, step_plane;
    u32 boxed;
    // True if the gamma leaves values equal to `noise_keep` unchanged.
    u32 keeps;
};

FN void cube_fault(Ptr<u32> status, u32 row, u32 fault, u32 number) {
    atomicMax(status + row, fault << 28 | (number & 0x0FFFFFFFu));
}

// Product and sum are rounded separately, so the compiler must not fuse them.
FN float rounded_product(float a, float b) {
#ifdef PLAY
    return a * b;
#else
    return __fmul_rn(a, b);
#endif
}

FN float rounded_sum(float a, float b) {
#ifdef PLAY
    return a + b;
#else
    return __fadd_rn(a, b);
#endif
}

FN bool is_nan32(u32 bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u; }

// Like CPUs, and unlike the device's own instructions, these conversions make a NaN quiet and keep its sign and the
// upper bits of its payload.
FN u32 f32_of_f16(u32 h) {
    if ((h & 0x7FFFu) > 0x7C00u) return (h & 0x8000u) << 16 | 0x7FC00000u | (h & 0x3FFu) << 13;
    return float_bits(f16_value((u16)h));
}

FN u32 f16_of_f32(u32 x) {
    if (is_nan32(x)) return (x >> 16 & 0x8000u) | 0x7E00u | (x >> 13 & 0x3FFu);
    return f16_bits(bits_float(x));
}

FN u64 f64_of_f32(u32 x) {
    if (is_nan32(x)) return (u64)(x & 0x80000000u) << 32 | 0x7FF8000000000000ull | (u64)(x & 0x7FFFFFu) << 29;
    return double_bits((double)bits_float(x));
}

FN u32 f32_of_f64(u64 x) {
    if ((x & 0x7FFFFFFFFFFFFFFFull) > 0x7FF0000000000000ull)
        return ((u32)(x >> 32) & 0x80000000u) | 0x7FC00000u | ((u32)(x >> 29) & 0x3FFFFFu);
    return float_bits((float)bits_double(x));
}

// Sign-extends the integer of type `type` in the low bits of `bits` to 64 bits.
FN i64 signed_of(u64 bits, u32 type) {
    switch (type) {
        case I8: return (i8)bits;
        case U8: return (u8)bits;
        case I16: return (i16)bits;
        case U16: return (u16)bits;
        case I32: return (i32)bits;
        case U32: return (u32)bits;
        default: return (i64)bits;
    }
}

FN u32 f32_of_integer(u64 bits, u32 type) {
    if (type == U64) return float_bits((float)bits);
    return float_bits((float)signed_of(bits, type));
}

FN u64 f64_of_integer(u64 bits, u32 type) {
    if (type == U64) return double_bits((double)bits);
    return double_bits((double)signed_of(bits, type));
}

// Converts stored element `q` to bits of the decoded type.
FN u64 cube_decoded(const Cube& c, Ptr<const u8> slot, Ptr<u32> status, u64 q, u32 band) {
    for (u32 n = 0; n < 4; n++)
        if (c.has_codes >> n & 1 && (u32)q == c.codes[n]) return c.special[n];
    if (c.stored == BOOL && q > 1) cube_fault(status, c.row, FAULT_BOOL, 0);
    switch (c.transform) {
        case FROM_F16:
            if (c.decoded == F16) return q;
            if (c.decoded == F32) return f32_of_f16((u32)q);
            return f64_of_f32(f32_of_f16((u32)q));
        case FROM_INTEGER: {
            u32 type = c.stored == BOOL ? (u32)U8 : c.stored;
            if (c.decoded == F16) return f16_of_f32(f32_of_integer(q, type));
            if (c.decoded == F32) return f32_of_integer(q, type);
            if (c.decoded == F64) return f64_of_integer(q, type);
            return (u64)signed_of(q, type);
        }
        case FROM_FIXED: {
            Ptr<const u32> tables = cast<const u32>(slot + c.tables);
            u32 n = c.table_bands == c.bands ? band : band % c.table_bands;
            float x = rounded_product((float)(u32)q, bits_float(tables[n]));
            u32 bits = float_bits(rounded_sum(bits_float(tables[c.table_bands + n]), x));
            return c.decoded == F64 ? f64_of_f32(bits) : (u64)bits;
        }
        default:
            if (c.stored == F32 && c.decoded == F64) return f64_of_f32((u32)q);
            return q;
    }
}

// True if `q` is in the fixed-point range, which also contains the reserved codes.
FN bool cube_fits(const Cube& c, u64 q) { return c.transform != FROM_FIXED || (u32)q <= c.top; }

// CPUs produce different NaNs from a product and a sum. Here, a NaN becomes quiet and is otherwise unchanged. With a
// scale of 0, every value becomes the bias.
FN u32 normalised(u32 x, u32 scale, u32 bias) {
    if (bits_float(scale) == 0.0f) return bias;
    if (is_nan32(x)) return x | 0x400000u;
    return float_bits(__fmaf_rn(bits_float(x), bits_float(scale), bits_float(bias)));
}

FN bool is_no_data(const Cube& c, u64 value) {
    const u32 width = c.decoded == F64 || c.decoded == U64 || c.decoded == I64 ? 64
                      : c.decoded == F32 || c.decoded == U32 || c.decoded == I32 ? 32
                      : c.decoded == U8 || c.decoded == I8 ? 8 : 16;
    const u64 bits = value << (64 - width);
    switch (c.fill) {
        case FILL_BITS: return bits == c.no_data << (64 - width);
        case FILL_ZEROS: return bits << 1 == 0;
        case FILL_NANS: {
            const u64 exponent = c.decoded == F64 ? 0x7FF0000000000000ull
                                 : c.decoded == F32 ? 0x7F80000000000000ull : 0x7C00000000000000ull;
            return (bits & 0x7FFFFFFFFFFFFFFFull) > exponent;
        }
        default: return false;
    }
}

FN u32 float_output(u32 x, u32 type) {
    switch (type) {
        case F16: return f16_of_f32(x);
        case BF16: return bf16_bits(bits_float(x));
        default: return x;
    }
}

// Converts bits of the decoded type to a float32, with normalisation.
FN u32 cube_single(const Cube& c, Ptr<const u8> slot, u64 value, u32 place) {
    u32 x;
    switch (c.decoded) {
        case F16: x = f32_of_f16((u32)value); break;
        case F32: x = (u32)value; break;
        case F64: x = f32_of_f64(value); break;
        default: x = f32_of_integer(value, c.decoded);
    }
    if (c.factor_bands == 0) return x;
    const Ptr<const u32> factors = cast<const u32>(slot + c.factors) + 2 * (u64)(place % c.factor_bands);
    return normalised(x, factors[0], factors[1]);
}

// Converts bits of the decoded type to the output type, either unchanged or through float32 with normalisation.
// No-data values become their replacement. `place` is the band's index in the output.
FN u64 cube_output(const Cube& c, Ptr<const u8> slot, u64 value, u32 place) {
    if (c.output == c.decoded && c.factor_bands == 0 && c.fill == FILL_NOTHING) return value;
    if (c.fill != FILL_NOTHING && is_no_data(c, value)) return float_output(c.fill_with, c.output);
    return float_output(cube_single(c, slot, value, place), c.output);
}

// Functions marked CALLED are not inlined. This saves a tenth of the code, which the driver compiles at start.
#ifdef PLAY
#define CALLED static
#else
#define CALLED static __device__ __noinline__
#endif

// Converts stored element `q` to bits of the output type.
CALLED u64 cube_value(const Cube& c, Ptr<const u8> slot, Ptr<u32> status, u64 q, CubePick pick) {
    if (!cube_fits(c, q)) cube_fault(status, c.row, FAULT_FIXED, 0);
    return cube_output(c, slot, cube_decoded(c, slot, status, q, pick.band), pick.place);
}

// Writes bits of the output type to index `n` of the output.
FN void cube_store(const Cube& c, Ptr<u8> out, u64 value, u32 n) {
    switch (c.output) {
        case BOOL:
        case U8:
        case I8: out[n] = (u8)value; break;
        case U16:
        case I16:
        case F16:
        case BF16: cast<u16>(out)[n] = (u16)value; break;
        case U32:
        case I32:
        case F32: cast<u32>(out)[n] = (u32)value; break;
        default: cast<u64>(out)[n] = value;
    }
}

// Writes the value of stored element `q` to index `n` of the output.
FN void cube_put(const Cube& c, Ptr<const u8> slot, Ptr<u8> out, Ptr<u32> status, u64 q, CubePick pick, u32 n) {
    u64 value = q;
    if (c.mode == MODE_WIDEN) value = f32_of_f16((u32)q);
    if (c.mode >= MODE_ANY) value = cube_value(c, slot, status, q, pick);
    cube_store(c, out, value, n);
}
