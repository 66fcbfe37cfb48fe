// Decodes entropy-coded segments of baseline JPEGs to resized and turned pixels.
//
// The kernels run in this order: picture_tables and picture_weights build tables, picture_bytes removes the stuffing,
// picture_blocks decodes, and picture_pixels or picture_cubic and picture_borders write the output, or the levels
// that picture_changes needs. A damaged segment makes the content of its picture unspecified. The row is then
// flagged, no other row changes, and no access leaves the buffers.
#include "changes.cuh"
#include "entropy.cuh"
#include "idct.cuh"
#include "pixels.cuh"

#define LEVELS_THREADS 256

// A picture that the host has decoded.
struct Levels {
    u64 out;     // Index of its first element in the output.
    u32 levels;  // Its levels, in the order of the output.
    u32 count;
    u32 plane;   // Number of pixels in a channel if the channels are separate planes, else 0.
    u32 unused;
};

struct ConfigParams {
    Ptr<u32> out;
};

// Reports struct sizes and constants, which the host compares with its own.
KERNEL(pictures_config, ConfigParams, 32) {
    if (threadIdx.x) return;
    p.out[0] = sizeof(Picture);
    p.out[1] = sizeof(Segment);
    p.out[2] = sizeof(Group);
    p.out[3] = sizeof(Tile);
    p.out[4] = sizeof(Codes);
    p.out[5] = sizeof(Huffman);
    p.out[6] = sizeof(Span);
    p.out[7] = TILE_PIXELS;
    p.out[8] = TILE_BETWEEN;
    p.out[9] = BYTES_THREADS;
    p.out[10] = DECODE_THREADS;
    p.out[11] = PIXEL_THREADS;
    p.out[12] = LOOKUP_BITS;
    p.out[13] = sizeof(Change);
    p.out[14] = sizeof(Changed);
    p.out[15] = CHANGE_THREADS;
    p.out[16] = sizeof(Levels);
    p.out[17] = LEVELS_THREADS;
    p.out[18] = sizeof(Edges);
    p.out[19] = sizeof(Border);
    p.out[20] = BORDER_THREADS;
    p.out[21] = sizeof(WarpBlocks);
}

struct TablesParams {
    Ptr<const u8> upload;
    Ptr<const Codes> codes;
    Ptr<Huffman> tables;
    Ptr<u32> status;
    u32 count;
    u32 pictures;
};

struct TablesShared {
    Array<u32, 17> ends;
    Array<i32, 17> offsets;
};

// Builds one Huffman table per block from codes that the host has checked. Also clears the status of all rows.
KERNEL(picture_tables, TablesParams, 128) {
    SHARED(TablesShared, s);
    for (u32 row = blockIdx.x * blockDim.x + threadIdx.x; row < p.pictures; row += gridDim.x * blockDim.x) p.status[row] = 0;
    Codes codes = p.codes[blockIdx.x];
    Ptr<const u8> counts = p.upload + codes.offset;
    Ptr<const u8> symbols = counts + 16;
    if (threadIdx.x == 0) {
        u32 code = 0, place = 0;
        s.ends[0] = 0;
        s.offsets[0] = 0;
        for (u32 length = 1; length <= 16; length++) {
            s.offsets[length] = (i32)place - (i32)code;
            place += counts[length - 1];
            code += counts[length - 1];
            s.ends[length] = code << (16 - length);
            code <<= 1;
        }
    }
    __syncthreads();
    Huffman& table = p.tables[blockIdx.x];
    if (threadIdx.x < 17) {
        table.ends[threadIdx.x] = s.ends[threadIdx.x];
        table.offsets[threadIdx.x] = s.offsets[threadIdx.x];
    }
    for (u32 n = threadIdx.x; n < 256; n += blockDim.x) table.symbols[n] = n < codes.symbols ? symbols[n] : 0;
    for (u32 bits = threadIdx.x; bits < 1 << LOOKUP_BITS; bits += blockDim.x) {
        u32 entry = 0, next = bits << (16 - LOOKUP_BITS);
        for (u32 length = 1; length <= LOOKUP_BITS; length++) {
            if (next < s.ends[length]) {
                u32 place = (next >> (16 - length)) + (u32)s.offsets[length];
                entry = entry_of(length, place < codes.symbols ? symbols[place] : 0);
                break;
            }
        }
        table.lookup[bits] = (u16)entry;
    }
}

struct WeightsParams {
    Ptr<const Picture> pictures;
    Ptr<Span> spans;
    Ptr<i16> weights;
    Ptr<u32> precisions;
};

struct WeightsShared {
    u64 largest;
};

// A triangle or cubic filter with the weights of fast_image_resize, computed in double precision with every operation
// rounded separately.
struct Filter {
    double scale, radius, narrow, in;
    double start;
    bool is_cubic;
};

FN Filter filter_of(const Axis& axis) {
    Filter f;
    f.is_cubic = axis.filter == CUBIC;
    f.scale = (axis.end - axis.start) / (double)axis.out;
    double widened = max(f.scale, 1.0);
    f.radius = f.is_cubic ? 2.0 * widened : widened;
    f.narrow = 1.0 / widened;
    f.in = (double)axis.in;
    f.start = axis.start;
    return f;
}

FN double weight_of(const Filter& f, u32 x, double centre) {
    double d = fabs(((double)x - centre) * f.narrow);
    if (!f.is_cubic) return d < 1.0 ? 1.0 - d : 0.0;
    if (d < 1.0) return (1.5 * d - 2.5) * d * d + 1.0;
    return d < 2.0 ? (((d - 5.0) * d + 8.0) * d - 4.0) * -0.5 : 0.0;
}

// Returns the source pixels of the n-th output pixel. A triangle filter drops pixels of weight zero at its ends. A
// cubic filter keeps them, so that the first pixels of successive output pixels ascend. Also computes the sum of the
// weights and the largest weight.
FN Span span_of(const Filter& f, u32 n, double& centre, double& sum, double& largest) {
    double in_centre = f.start + ((double)n + 0.5) * f.scale;
    u32 first = (u32)max(floor(in_centre - f.radius), 0.0);
    u32 last = (u32)min(ceil(in_centre + f.radius), f.in);
    centre = in_centre - 0.5;
    sum = 0.0;
    largest = 0.0;
    u32 begin = first, end = first;
    for (u32 x = first; x < last; x++) {
        double w = weight_of(f, x, centre);
        if (w == 0.0 && !f.is_cubic) {
            if (x == begin) begin = end = x + 1;
            continue;
        }
        end = x + 1;
        sum = sum + w;
        largest = max(largest, w);
    }
    Span span;
    span.start = begin;
    span.size = end - begin;
    return span;
}

// `nearest_of` returns the pixel that contains the centre of the n-th output pixel. A centre within TIE of the border
// between two pixels counts as on the border.
#define TIE 1e-7

FN u32 nearest_of(const Axis& axis, u32 n) {
    bool is_mirrored = axis.filter == NEAREST_MIRRORED;
    double start = is_mirrored ? (double)axis.in - axis.end : axis.start;
    double step = (axis.end - axis.start) / (double)axis.out;
    u32 place = is_mirrored ? axis.out - 1 - n : n;
    u32 at = min((u32)max(start + ((double)place + 0.5) * step + TIE, 0.0), axis.in - 1);
    return is_mirrored ? axis.in - 1 - at : at;
}

// Computes the weights of a picture's two axes, one axis per block.
KERNEL(picture_weights, WeightsParams, 128) {
    SHARED(WeightsShared, s);
    const Picture& pic = p.pictures[blockIdx.x / 2];
    const Axis& axis = blockIdx.x % 2 ? pic.y : pic.x;
    if (axis.filter == COPY || axis.filter >= NEAREST) {
        // A single pixel has a weight of 1.
        for (u32 n = threadIdx.x; n < axis.out; n += blockDim.x) {
            Span span;
            span.start = axis.filter == COPY ? (u32)axis.start + n : nearest_of(axis, n);
            span.size = 1;
            p.spans[axis.spans + n] = span;
            p.weights[axis.weights + n * axis.taps] = 1 << 14;
            p.weights[axis.weights + n * axis.taps + 1] = 0;
        }
        if (threadIdx.x == 0) p.precisions[blockIdx.x] = 14;
        return;
    }
    Filter f = filter_of(axis);
    if (threadIdx.x == 0) s.largest = 0;
    __syncthreads();
    double most = 0.0, centre, sum, largest;
    for (u32 n = threadIdx.x; n < axis.out; n += blockDim.x) {
        span_of(f, n, centre, sum, largest);
        if (sum != 0.0) largest = largest / sum;
        most = max(most, largest);
    }
    // Non-negative doubles sort in the same order as their bits.
    atomicMax(&s.largest, double_bits(most));
    __syncthreads();
    most = bits_double(s.largest);
    // Choose the number of fraction bits so that the largest weight fits in 15 bits.
    u32 precision = 0;
    for (u32 bits = 0; bits < 22; bits++) {
        precision = bits;
        if (round(most * (double)(1u << (bits + 1))) >= 32768.0) break;
    }
    double unit = (double)(1u << precision);
    for (u32 n = threadIdx.x; n < axis.out; n += blockDim.x) {
        Span span = span_of(f, n, centre, sum, largest);
        span.size = min(span.size, axis.taps);
        p.spans[axis.spans + n] = span;
        for (u32 k = 0; k < span.size; k++) {
            double w = weight_of(f, span.start + k, centre);
            if (sum != 0.0) w = w / sum;
            p.weights[axis.weights + n * axis.taps + k] = (i16)round(w * unit);
        }
        if (span.size & 1) p.weights[axis.weights + n * axis.taps + span.size] = 0;
    }
    if (threadIdx.x == 0) p.precisions[blockIdx.x] = precision;
}

struct BytesParams {
    Ptr<const uint4> upload;
    Ptr<const Segment> segments;
    Ptr<u32> words;
    Ptr<u32> lengths;
    u32 count;
};

// Number of bytes that a warp reads at a time.
#define BYTES_LINE 512u

struct BytesShared {
    // The newest bytes of each warp's segment. The first byte is the highest in each word.
    Array<u32, BYTES_LINE / 4 + 1> words[BYTES_THREADS / 32];
};

// Returns a mask of the FF bytes in a word, whose first byte is the lowest.
FN u32 full_bytes(u32 word) {
    u32 inverse = ~word;
    u32 marks = ~(((inverse & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | inverse | 0x7F7F7F7Fu);
    return (marks >> 7) * 0x10204080u >> 28;
}

// Removes the stuffing (the 00 after each FF) from one segment per warp. Writes words with the first byte highest,
// followed by one to four words of zeros, up to a multiple of four. Each lane handles sixteen bytes. Their destination
// depends on the lanes before it.
KERNEL(picture_bytes, BytesParams, BYTES_THREADS) {
    SHARED(BytesShared, s);
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 n = blockIdx.x * (BYTES_THREADS / 32) + warp;
    if (n >= p.count) return;
    Segment segment = p.segments[n];
    if (segment.number == END) return;
    i32 bytes = bytes_of(segment, p.segments[n + 1]);
    Array<u32, BYTES_LINE / 4 + 1>& words = s.words[warp];
    Ptr<u32> to = p.words + first_word(segment, n);
    Ptr<const uint4> quads = p.upload + segment.offset / 16;
    // `at` is the position of this lane's first byte in the segment. The counters hold the number of words written, the
    // number of bytes left over, and 1 if the last byte was FF.
    i32 at = (i32)(lane * 16) - (i32)(segment.offset & 15);
    u32 written = 0, held = 0, last = 0;
    for (i32 line = -(i32)(segment.offset & 15); line < bytes; line += BYTES_LINE, at += BYTES_LINE, quads = quads + BYTES_LINE / 16) {
        uint4 quad = make_uint4(0, 0, 0, 0);
        u32 inside = 0;
        if (at < bytes && at > -16) {
            quad = quads[lane];
            inside = 0xFFFF;
            if (at < 0) inside &= 0xFFFF << -at;
            if (bytes - at < 16) inside &= 0xFFFFu >> (16 - (bytes - at));
        }
        u32 full = (full_bytes(quad.x) | full_bytes(quad.y) << 4 | full_bytes(quad.z) << 8 | full_bytes(quad.w) << 12) & inside;
        u32 before = __shfl_up_sync(0xFFFFFFFFu, full >> 15, 1);
        u32 kept = inside & ~(full << 1 | (lane ? before : last));
        last = __shfl_sync(0xFFFFFFFFu, full >> 15, 31);
        u32 count = (u32)__popc(kept), end = count;
#pragma unroll
        for (u32 delta = 1; delta < 32; delta *= 2) {
            u32 others = __shfl_up_sync(0xFFFFFFFFu, end, delta);
            if (lane >= delta) end += others;
        }
        u32 place = held + end - count;
        u32 four[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
        for (u32 k = 0; k < 16; k++) {
            if (kept >> k & 1) {
                ((u8*)&words)[place ^ 3] = (u8)(four[k / 4] >> k % 4 * 8);
                place++;
            }
        }
        __syncwarp();
        held += __shfl_sync(0xFFFFFFFFu, end, 31);
        for (u32 k = lane; k < held / 4; k += 32) to[written + k] = words[k];
        u32 rest = words[held / 4];
        __syncwarp();
        // Move bytes that do not fill a word to the front.
        if (lane == 0) words[0] = rest;
        __syncwarp();
        written += held / 4;
        held &= 3;
    }
    u32 end = written + (held ? 1 : 0);
    if (lane < 4 - end % 4) to[end + lane] = 0;
    if (lane) return;
    if (held) to[written] = words[0] & ~(0xFFFFFFFFu >> held * 8);
    p.lengths[n] = written * 4 + held;
}

struct BlocksParams {
    Ptr<const Picture> pictures;
    Ptr<const Segment> segments;
    Ptr<const Edges> edges;
    Ptr<const Group> groups;
    Ptr<const Huffman> tables;
    Ptr<const u32> words;
    Ptr<const u32> lengths;
    Ptr<uint4> planes;
    Ptr<u32> status;
    u32 groups_count;
};

struct BlocksShared {
    Array<WarpBlocks, DECODE_THREADS / 32> warps;
};

// Decodes the segments of a group, one per lane. The lanes of the warp decode corresponding blocks together. A segment
// with edges may begin and end within a byte.
FN void decode_group(const BlocksParams& p, WarpBlocks& s, u32 n) {
    // The result of a shuffle stays in its register. The compiler would otherwise compute the lane again at each symbol.
    u32 lane = __shfl_sync(0xFFFFFFFFu, threadIdx.x % 32, threadIdx.x % 32);
    Group group = p.groups[n];
    const Picture& pic = p.pictures[group.picture];
    Array<u16, 2048>& block = s.block;
    Array<u32, 6>& codes = s.codes;
    for (u32 k = lane; k < pic.components * 64; k += 32) s.steps[k / 64][k % 64] = step_of(pic.quantisers[k], k % 64);
    if (lane < 3) {
        codes[lane] = pic.dc[lane];
        codes[3 + lane] = pic.ac[lane];
    }
    if (lane == 0) {
        s.edges = pic.edges == NONE ? NONE : pic.edges + group.first;
        s.across = pic.right - pic.left;
        s.down = pic.bottom - pic.top;
        s.beyond = pic.columns - pic.left;
        s.h = pic.h;
        s.v = pic.v;
        s.luma = pic.h * pic.v;
        s.blocks = pic.components == 1 ? 1 : s.luma + 2;
        s.left = pic.left;
        for (u32 k = 0; k < 3; k++) s.planes[k] = pic.planes[k];
    }
    for (u32 k = 0; k < 3; k++) s.predictions[k * 32 + lane] = 0;
    for (u32 k = 0; k < 32; k++) *(u32*)&block[(k * 32 + lane) * 2] = 0;
    __syncwarp();
    bool has_segment = group.first + lane < pic.segment_count;
    u32 index = pic.segments + group.first + (has_segment ? lane : 0);
    Segment segment = p.segments[index];
    u32 first = first_word(segment, index), bytes = p.lengths[index];
    Bits bits;
    open_bits(bits, s.ring, lane, p.words, first, bytes);
    u32 end = first * 4 + bytes;
    u32 mcu = number_of(segment) * pic.interval;
    u32 left = has_segment ? min(pic.interval, pic.mcus - mcu) : 0;
    // Rows are counted from the top of the kept MCUs, and columns from their left edge.
    u32 columns = pic.columns, row = mcu / columns, column = mcu - row * columns - pic.left;
    row -= pic.top;
    u32 odd = 0;
    if (has_segment && s.edges != NONE) {
        const Edges& edges = p.edges[s.edges + lane];
        bits.used = edges.bit;
        for (u32 k = 0; k < 3; k++) s.predictions[k * 32 + lane] = edges.start[k];
    }
    // Idle lanes run the same loop. Lanes diverge at each symbol and must reconverge before the IDCT, or each would
    // compute it alone.
    while (__any_sync(0xFFFFFFFFu, left)) {
        for (u32 k = 0; k < s.blocks; k++) {
            u32 luma = s.luma, component = k < luma ? 0 : k - luma + 1;
            if (left) {
                read_ahead(bits);
                u32 window = peek(bits), code = next_code(bits, p.tables[codes[component]], window);
                take(bits, length_of(code) + size_of(code));
                i32 value = s.predictions[component * 32 + lane] += value_of(window, code);
                if (!length_of(code)) odd |= ODD_ENTROPY;
                if (value != (i16)value) odd |= ODD_RANGE;
                value = (i32)(i16)value * (i32)(s.steps[component][0] & 255);
                if (out_of_range(value)) odd |= ODD_RANGE;
                block[place_of(0, lane)] = (u16)value;
                odd |= read_ac(bits, p.tables[codes[3 + component]], s.steps[component], block, lane);
                if (odd) left = 0;
            }
            __syncwarp();
            if (left) {
                u32 place, h = s.h, across = s.across;
                bool keep = column < across && row < s.down;
                if (component == 0) {
                    u32 above = h == 2 ? k >> 1 : k, beside = h == 2 ? k & 1 : 0;
                    place = s.planes[0] + (row * s.v + above) * (across * h) + column * h + beside;
                } else {
                    place = s.planes[component] + row * across + column;
                }
                if (idct_block(block, lane, p.planes + (keep ? (u64)place * 4 : 0), keep)) odd |= ODD_RANGE;
            }
        }
        if (odd) left = 0;
        if (left) left--;
        if (++column == s.beyond) {
            column = 0u - s.left;
            row++;
        }
    }
    if (!has_segment) return;
    if (bytes_taken(bits) != end) odd |= ODD_ENTROPY;
    if (s.edges != NONE) {
        const Edges& edges = p.edges[s.edges + lane];
        bool is_last = true;
        for (u32 k = 0; k < 3; k++) is_last = is_last && s.predictions[k * 32 + lane] == edges.end[k];
        bool is_end = edges.unused == ANY || bits_left(bits) == edges.unused;
        if (!is_last || !is_end) odd |= ODD_ENTROPY;
    }
    if (odd) atomicOr(p.status + group.picture, odd);
}

// Decodes the segments of a group per warp.
KERNEL_BESIDE(picture_blocks, BlocksParams, DECODE_THREADS, 5) {
    SHARED(BlocksShared, s);
    u32 warp = threadIdx.x / 32, n = blockIdx.x * (DECODE_THREADS / 32) + warp;
    if (n < p.groups_count) decode_group(p, s.warps[warp], n);
}

struct PixelsParams {
    Ptr<const Picture> pictures;
    Ptr<const Tile> tiles;
    Ptr<const Span> spans;
    Ptr<const i16> weights;
    Ptr<const u32> precisions;
    Ptr<const u8> planes;
    Ptr<u8> out;
    Ptr<u32> status;
    Output output;
};

struct PixelsShared {
    alignas(16) Array<u32, TILE_PIXELS> pixels;
    alignas(16) Array<u32, TILE_BETWEEN> between;
};

template <u32 N> FN uint4& four_of(Array<u32, N>& pixels, u32 at) { return *(uint4*)&pixels[at]; }

// A position in a grid of `width` columns. Each step advances it by PIXEL_THREADS places.
struct Walk {
    u32 x, y, step_x, step_y, width;
};

FN Walk walk_of(u32 width) {
    Walk w;
    w.width = width;
    w.y = threadIdx.x / width;
    w.x = threadIdx.x - w.y * width;
    w.step_y = PIXEL_THREADS / width;
    w.step_x = PIXEL_THREADS - w.step_y * width;
    return w;
}

FN void step(Walk& w) {
    w.x += w.step_x;
    w.y += w.step_y;
    if (w.x >= w.width) {
        w.x -= w.width;
        w.y++;
    }
}

struct Sums {
    u32 red, green, blue;
};

FN Sums sums_of(u32 precision) {
    u32 half = 1u << (precision - 1);
    return Sums{half, half, half};
}

// Adds two pixels, weighted by the lower and the upper half of `weights`, which must not be negative. This takes
// three instructions per pixel instead of six.
FN void add(Sums& sums, u32 one, u32 other, u32 weights) {
    u32 red_green = __byte_perm(one, other, 0x5140), blue = __byte_perm(one, other, 0x6262);
    sums.red = dot_lower(weights, red_green, sums.red);
    sums.green = dot_upper(weights, red_green, sums.green);
    sums.blue = dot_lower(weights, blue, sums.blue);
}

FN u32 rounded(const Sums& sums, u32 precision) {
    return min(sums.red >> precision, 255u) | min(sums.green >> precision, 255u) << 8 | min(sums.blue >> precision, 255u) << 16;
}

// Destination of a pixel: its first element, and the distances to its next channel and to the pixel in the next row.
struct Target {
    u64 to, channel, below;
};

// Writes the first `count` of up to four pixels in a column.
template <u32 DTYPE> FN void write(Ptr<u8> out, const Output& how, const Target& target, const u32* rgb, u32 count) {
    u64 at = target.to;
#pragma unroll
    for (u32 r = 0; r < 4; r++, at += target.below) {
        if (r >= count) break;
        if (DTYPE == PACKED) cast<u32>(out)[at] = rgb[r];
#pragma unroll
        for (u32 c = 0; DTYPE != PACKED && c < 3; c++) put<DTYPE>(out, how, at + c * target.channel, c, rgb[r] >> 8 * c & 255);
    }
}

// A block's tile of the output, and the part of the picture that the tile needs. The part's first and last
// columns are multiples of four, and its rows count from the window.
struct Part {
    u32 left, top, columns, rows;
    u32 x0, y0, width, height;
    Ptr<const Span> across, down;
};

FN Part part_of(const PixelsParams& p, const Tile& tile, const Picture& pic) {
    Part part;
    part.left = (tile.place & 0xFFFF) * pic.tile_width;
    part.top = (tile.place >> 16) * pic.tile_height;
    part.columns = min(pic.tile_width, pic.x.out - part.left);
    part.rows = min(pic.tile_height, pic.y.out - part.top);
    Ptr<const Span> across = part.across = p.spans + pic.x.spans + part.left;
    Ptr<const Span> down = part.down = p.spans + pic.y.spans + part.top;
    part.x0 = (pic.window_x + across[0].start) & ~3u;
    part.width = (pic.window_x + across[part.columns - 1].start + across[part.columns - 1].size - part.x0 + 3) & ~3u;
    part.y0 = down[0].start;
    part.height = down[part.rows - 1].start + down[part.rows - 1].size - part.y0;
    return part;
}

// Loads the part's pixels. Where two rows of pixels lie between two rows of chroma, they are computed together.
FN void load_part(PixelsShared& s, const PixelsParams& p, const Picture& pic, const Part& part) {
    Planes planes = planes_of(p.planes, pic);
    u32 top = pic.window_y + part.y0, width = part.width;
    if (pic.components == 3 && pic.v == 2) {
        u32 first = (top + 1) / 2, pairs = (top + part.height) / 2 - first + 1;
        for (Walk w = walk_of(width / 4); w.y < pairs; step(w)) {
            u32 x = part.x0 + w.x * 4, y = 2 * (first + w.y), at = (y - top) * width + w.x * 4;
            bool has_above = y > top, has_below = y < top + part.height;
            u32 above = has_above ? luma_at(planes, x, y - 1) : 0, below = has_below ? luma_at(planes, x, y) : 0;
            TwoRows chroma = chroma_at(planes, x, first + w.y);
            if (has_above) four_of(s.pixels, at - width) = coloured(above, chroma.above);
            if (has_below) four_of(s.pixels, at) = coloured(below, chroma.below);
        }
        return;
    }
    for (Walk w = walk_of(width / 4); w.y < part.height; step(w)) {
        u32 x = part.x0 + w.x * 4, y = top + w.y;
        four_of(s.pixels, w.y * width + w.x * 4) = pic.components == 1 ? grey_at(planes, x, y) : pixels_at(planes, x, y);
    }
}

// Computes one tile of the output per block: loads every source pixel once, resizes along the columns, and then along
// the rows. As in fast_image_resize, the result between the passes is rounded to 8 bits. Inputs that four pixels
// share are loaded once: the chroma of four neighbours in a row, the weights of a row for four columns, and the
// weights of a column for four rows.
KERNEL(picture_pixels, PixelsParams, PIXEL_THREADS) {
    SHARED(PixelsShared, s);
    Tile tile = p.tiles[blockIdx.x];
    const Picture& pic = p.pictures[tile.picture];
    Part part = part_of(p, tile, pic);
    Ptr<const Span> across = part.across, down = part.down;
    u32 left = part.left, top = part.top, columns = part.columns, rows = part.rows;
    u32 x0 = part.x0, y0 = part.y0, width = part.width, height = part.height;
    if (width > TILE_PIXELS || height > TILE_PIXELS || width * height > TILE_PIXELS || width * rows > TILE_BETWEEN) {
        if (threadIdx.x == 0) atomicOr(p.status + tile.picture, ODD_TILE);
        return;
    }
    load_part(s, p, pic, part);
    __syncthreads();
    u32 precision = p.precisions[tile.picture * 2 + 1];
    for (Walk w = walk_of(width / 4); w.y < rows; step(w)) {
        Span span = down[w.y];
        Ptr<const u32> weights = cast<const u32>(p.weights + (pic.y.weights + (top + w.y) * pic.y.taps));
        u32 at = (span.start - y0) * width + w.x * 4;
        Sums a = sums_of(precision), b = a, c = a, d = a;
        // Begin to read weights before they are needed.
        for (u32 k = 0, pair, next = weights[0]; k < span.size; k += 2, at += 2 * width) {
            pair = next;
            if (k + 2 < span.size) next = weights[k / 2 + 1];
            uint4 one = four_of(s.pixels, at);
            // The number of weights may be odd. The second weight of the last pair is then zero.
            uint4 other = four_of(s.pixels, k + 1 < span.size ? at + width : at);
            add(a, one.x, other.x, pair);
            add(b, one.y, other.y, pair);
            add(c, one.z, other.z, pair);
            add(d, one.w, other.w, pair);
        }
        four_of(s.between, w.y * width + w.x * 4) =
            make_uint4(rounded(a, precision), rounded(b, precision), rounded(c, precision), rounded(d, precision));
    }
    __syncthreads();
    precision = p.precisions[tile.picture * 2];
    // Distances to the pixel on the right and to the pixel below in the turned output.
    u64 beside = pic.turn & TRANSPOSED ? pic.out_width : 1, below = pic.turn & TRANSPOSED ? 1 : pic.out_width;
    u64 channel = p.output.channels_first ? (u64)pic.out_width * pic.out_height * p.output.channels_first : 1;
    u64 pixel = p.output.channels_first || p.output.dtype == PACKED ? 1 : 3;
    for (Walk w = walk_of(columns); w.y * 4 < rows; step(w)) {
        Span span = across[w.x];
        Ptr<const u32> weights = cast<const u32>(p.weights + (pic.x.weights + (left + w.x) * pic.x.taps));
        u32 at = w.y * 4 * width + pic.window_x + span.start - x0;
        // If fewer than four rows are left, repeat the last one.
        u32 lines = min(rows - w.y * 4, 4u), line[4];
        Sums sums[4];
#pragma unroll
        for (u32 r = 0; r < 4; r++) {
            line[r] = at + min(r, lines - 1) * width;
            sums[r] = sums_of(precision);
        }
        for (u32 k = 0, pair, next = weights[0]; k < span.size; k += 2) {
            pair = next;
            if (k + 2 < span.size) next = weights[k / 2 + 1];
            u32 behind = k + 1 < span.size ? k + 1 : k;
#pragma unroll
            for (u32 r = 0; r < 4; r++) add(sums[r], s.between[line[r] + k], s.between[line[r] + behind], pair);
        }
        u32 x = left + w.x, y = top + w.y * 4;
        if (pic.turn & MIRRORED_X) x = pic.x.out - 1 - x;
        if (pic.turn & MIRRORED_Y) y = pic.y.out - 1 - y;
        Target target = {pic.out + (x * beside + y * below) * pixel, channel, pic.turn & MIRRORED_Y ? 0 - below * pixel : below * pixel};
        u32 rgb[4];
#pragma unroll
        for (u32 r = 0; r < 4; r++) rgb[r] = rounded(sums[r], precision);
        if (p.output.dtype == 0) write<0>(p.out, p.output, target, rgb, lines);
        else if (p.output.dtype == 1) write<1>(p.out, p.output, target, rgb, lines);
        else if (p.output.dtype == 2) write<2>(p.out, p.output, target, rgb, lines);
        else if (p.output.dtype == PACKED) write<PACKED>(p.out, p.output, target, rgb, lines);
        else write<3>(p.out, p.output, target, rgb, lines);
    }
}

// Returns the weighted sum of a span's pixels, rounded and clamped. The pixels begin at `at` and are `step` words
// apart. The weights may be negative.
template <u32 N> FN u32 weighted_sum(const Array<u32, N>& pixels, u32 at, u32 step, const Span& span, Ptr<const i16> weights, u32 precision) {
    i32 red = 1 << (precision - 1), green = red, blue = red;
    for (u32 k = 0; k < span.size; k++, at += step) {
        i32 weight = weights[k];
        u32 rgb = pixels[at];
        red += weight * (i32)red_of(rgb);
        green += weight * (i32)green_of(rgb);
        blue += weight * (i32)blue_of(rgb);
    }
    return clamped(red >> precision, green >> precision, blue >> precision, 0);
}

// Computes one tile of the output per block, with a cubic filter along at least one axis. Each picture sets the order
// of the two passes, which matters because the result between them is rounded and clamped.
KERNEL(picture_cubic, PixelsParams, PIXEL_THREADS) {
    SHARED(PixelsShared, s);
    Tile tile = p.tiles[blockIdx.x];
    const Picture& pic = p.pictures[tile.picture];
    Part part = part_of(p, tile, pic);
    u32 columns = part.columns, rows = part.rows, width = part.width, height = part.height;
    bool x_first = pic.turn & X_FIRST;
    u32 wide = x_first ? columns : width, high = x_first ? height : rows;
    if (width > TILE_PIXELS || height > TILE_PIXELS || width * height > TILE_PIXELS || wide * high > TILE_BETWEEN) {
        if (threadIdx.x == 0) atomicOr(p.status + tile.picture, ODD_TILE);
        return;
    }
    load_part(s, p, pic, part);
    __syncthreads();
    Ptr<const i16> x_weights = p.weights + (pic.x.weights + part.left * pic.x.taps);
    Ptr<const i16> y_weights = p.weights + (pic.y.weights + part.top * pic.y.taps);
    u32 x_precision = p.precisions[tile.picture * 2], y_precision = p.precisions[tile.picture * 2 + 1];
    for (Walk w = walk_of(wide); w.y < high; step(w)) {
        Span span = x_first ? part.across[w.x] : part.down[w.y];
        u32 first = x_first ? w.y * width + pic.window_x + span.start - part.x0 : (span.start - part.y0) * width + w.x;
        Ptr<const i16> weights = x_first ? x_weights + w.x * pic.x.taps : y_weights + w.y * pic.y.taps;
        u32 precision = x_first ? x_precision : y_precision;
        s.between[w.y * wide + w.x] = weighted_sum(s.pixels, first, x_first ? 1 : width, span, weights, precision);
    }
    __syncthreads();
    u64 beside = pic.turn & TRANSPOSED ? pic.out_width : 1, below = pic.turn & TRANSPOSED ? 1 : pic.out_width;
    u64 channel = p.output.channels_first ? (u64)pic.out_width * pic.out_height * p.output.channels_first : 1;
    u64 pixel = p.output.channels_first || p.output.dtype == PACKED ? 1 : 3;
    for (Walk w = walk_of(columns); w.y < rows; step(w)) {
        Span span = x_first ? part.down[w.y] : part.across[w.x];
        u32 first = x_first ? (span.start - part.y0) * wide + w.x : w.y * wide + pic.window_x + span.start - part.x0;
        Ptr<const i16> weights = x_first ? y_weights + w.y * pic.y.taps : x_weights + w.x * pic.x.taps;
        u32 precision = x_first ? y_precision : x_precision;
        u32 rgb = weighted_sum(s.between, first, x_first ? wide : 1, span, weights, precision);
        u32 x = part.left + w.x, y = part.top + w.y;
        if (pic.turn & MIRRORED_X) x = pic.x.out - 1 - x;
        if (pic.turn & MIRRORED_Y) y = pic.y.out - 1 - y;
        put_pixel(p.out, p.output, pic.out + (x * beside + y * below) * pixel, channel, rgb);
    }
}

struct BordersParams {
    Ptr<const Border> borders;
    Ptr<u8> out;
    Output output;
};

// Fills the padding of pictures. Each column of blocks handles one picture.
KERNEL(picture_borders, BordersParams, BORDER_THREADS) {
    const Border& border = p.borders[blockIdx.x];
    u32 pixels = border.height * border.width;
    u64 channel = p.output.channels_first ? (u64)pixels * p.output.channels_first : 1;
    u64 pixel = p.output.channels_first || p.output.dtype == PACKED ? 1 : 3;
    for (u32 n = blockIdx.y * blockDim.x + threadIdx.x; n < pixels; n += gridDim.y * blockDim.x) {
        u32 y = n / border.width, x = n - y * border.width;
        bool is_inside = x >= border.left && x < border.right && y >= border.top && y < border.bottom;
        if (!is_inside) put_pixel(p.out, p.output, border.out + n * pixel, channel, border.fill);
    }
}

struct LevelsParams {
    Ptr<const u8> upload;
    Ptr<const Levels> rows;
    Ptr<u8> out;
    Output output;
};

// Converts the levels of host-decoded pictures. Each column of blocks handles one picture.
KERNEL(picture_levels, LevelsParams, LEVELS_THREADS) {
    Levels row = p.rows[blockIdx.x];
    for (u64 n = (u64)blockIdx.y * blockDim.x + threadIdx.x; n < row.count; n += (u64)gridDim.y * blockDim.x) {
        u32 channel = (u32)(row.plane ? n / row.plane : n % 3);
        put_level(p.out, p.output, row.out + n, channel, p.upload[row.levels + n]);
    }
}
