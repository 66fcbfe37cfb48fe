// Cubes: converts Blosc2 chunks, as stored in a shard (format-spec §4 and §5.3), to the values of a batch. Twelve
// kernels run in this order, each for all cubes of a batch:
//
//   cube_frames    decodes zstd frames, one per warp
//   cube_streams   decodes LZ4 streams, one per warp; stored streams and runs are used in place
//   cube_pieces    undoes bit planes and byte differences, one stream per block of threads; byte planes remain
//   cube_values, cube_quads
//                  join bytes to elements, sum differences along the bands, and convert the elements into the output;
//                  cube_quads handles the common case, band-major elements of two bytes, with four pixels per lane
//   cube_affine    does the same for cubes whose pixels are moved: an output pixel is the mean of four pixels, or the
//                  nearest pixel
//   cube_means     does the same for the common case: means of four pixels, two-byte elements and a run of bands
//   cube_view      does the same for masks that follow the view of their picture: an output pixel is a pixel of the
//                  mask, or the border
//   cube_volume    does the same for boxes of volumes that are moved across planes, or have channels at a low resolution
//   cube_extremes, cube_gamma
//                  find the smallest and the largest value of the cubes with a gamma, and then apply the gamma
//   cube_noise     adds noise to the values of the cubes with noise
//
// The host has checked all numbers except those inside LZ4 streams and zstd blocks.
#include "affine.cuh"
#include "cube.cuh"
#include "gamma.cuh"
#include "lz4.cuh"
#include "view.cuh"
#include "volume.cuh"
#include "zstd.cuh"

#define STREAM_WARPS 4u
#define TILE_WARPS 4u
#define AFFINE_WARPS 2u
#define MEANS_WARPS 4u

struct CubeParams {
    Ptr<u8> slot;
    Ptr<const u8> kept;
    Ptr<u8> out;
    // One status word per cube, 0 unless there is a fault.
    Ptr<u32> status;
    // Offset in the slot of CubeStream[], CubePiece[] or Cube[].
    u64 table;
    u32 count;
    // Number of status words. They are followed by two words per cube, the keys of its largest and its smallest
    // value.
    u32 statuses;
};

struct StreamsMemory {
    Array<Lz4Memory, STREAM_WARPS> warps;
};

// Returns a pointer to a place in the slot or, with PLACE_KEPT, among the kept values.
FN Ptr<const u8> place_of(const CubeParams& p, u64 at) {
    return (at & PLACE_KEPT ? p.kept : Ptr<const u8>(p.slot)) + (at & ~PLACE_KEPT);
}

// Returns four bytes at any offset. Reads up to 7 bytes beyond them.
FN u32 word_at(const CubeParams& p, u64 at) {
    const Ptr<const u32> words = cast<const u32>(place_of(p, at & ~(u64)3));
    const u32 shift = (u32)(at & 3) * 8;
    if (shift == 0) return words[0];
    return __funnelshift_r(words[0], words[1], shift);
}

// A block has only one warp, because the warps of a block would all wait for the longest of their frames.
KERNEL(cube_frames, CubeParams, 32) {
    SHARED(ZstdMemory, memory);
    const u32 lane = threadIdx.x;
    const CubeStream s = cast<const CubeStream>(p.slot + p.table)[blockIdx.x];
    const bool sound = zstd_frame(place_of(p, s.from & ~(u64)15), (u32)s.from & 15, s.bytes, p.slot + s.to, (u32)s.to & 3,
                                  s.out_bytes, memory, lane);
    if (!sound && lane == 0) cube_fault(p.status, s.row, FAULT_ZSTD, s.number);
}

KERNEL(cube_streams, CubeParams, STREAM_WARPS * 32) {
    SHARED(StreamsMemory, memory);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = blockIdx.x * STREAM_WARPS + warp;
    if (n >= p.count) return;
    const CubeStream s = cast<const CubeStream>(p.slot + p.table)[n];
    if (s.kind == STREAM_LZ4) {
        const bool sound = lz4_block(place_of(p, s.from & ~(u64)15), (u32)s.from & 15, s.bytes, p.slot + s.to, s.to % 16 == 0,
                                     s.out_bytes, memory.warps[warp], lane);
        if (!sound && lane == 0) cube_fault(p.status, s.row, FAULT_LZ4, s.number);
    } else {
        // Write whole words if the output is aligned.
        const u32 words = s.to % 4 == 0 ? s.out_bytes / 4 : 0, run = (u32)s.from * 0x01010101u;
        const Ptr<u32> to = cast<u32>(p.slot + (s.to & ~(u64)3));
        for (u32 i = lane; i < words; i += 32) to[i] = s.kind == STREAM_RUN ? run : word_at(p, s.from + 4 * (u64)i);
        for (u32 i = 4 * words + lane; i < s.out_bytes; i += 32)
            p.slot[s.to + i] = s.kind == STREAM_RUN ? (u8)run : *place_of(p, s.from + i);
    }
}

// Swaps the masked bits of `b` with the bits of `a` that are `n` positions higher.
#define SWAP_BITS(a, b, n, mask)                  \
    {                                             \
        const u32 t = ((a) >> (n) ^ (b)) & (mask); \
        (b) ^= t;                                 \
        (a) ^= t << (n);                          \
    }

// Turns words of 8 bit planes into the bytes of 32 elements: transposes an 8 × 8 bit matrix for each of the 4
// bytes of a word, then orders the bytes.
FN void turn_bits(Array<u32, 8>& w) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) SWAP_BITS(w[i], w[i + 4], 4, 0x0F0F0F0Fu)
#pragma unroll
    for (u32 i = 0; i < 8; i += 4) {
        SWAP_BITS(w[i], w[i + 2], 2, 0x33333333u)
        SWAP_BITS(w[i + 1], w[i + 3], 2, 0x33333333u)
    }
#pragma unroll
    for (u32 i = 0; i < 8; i += 2) SWAP_BITS(w[i], w[i + 1], 1, 0x55555555u)
    Array<u32, 8> v;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        const u32 a = __byte_perm(w[4 * half], w[4 * half + 1], 0x5140), b = __byte_perm(w[4 * half + 2], w[4 * half + 3], 0x5140);
        const u32 c = __byte_perm(w[4 * half], w[4 * half + 1], 0x7362), d = __byte_perm(w[4 * half + 2], w[4 * half + 3], 0x7362);
        v[half] = __byte_perm(a, b, 0x5410);
        v[2 + half] = __byte_perm(a, b, 0x7632);
        v[4 + half] = __byte_perm(c, d, 0x5410);
        v[6 + half] = __byte_perm(c, d, 0x7632);
    }
#pragma unroll
    for (u32 i = 0; i < 8; i++) w[i] = v[i];
}

// Loads word `n` of each of eight planes, which have `plane` bytes each and begin at `from`. The words are 0 unless
// `asked`. All loads are issued before the first is used, because dependent loads are slow.
FN void plane_words(const CubeParams& p, u64 from, u32 plane, u32 n, bool asked, Array<u32, 8>& words) {
    if (!asked) {
#pragma unroll
        for (u32 k = 0; k < 8; k++) words[k] = 0;
    } else if ((((u32)from | plane) & 3) == 0) {
#pragma unroll
        for (u32 k = 0; k < 8; k++) words[k] = cast<const u32>(place_of(p, from + k * plane))[n];
    } else {
        Array<u32, 8> high;
#pragma unroll
        for (u32 k = 0; k < 8; k++) {
            const Ptr<const u32> at = cast<const u32>(place_of(p, (from + k * plane) & ~(u64)3)) + n;
            words[k] = at[0];
            high[k] = at[1];
        }
#pragma unroll
        for (u32 k = 0; k < 8; k++) words[k] = __funnelshift_r(words[k], high[k], (((u32)from + k * plane) & 3) * 8);
    }
}

struct PiecesMemory {
    Array<u32, 32> sums;
};

// A piece is read completely before it is written, so it can be transposed in place.
KERNEL(cube_pieces, CubeParams, CUBE_PIECE_THREADS) {
    SHARED(PiecesMemory, memory);
    const CubePiece s = cast<const CubePiece>(p.slot + p.table)[blockIdx.x];
    const u32 thread = threadIdx.x, lane = thread % 32;
    if (s.delta == 0) {
        const u32 whole = s.count / 8 * 8, plane = whole / 8;
        // The longest piece takes two rounds of 1024 threads with 32 elements each.
        Array<u32, 8> first, second;
        const u32 at = 32 * thread, then = at + 32 * CUBE_PIECE_THREADS;
        plane_words(p, s.from, plane, at / 32, at < whole, first);
        plane_words(p, s.from, plane, then / 32, then < whole, second);
        u8 odd = 0;
        if (thread < s.count - whole) odd = *place_of(p, s.rest + thread * s.step);
        __syncthreads();
        turn_bits(first);
        turn_bits(second);
        const Ptr<u8> to = p.slot + s.to;
        const bool aligned = (s.to & 15) == 0;
#pragma unroll
        for (u32 turn = 0; turn < 2; turn++) {
            const u32 from = turn == 0 ? at : then;
            Array<u32, 8>& w = turn == 0 ? first : second;
            if (aligned && from + 32 <= whole) {
                const Ptr<uint4> place = cast<uint4>(to + from);
                place[0] = make_uint4(w[0], w[1], w[2], w[3]);
                place[1] = make_uint4(w[4], w[5], w[6], w[7]);
            } else {
#pragma unroll
                for (u32 i = 0; i < 32; i++)
                    if (from + i < whole) to[from + i] = (u8)(w[i / 4] >> i % 4 * 8);
            }
        }
        if (thread < s.count - whole) to[whole + thread] = odd;
        return;
    }
    // Running sums of up to 65,536 bytes: each thread sums 64 bytes, then adds the sums of all earlier threads.
    Array<u32, 16> w;
    u32 sum = 0;
#pragma unroll
    for (u32 k = 0; k < 16; k++) {
        const u32 at = 64 * thread + 4 * k;
        w[k] = at < s.count ? word_at(p, s.from + at) : 0;
        u32 out = 0;
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            sum += w[k] >> 8 * i & 0xFF;
            out |= (sum & 0xFF) << 8 * i;
        }
        w[k] = out;
    }
    u32 before = sum;
    for (u32 n = 1; n < 32; n *= 2) {
        const u32 other = __shfl_up_sync(0xFFFFFFFFu, before, n);
        if (lane >= n) before += other;
    }
    if (lane == 31) memory.sums[thread / 32] = before;
    __syncthreads();
    before -= sum;
    for (u32 n = 0; n < thread / 32; n++) before += memory.sums[n];
    const u32 bytes = (before & 0xFF) * 0x01010101u;
#pragma unroll
    for (u32 k = 0; k < 16; k++) {
        // Add four bytes in one word, without carries between them.
        const u32 x = ((w[k] & 0x7F7F7F7Fu) + (bytes & 0x7F7F7F7Fu)) ^ ((w[k] ^ bytes) & 0x80808080u);
        const u32 at = 64 * thread + 4 * k;
        if (s.to % 4 == 0 && at + 4 <= s.count) {
            *cast<u32>(p.slot + s.to + at) = x;
        } else {
            for (u32 i = at; i < min(at + 4, s.count); i++) p.slot[s.to + i] = (u8)(x >> 8 * (i - at));
        }
    }
}

// Number of words in a tile. Elements of up to 4 bytes take one word each, in rows of 33 words, so that the lanes of a
// column use different banks. Elements of 8 bytes halve the number of bands, and the second half of the tile holds
// their upper words.
#define TILE_WORDS 1088u

struct TilesMemory {
    Array<Array<u32, TILE_WORDS>, TILE_WARPS> tiles;
};

template <u32 WIDTH> struct Element {
    typedef u32 T;
    static const u32 BANDS = 32;
};

template <> struct Element<8> {
    typedef u64 T;
    static const u32 BANDS = 16;
};

template <u32 WIDTH> FN void tile_set(Array<u32, TILE_WORDS>& tile, u32 pixel, u32 band, typename Element<WIDTH>::T q) {
    const u32 n = pixel * (Element<WIDTH>::BANDS + 1) + band;
    tile[n] = (u32)q;
    if (WIDTH == 8) tile[TILE_WORDS / 2 + n] = (u32)((u64)q >> 32);
}

template <u32 WIDTH> FN u64 tile_at(const Array<u32, TILE_WORDS>& tile, u32 pixel, u32 band) {
    const u32 n = pixel * (Element<WIDTH>::BANDS + 1) + band;
    return WIDTH == 8 ? (u64)tile[TILE_WORDS / 2 + n] << 32 | tile[n] : (u64)tile[n];
}

template <u32 WIDTH> FN typename Element<WIDTH>::T element_at(const CubeParams& p, Ptr<const uint4> planes, u32 e) {
    typename Element<WIDTH>::T q = 0;
    const u32 block = e / CUBE_BLOCK, i = e % CUBE_BLOCK;
#pragma unroll
    for (u32 j = 0; j < WIDTH; j++) {
        const uint4 plane = planes[block * WIDTH + j];
        const u64 at = (u64)plane.y << 32 | plane.x;
        q |= (typename Element<WIDTH>::T)*place_of(p, at + (u64)i * plane.z) << 8 * j;
    }
    return q;
}

// Decodes a zigzag-coded difference. The result is exact modulo 2^8 and 2^16.
FN u32 unzigzag(u32 z) { return z >> 1 ^ (0 - (z & 1)); }

template <u32 WIDTH> FN u32 mask_of() { return WIDTH == 1 ? 0xFFu : 0xFFFFu; }

// Returns the index in the whole array of pixel `n` of the region.
FN u32 pixel_of(const Cube& c, u32 n) {
    if (c.region_columns == c.columns && c.plane_gap == 0) return c.first_pixel + n;
    const u32 y = n / c.region_columns;
    return c.first_pixel + y * c.columns + n % c.region_columns + y / c.plane_rows * c.plane_gap;
}

// Returns the output index of the first element of pixel `n` of the region.
FN u32 start_of(const Cube& c, u32 n) {
    const u32 y = n / c.region_columns, x = n - y * c.region_columns;
    const u32 start = c.origin + y * c.step_row + x * c.step_column;
    return c.step_plane == 0 ? start : start + y / c.plane_rows * c.step_plane;
}

// Returns the range of requested bands in a chunk. If bands are listed, returns the range of their picks.
template <u32 WIDTH> FN uint2 chunk_range(const CubeParams& p, const Cube& c, u32 chunk) {
    if (c.picked) {
        const Ptr<const u32> starts = cast<const u32>(p.slot + c.chunk_picks) + (chunk - c.first_chunk);
        return make_uint2(starts[0], starts[1]);
    }
    const u32 base = chunk * Element<WIDTH>::BANDS;
    return make_uint2(max(base, c.first_band), min(base + Element<WIDTH>::BANDS, c.first_band + c.picks_count));
}

// Writes the values of a chunk of bands, for a tile of pixels.
template <u32 WIDTH>
FN void tile_out(const CubeParams& p, const Cube& c, const Array<u32, TILE_WORDS>& tile, u32 first, u32 count, u32 chunk,
                 u32 lane) {
    const Ptr<const CubePick> picks = cast<const CubePick>(p.slot + c.picks);
    const Ptr<u8> out = p.out + c.out;
    const u32 base = chunk * Element<WIDTH>::BANDS;
    const uint2 range = chunk_range<WIDTH>(p, c, chunk);
    const u32 from = range.x, to = range.y;
    if (from >= to) return;
    // Lanes follow the contiguous axis of the output: pixels of one band, or bands of one pixel. Flips and transposes
    // change only the store addresses, because a transposed load would use one byte of 32 in a sector of each plane.
    // Stores of a pixel's bands stay contiguous, and stores of a flipped row are contiguous backwards. Only a
    // transposed plane scatters stores of two or four bytes, one row apart. The tiles of the rows below run at the
    // same time and fill these sectors while they are in the L2 cache.
    const u32 mine = start_of(c, first + min(lane, count - 1));
    const u32 turns = c.out_by_band ? to - from : (to - from + 31) / 32 * count;
    u32 n = c.out_by_band ? from : from + lane, pixel = c.out_by_band ? lane : 0;
    for (u32 turn = 0; turn < turns; turn++) {
        const u32 start = c.out_by_band ? mine : __shfl_sync(0xFFFFFFFFu, mine, pixel);
        if (n < to && pixel < count) {
            CubePick pick = {n, n - c.first_band};
            if (c.picked) pick = picks[n];
            const u64 q = tile_at<WIDTH>(tile, pixel, pick.band - base);
            cube_put(c, p.slot, out, p.status, q, pick, start + pick.place * c.step_band);
        }
        if (c.out_by_band) {
            n++;
        } else if (++pixel == count) {
            pixel = 0;
            n += 32;
        }
    }
}

// Returns true if a band of this chunk is requested. With few listed bands, most chunks have none.
FN bool chunk_is_asked(const CubeParams& p, const Cube& c, u32 chunk) {
    if (!c.picked) return true;
    const Ptr<const u32> starts = cast<const u32>(p.slot + c.chunk_picks) + (chunk - c.first_chunk);
    return starts[0] < starts[1];
}

// Reads a chunk of bands of a tile from a band-major payload. Each lane reads the bands of one pixel. `sum` is the
// running sum of the pixel's differences.
template <u32 WIDTH>
FN void read_by_band(const CubeParams& p, const Cube& c, Array<u32, TILE_WORDS>& tile, u32 pixel, u32 chunk, u32& sum, u32 lane) {
    typedef typename Element<WIDTH>::T T;
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
    const u32 base = chunk * Element<WIDTH>::BANDS;
    for (u32 n = 0; n < Element<WIDTH>::BANDS && base + n < c.bands; n += 8) {
        // Load eight at a time, because each load depends on a table, and waiting for single loads is slow.
        Array<T, 8> q;
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 band = min(base + n + i, c.bands - 1);
            q[i] = element_at<WIDTH>(p, planes, band * c.pixels + pixel);
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            if (WIDTH <= 2 && c.difference) {
                sum = (sum + unzigzag((u32)q[i])) & mask_of<WIDTH>();
                q[i] = sum;
            }
            tile_set<WIDTH>(tile, lane, n + i, q[i]);
        }
    }
}

// Reads and writes chunks of a tile's bands, for band-major payloads.
template <u32 WIDTH>
FN void by_band(const CubeParams& p, const Cube& c, Array<u32, TILE_WORDS>& tile, u32 first, u32 chunk, u32 chunks, u32 lane) {
    const u32 pixels = c.region_rows * c.region_columns, count = min(CUBE_PIXELS, pixels - first);
    const u32 pixel = pixel_of(c, first + min(lane, count - 1));
    u32 sum = 0;
    for (u32 end = chunk + chunks; chunk < end; chunk++) {
        if (!c.difference && !chunk_is_asked(p, c, chunk)) continue;
        read_by_band<WIDTH>(p, c, tile, pixel, chunk, sum, lane);
        __syncwarp();
        tile_out<WIDTH>(p, c, tile, first, count, chunk, lane);
        __syncwarp();
    }
}

// Reads a chunk of bands of a tile from a payload in shape order. Each lane reads one band of all pixels of the tile.
// `carry` is the running sum of the differences of the lane's own pixel.
template <u32 WIDTH>
FN void read_by_pixel(const CubeParams& p, const Cube& c, Array<u32, TILE_WORDS>& tile, u32 own_pixel, u32 count, u32 chunk,
                      u32& carry, u32 lane) {
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
    const u32 band = chunk * Element<WIDTH>::BANDS + lane % Element<WIDTH>::BANDS;
    // With elements of 8 bytes, each half of the warp reads a pixel.
    const u32 each = 32 / Element<WIDTH>::BANDS;
    for (u32 r = 0; r < count; r += each) {
        const u32 mine = r + lane / Element<WIDTH>::BANDS;
        const u32 pixel = __shfl_sync(0xFFFFFFFFu, own_pixel, min(mine, count - 1));
        typename Element<WIDTH>::T q = 0;
        if (band < c.bands) q = element_at<WIDTH>(p, planes, pixel * c.bands + band);
        if (WIDTH <= 2 && c.difference) {
            u32 sum = unzigzag((u32)q);
            for (u32 n = 1; n < 32; n *= 2) {
                const u32 other = __shfl_up_sync(0xFFFFFFFFu, sum, n);
                if (lane >= n) sum += other;
            }
            sum = (sum + __shfl_sync(0xFFFFFFFFu, carry, r)) & mask_of<WIDTH>();
            const u32 last = __shfl_sync(0xFFFFFFFFu, sum, 31);
            if (lane == r) carry = last;
            q = sum;
        }
        if (mine < count) tile_set<WIDTH>(tile, mine, lane % Element<WIDTH>::BANDS, q);
    }
}

// Reads and writes chunks of a tile's bands, for payloads in shape order.
template <u32 WIDTH>
FN void by_pixel(const CubeParams& p, const Cube& c, Array<u32, TILE_WORDS>& tile, u32 first, u32 chunk, u32 chunks, u32 lane) {
    const u32 pixels = c.region_rows * c.region_columns, count = min(CUBE_PIXELS, pixels - first);
    const u32 pixel = pixel_of(c, first + min(lane, count - 1));
    u32 carry = 0;
    for (u32 end = chunk + chunks; chunk < end; chunk++) {
        if (!c.difference && !chunk_is_asked(p, c, chunk)) continue;
        read_by_pixel<WIDTH>(p, c, tile, pixel, count, chunk, carry, lane);
        __syncwarp();
        tile_out<WIDTH>(p, c, tile, first, count, chunk, lane);
        __syncwarp();
    }
}

template <u32 WIDTH> FN void values(const CubeParams& p, const Cube& c, Array<u32, TILE_WORDS>& tile, u32 unit, u32 lane) {
    if (c.chunks == 0) return;
    const u32 parts = (c.chunks + c.chunks_each - 1) / c.chunks_each;
    const u32 first = unit / parts * CUBE_PIXELS, skip = unit % parts * c.chunks_each;
    if (first >= c.region_rows * c.region_columns) return;
    const u32 chunks = min(c.chunks_each, c.chunks - skip);
    if (c.walk == WALK_BANDS)
        by_band<WIDTH>(p, c, tile, first, c.first_chunk + skip, chunks, lane);
    else
        by_pixel<WIDTH>(p, c, tile, first, c.first_chunk + skip, chunks, lane);
}

// Converts cube `blockIdx.y` of the batch. `p.count` is the number of units of the largest cube.
KERNEL(cube_values, CubeParams, TILE_WARPS * 32) {
    SHARED(TilesMemory, memory);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.walk == WALK_QUADS || c.affine != AFFINE_NOTHING) return;
    const u32 unit = blockIdx.x * TILE_WARPS + warp;
    Array<u32, TILE_WORDS>& tile = memory.tiles[warp];
    switch (c.width) {
        case 1: values<1>(p, c, tile, unit, lane); break;
        case 2: values<2>(p, c, tile, unit, lane); break;
        case 4: values<4>(p, c, tile, unit, lane); break;
        default: values<8>(p, c, tile, unit, lane);
    }
}

// Four tiles per warp, one for each of the four source pixels of an output pixel.
struct AffineMemory {
    Array<Array<Array<u32, TILE_WORDS>, 4>, AFFINE_WARPS> tiles;
};

// Same as `tile_out`, but for moved pixels.
template <u32 WIDTH>
FN void affine_out(const CubeParams& p, const Cube& c, const Array<Array<u32, TILE_WORDS>, 4>& tiles, const Taps& mine, u32 first,
                   u32 count, u32 chunk, u32 lane) {
    const Ptr<const CubePick> picks = cast<const CubePick>(p.slot + c.picks);
    const Ptr<u8> out = p.out + c.out;
    const u32 base = chunk * Element<WIDTH>::BANDS;
    const uint2 range = chunk_range<WIDTH>(p, c, chunk);
    const u32 from = range.x, to = range.y;
    if (from >= to) return;
    const u32 own_start = start_of(c, first + min(lane, count - 1));
    const u32 turns = c.out_by_band ? to - from : (to - from + 31) / 32 * count;
    u32 n = c.out_by_band ? from : from + lane, pixel = c.out_by_band ? lane : 0;
    for (u32 turn = 0; turn < turns; turn++) {
        const u32 start = c.out_by_band ? own_start : __shfl_sync(0xFFFFFFFFu, own_start, pixel);
        const Taps taps = c.out_by_band ? mine : taps_from(mine, pixel);
        if (n < to && pixel < count) {
            CubePick pick = {n, n - c.first_band};
            if (c.picked) pick = picks[n];
            Array<u64, 4> q;
#pragma unroll
            for (u32 i = 0; i < 4; i++) q[i] = taps.inside >> i & 1 ? tile_at<WIDTH>(tiles[i], pixel, pick.band - base) : 0;
            cube_store(c, out, affine_value(c, p.slot, p.status, q, taps, pick), start + pick.place * c.step_band);
        }
        if (c.out_by_band) {
            n++;
        } else if (++pixel == count) {
            pixel = 0;
            n += 32;
        }
    }
}

// Checks the requested bands of a tile for invalid elements.
template <u32 WIDTH>
FN void affine_check_tile(const CubeParams& p, const Cube& c, const Array<u32, TILE_WORDS>& tile, u32 count, u32 chunk, u32 lane) {
    const Ptr<const CubePick> picks = cast<const CubePick>(p.slot + c.picks);
    const uint2 range = chunk_range<WIDTH>(p, c, chunk);
    for (u32 n = range.x; n < range.y && lane < count; n++) {
        const u32 band = c.picked ? picks[n].band : n;
        affine_check(c, p.status, tile_at<WIDTH>(tile, lane, band - chunk * Element<WIDTH>::BANDS));
    }
}

template <u32 WIDTH>
FN void affine_tiles(const CubeParams& p, const Cube& c, Array<Array<u32, TILE_WORDS>, 4>& tiles, u32 unit, u32 lane) {
    if (c.chunks == 0) return;
    const u32 parts = (c.chunks + c.chunks_each - 1) / c.chunks_each;
    const u32 first = unit / parts * CUBE_PIXELS, skip = unit % parts * c.chunks_each;
    const u32 pixels = c.region_rows * c.region_columns;
    if (first >= pixels) return;
    const u32 count = min(CUBE_PIXELS, pixels - first), number = first + min(lane, count - 1);
    const u32 begin = c.first_chunk + skip, end = begin + min(c.chunks_each, c.chunks - skip);
    const Taps taps = taps_of(c, number);
    const u32 most = c.affine == AFFINE_NEAREST ? 1 : 4;
    // The first four pixels are the source pixels of the output pixel. The fifth is the pixel in the same position as
    // the output pixel, and is only checked.
    Array<u32, 5> pixel, sums;
#pragma unroll
    for (u32 i = 0; i < 5; i++) pixel[i] = pixel_of(c, i < 4 ? taps.pixel[i] : number), sums[i] = 0;
    for (u32 chunk = begin; chunk < end; chunk++) {
        if (!c.difference && !chunk_is_asked(p, c, chunk)) continue;
#pragma unroll 1
        for (u32 turn = affine_checks(c) ? 0 : 1; turn <= most; turn++) {
            const u32 i = turn == 0 ? 4 : turn - 1;
            Array<u32, TILE_WORDS>& tile = tiles[i % 4];
            if (c.walk == WALK_BANDS)
                read_by_band<WIDTH>(p, c, tile, pixel[i], chunk, sums[i], lane);
            else
                read_by_pixel<WIDTH>(p, c, tile, pixel[i], count, chunk, sums[i], lane);
            if (turn > 0) continue;
            __syncwarp();
            affine_check_tile<WIDTH>(p, c, tile, count, chunk, lane);
            __syncwarp();
        }
        __syncwarp();
        affine_out<WIDTH>(p, c, tiles, taps, first, count, chunk, lane);
        __syncwarp();
    }
}

template <u32 WIDTH> FN u64 flat_element(const CubeParams& p, const Cube& c, u32 start, u32 column, u32 step) {
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
    if (WIDTH > 2 || !c.difference) return element_at<WIDTH>(p, planes, start + column * step);
    u32 sum = 0;
    for (u32 i = 0; i <= column; i++) sum += unzigzag((u32)element_at<WIDTH>(p, planes, start + i * step));
    return sum & mask_of<WIDTH>();
}

// Returns the element of a two-axis array at pixel `n` of the region. Differences are summed from the first column
// on.
CALLED u64 flat_at(const CubeParams& p, const Cube& c, u32 n) {
    const u32 row = c.first_pixel + n / c.picks_count, column = c.first_band + n % c.picks_count;
    const bool by_band = c.walk == WALK_BANDS;
    const u32 start = by_band ? row : row * c.bands, step = by_band ? c.pixels : 1;
    switch (c.width) {
        case 1: return flat_element<1>(p, c, start, column, step);
        case 2: return flat_element<2>(p, c, start, column, step);
        case 4: return flat_element<4>(p, c, start, column, step);
        default: return flat_element<8>(p, c, start, column, step);
    }
}

// Moves a two-axis array, one element per lane.
FN void affine_flat(const CubeParams& p, const Cube& c, u32 n) {
    if (n >= c.region_rows * c.picks_count) return;
    const u32 row = n / c.picks_count, column = n - row * c.picks_count;
    const Taps taps = taps_of(c, n);
    if (affine_checks(c)) affine_check(c, p.status, flat_at(p, c, n));
    Array<u64, 4> q;
#pragma unroll
    for (u32 i = 0; i < 4; i++) q[i] = taps.inside >> i & 1 ? flat_at(p, c, taps.pixel[i]) : 0;
    const CubePick pick = {0, 0};
    const u64 value = affine_value(c, p.slot, p.status, q, taps, pick);
    cube_store(c, p.out + c.out, value, c.origin + row * c.step_row + column * c.step_band);
}

CALLED u64 box_at(const CubeParams& p, const Cube& c, u32 plane, u32 n, u32 channel) {
    const u32 row = n / affine_columns(c), column = n - row * affine_columns(c);
    u32 pixel = c.first_pixel, band = c.first_band;
    if (c.flat) {
        pixel += plane * c.columns + row;
        band += column;
    } else {
        pixel += (plane * c.plane_rows + row) * c.columns + column + plane * c.plane_gap;
        band += channel;
    }
    const bool by_band = c.walk == WALK_BANDS;
    const u32 start = by_band ? pixel : pixel * c.bands, step = by_band ? c.pixels : 1;
    switch (c.width) {
        case 1: return flat_element<1>(p, c, start, band, step);
        case 2: return flat_element<2>(p, c, start, band, step);
        case 4: return flat_element<4>(p, c, start, band, step);
        default: return flat_element<8>(p, c, start, band, step);
    }
}

// Moves all planes of a box in the same way, one element per lane.
FN void affine_box(const CubeParams& p, const Cube& c, u32 n) {
    const u32 rows = affine_rows(c), columns = affine_columns(c), channels = c.flat ? 1 : c.picks_count;
    if (n >= c.region_rows * c.region_columns * c.picks_count) return;
    const u32 channel = n % channels, voxel = n / channels, plane = voxel / (rows * columns);
    const u32 pixel = voxel - plane * (rows * columns), row = pixel / columns, column = pixel - row * columns;
    const Taps taps = taps_of(c, pixel);
    if (affine_checks(c)) affine_check(c, p.status, box_at(p, c, plane, pixel, channel));
    Array<u64, 4> q;
#pragma unroll
    for (u32 i = 0; i < 4; i++) q[i] = taps.inside >> i & 1 ? box_at(p, c, plane, taps.pixel[i], channel) : 0;
    const CubePick pick = {c.first_band + channel, channel};
    const u64 value = affine_value(c, p.slot, p.status, q, taps, pick);
    u32 to = c.origin;
    if (c.flat)
        to += plane * c.step_row + row * c.step_column + column * c.step_band;
    else
        to += (plane * c.plane_rows + row) * c.step_row + plane * c.step_plane + column * c.step_column + channel * c.step_band;
    cube_store(c, p.out + c.out, value, to);
}

// Converts cube `blockIdx.y` of the batch if an affine map moves its pixels.
KERNEL_BESIDE(cube_affine, CubeParams, AFFINE_WARPS * 32, 6) {
    SHARED(AffineMemory, memory);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.affine == AFFINE_NOTHING || c.affine >= AFFINE_VIEW || c.means) return;
    const u32 unit = blockIdx.x * AFFINE_WARPS + warp;
    if (c.boxed) {
        affine_box(p, c, unit * CUBE_PIXELS + lane);
        return;
    }
    if (c.flat) {
        affine_flat(p, c, unit * CUBE_PIXELS + lane);
        return;
    }
    Array<Array<u32, TILE_WORDS>, 4>& tiles = memory.tiles[warp];
    switch (c.width) {
        case 1: affine_tiles<1>(p, c, tiles, unit, lane); break;
        case 2: affine_tiles<2>(p, c, tiles, unit, lane); break;
        case 4: affine_tiles<4>(p, c, tiles, unit, lane); break;
        default: affine_tiles<8>(p, c, tiles, unit, lane);
    }
}

// Returns the element of the region in the given row and column. In a two-axis array, columns count as bands.
CALLED u64 view_element(const CubeParams& p, const Cube& c, u32 row, u32 column, u32 band) {
    const u32 pixel = c.first_pixel + (c.flat ? row : row * c.columns + column);
    const bool by_band = c.walk == WALK_BANDS;
    const u32 start = by_band ? pixel : pixel * c.bands, step = by_band ? c.pixels : 1;
    switch (c.width) {
        case 1: return flat_element<1>(p, c, start, band, step);
        case 2: return flat_element<2>(p, c, start, band, step);
        case 4: return flat_element<4>(p, c, start, band, step);
        default: return flat_element<8>(p, c, start, band, step);
    }
}

// Converts cube `blockIdx.y` of the batch if it has a view. Each thread computes one element of the output.
KERNEL(cube_view, CubeParams, VIEW_THREADS) {
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.affine != AFFINE_VIEW) return;
    const u32 n = blockIdx.x * VIEW_THREADS + threadIdx.x, bands = c.flat ? 1 : c.picks_count;
    const u32 columns = affine_columns(c);
    // All elements of the region are checked, as on the host.
    if (affine_checks(c) && n < c.region_rows * columns * bands) {
        const u32 pixel = n / bands, row = pixel / columns, column = pixel - row * columns;
        affine_check(c, p.status, view_element(p, c, row, column, c.first_band + (c.flat ? column : n - pixel * bands)));
    }
    const u32 pixels = c.view_rows * c.view_columns;
    if (n >= pixels * bands) return;
    const u32 pixel = c.out_by_band ? n % pixels : n / bands, place = c.out_by_band ? n / pixels : n % bands;
    const u32 row = pixel / c.view_columns;
    const Shown shown = view_shown(c, p.slot, row, pixel - row * c.view_columns);
    const Ptr<u8> out = p.out + c.out;
    if (!shown.is_pixel) {
        cube_store(c, out, shown.value, n);
        return;
    }
    const CubePick pick = {c.first_band + (c.flat ? shown.column : place), place};
    cube_put(c, p.slot, out, p.status, view_element(p, c, shown.row, shown.column, pick.band), pick, n);
}

// Returns the element of a volume at [z, y, x]. In a volume without channels, the columns count as bands.
CALLED u64 volume_element(const CubeParams& p, const Cube& c, const VolumeMove& v, const Array<u32, 3>& at, u32 channel) {
    u32 pixel = at[0] * v.height + at[1], band = at[2];
    if (!c.flat) pixel = pixel * v.width + at[2], band = channel;
    const bool by_band = c.walk == WALK_BANDS;
    const u32 start = by_band ? pixel : pixel * c.bands, step = by_band ? c.pixels : 1;
    u64 q;
    switch (c.width) {
        case 1: q = flat_element<1>(p, c, start, band, step); break;
        case 2: q = flat_element<2>(p, c, start, band, step); break;
        case 4: q = flat_element<4>(p, c, start, band, step); break;
        default: q = flat_element<8>(p, c, start, band, step);
    }
    if (affine_checks(c)) affine_check(c, p.status, q);
    return q;
}

FN CubePick volume_pick(const Cube& c, const Array<u32, 3>& at, u32 channel) {
    return {c.flat ? at[2] : channel, c.flat ? 0 : channel};
}

// Returns the value of the nearest voxel, as bits of the output type.
FN u64 volume_nearest(const CubeParams& p, const Cube& c, const VolumeMove& v, const Array<u32, 3>& voxel, u32 channel) {
    Array<u32, 3> at;
#pragma unroll
    for (u32 axis = 0; axis < 3; axis++) {
        // After a quarter turn, positions may be exactly on the edge between two voxels. The rounding of the sine
        // would then choose one of the two at random, so positions are moved by a small distance first.
        const double place = volume_place(v, voxel, axis) + AFFINE_NEAR, first = (double)v.within[axis];
        if (!(place >= first && place < first + (double)v.within_size[axis])) return c.outside;
        at[axis] = (u32)place;
    }
    return cube_value(c, p.slot, p.status, volume_element(p, c, v, at, channel), volume_pick(c, at, channel));
}

// Returns the mean of the eight voxels around a voxel's source position, as bits of a float32. Bit 32 is set for
// no-data.
CALLED u64 volume_mean(const CubeParams& p, const Cube& c, const VolumeMove& v, const Array<u32, 3>& voxel, u32 channel) {
    Array<double, 3> first;
    Array<float, 3> second;
    bool is_near = true;
#pragma unroll
    for (u32 axis = 0; axis < 3; axis++) {
        const double place = volume_place(v, voxel, axis) - 0.5, low = (double)v.within[axis];
        // The condition is also false for NaN.
        is_near = is_near && place > low - 1.0 && place < low + (double)v.within_size[axis];
        second[axis] = is_near ? axis_of(place, first[axis]) : 0.0f;
    }
    float sum = 0.0f, own = bits_float((u32)c.outside);
    bool is_first = true, no_data = false, is_inside = false;
#pragma unroll 1
    for (u32 i = 0; i < 8 && is_near; i++) {
        const Array<u32, 3> next = {i / 4, i / 2 % 2, i % 2};
        Array<float, 3> weights;
        Array<u32, 3> at;
        bool inside = true;
#pragma unroll
        for (u32 axis = 0; axis < 3; axis++) {
            const double place = first[axis] + (double)next[axis], low = (double)v.within[axis];
            weights[axis] = next[axis] ? second[axis] : 1.0f - second[axis];
            inside = inside && place >= low && place < low + (double)v.within_size[axis];
            at[axis] = inside ? (u32)place : 0;
        }
        const float weight = rounded_product(rounded_product(weights[2], weights[1]), weights[0]);
        if (weight == 0.0f) continue;
        u64 x = (u32)c.outside;
        if (inside) x = affine_single(c, p.slot, p.status, volume_element(p, c, v, at, channel), volume_pick(c, at, channel));
        is_inside = is_inside || inside;
        no_data = no_data || x >> 32;
        const float term = rounded_product(weight, bits_float((u32)x));
        sum = is_first ? term : rounded_sum(sum, term);
        is_first = false;
    }
    // If all eight voxels are outside, use their common value, because the rounded sum of the weights may not be 1.
    if (!is_inside) sum = own;
    // Processors produce different NaNs from products and sums, so replace every NaN by the same one.
    const u32 mean = float_bits(sum);
    return (u64)no_data << 32 | (is_nan32(mean) ? 0x7FC00000u : mean);
}

// Same as volume_mean, but at the channel's low resolution, if it has one.
FN u64 volume_low(const CubeParams& p, const Cube& c, const VolumeMove& v, const Array<u32, 3>& voxel, u32 channel) {
    const Ptr<const u32> low = cast<const u32>(p.slot + c.view + sizeof(VolumeMove)) + 3 * channel;
    if (v.channels == 0 || low[0] == 0) return volume_mean(p, c, v, voxel, channel);
    Array<LowTaps, 3> taps;
#pragma unroll
    for (u32 axis = 0; axis < 3; axis++) taps[axis] = low_taps(voxel[axis], low[axis], v.size[axis]);
    float sum = 0.0f;
    bool is_first = true, no_data = false;
#pragma unroll 1
    for (u32 i = 0; i < 8; i++) {
        const Array<u32, 3> next = {i / 4, i / 2 % 2, i % 2};
        Array<float, 3> weights;
        Array<u32, 3> at;
#pragma unroll
        for (u32 axis = 0; axis < 3; axis++) {
            weights[axis] = next[axis] ? taps[axis].second_weight : 1.0f - taps[axis].second_weight;
            at[axis] = next[axis] ? taps[axis].places[1] : taps[axis].places[0];
        }
        const float weight = rounded_product(rounded_product(weights[2], weights[1]), weights[0]);
        if (weight == 0.0f) continue;
        const u64 x = volume_mean(p, c, v, at, channel);
        no_data = no_data || x >> 32;
        const float term = rounded_product(weight, bits_float((u32)x));
        sum = is_first ? term : rounded_sum(sum, term);
        is_first = false;
    }
    const u32 mean = float_bits(sum);
    return (u64)no_data << 32 | (is_nan32(mean) ? 0x7FC00000u : mean);
}

// Converts cube `blockIdx.y` of the batch if it is a box that is moved across planes. Each thread computes one
// element of the box.
KERNEL(cube_volume, CubeParams, VOLUME_THREADS) {
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.affine != AFFINE_VOLUME_NEAREST && c.affine != AFFINE_VOLUME_MEAN) return;
    const u32 n = blockIdx.x * VOLUME_THREADS + threadIdx.x, channels = c.flat ? 1 : c.picks_count;
    if (n >= c.region_rows * c.region_columns * c.picks_count) return;
    const VolumeMove& v = *cast<const VolumeMove>(p.slot + c.view);
    const u32 channel = n % channels, pixel = n / channels, area = v.size[1] * v.size[2];
    const u32 z = pixel / area, y = pixel % area / v.size[2], x = pixel % v.size[2];
    const Array<u32, 3> voxel = {z, y, x};
    u64 value;
    if (c.affine == AFFINE_VOLUME_NEAREST) {
        value = volume_nearest(p, c, v, voxel, channel);
    } else {
        value = volume_low(p, c, v, voxel, channel);
        value = float_output(value >> 32 ? c.fill_with : (u32)value, c.output);
    }
    u32 to = c.origin;
    if (c.flat)
        to += z * c.step_row + y * c.step_column + x * c.step_band;
    else
        to += (z * c.plane_rows + y) * c.step_row + z * c.step_plane + x * c.step_column + channel * c.step_band;
    cube_store(c, p.out + c.out, value, to);
}

// A tile of 128 pixels with up to 32 bands, two bands per word and one row per pixel. The first pixel of every lane
// comes first, then the second pixel of every lane, and so on. Rows have 17 words, and 16 more follow each quarter of
// the tile. So lanes use different banks both when they write their own pixels and when they read rows.
#define QUAD_ROW 17u
#define QUAD_PLACE (32 * QUAD_ROW + 16)
// Number of words in a quarter of a table with one word per pixel. The last word is a gap, for the same reason.
#define QUAD_STARTS 33u

struct QuadsMemory {
    Array<Array<u32, 4 * QUAD_PLACE>, TILE_WARPS> tiles;
    // Output index of each pixel's first element.
    Array<u32, 4 * QUAD_STARTS> starts;
    // For each warp: the sum of its own bands for the four pixels of each lane (`sums`), and the sum of all earlier
    // bands for each pixel, in both halves of a word (`before`).
    Array<Array<uint2, 32>, TILE_WARPS> sums;
    Array<Array<u32, 4 * QUAD_STARTS>, TILE_WARPS> before;
};

// `unzigzag_both` decodes two zigzag-coded differences in one word. `sum_both` adds both halves, without a carry
// between them.
FN u32 unzigzag_both(u32 z) { return (z >> 1 & 0x7FFF7FFFu) ^ (z & 0x00010001u) * 0xFFFFu; }
FN u32 sum_both(u32 a, u32 b) { return ((a & 0x7FFF7FFFu) + (b & 0x7FFF7FFFu)) ^ ((a ^ b) & 0x80008000u); }

// The fields of a Cube that stores need, kept in registers. Otherwise, the compiler would reload them from memory
// after each store.
struct QuadsOut {
    Ptr<u8> out;
    // Address of `out` modulo 16, for stores of several values at once.
    u32 offset;
    u32 mode, unit_bytes, first_band, step_band;
    // For MODE_FLOAT: output type, and number of pairs of factors, which may be 0.
    u32 type, factor_bands;
    Ptr<const uint2> factors;
};

// Returns the factors of the band that has index `place` in the output, or 0 if there are none.
FN uint2 factors_of(const QuadsOut& o, u32 place) {
    return o.factor_bands == 0 ? make_uint2(0, 0) : o.factors[place % o.factor_bands];
}

// Converts a float16 to the output's float type.
FN u32 float_of(const QuadsOut& o, u32 half, uint2 factors) {
    u32 x = f32_of_f16(half & 0xFFFF);
    if (o.factor_bands != 0) x = normalised(x, factors.x, factors.y);
    return float_output(x, o.type);
}

// Writes four floats from index `n` on, which is a multiple of four.
FN void floats_put(const QuadsOut& o, u32 n, u32 a, u32 b, u32 c, u32 d) {
    if (o.type == F32)
        *cast<uint4>(o.out + 4 * (u64)n) = make_uint4(a, b, c, d);
    else
        *cast<uint2>(o.out + 2 * (u64)n) = make_uint2(a | b << 16, c | d << 16);
}

CALLED void one_put(const CubeParams& p, const Cube& c, u32 q, CubePick pick, u32 n) {
    cube_put(c, p.slot, p.out + c.out, p.status, q, pick, n);
}

// Writes the elements of four pixels in one band, contiguous in the output if `together`.
FN void quad_put(const CubeParams& p, const Cube& c, const QuadsOut& o, uint2 q, u32 band, const Array<u32, 4>& start,
                 bool together) {
    const u32 place = band - o.first_band, n = start[0] + place * o.step_band;
    if (together && o.mode == MODE_COPY && (o.offset + 2 * n) % 8 == 0) {
        *cast<uint2>(o.out + 2 * (u64)n) = q;
    } else if (together && o.mode == MODE_WIDEN && (o.offset + 4 * n) % 16 == 0) {
        *cast<uint4>(o.out + 4 * (u64)n) =
            make_uint4(f32_of_f16(q.x & 0xFFFF), f32_of_f16(q.x >> 16), f32_of_f16(q.y & 0xFFFF), f32_of_f16(q.y >> 16));
    } else if (together && o.mode == MODE_FLOAT && (o.offset + o.unit_bytes * n) % (4 * o.unit_bytes) == 0) {
        const uint2 f = factors_of(o, place);
        floats_put(o, n, float_of(o, q.x, f), float_of(o, q.x >> 16, f), float_of(o, q.y, f), float_of(o, q.y >> 16, f));
    } else {
        const CubePick pick = {band, place};
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            one_put(p, c, (i < 2 ? q.x : q.y) >> i % 2 * 16 & 0xFFFF, pick, start[i] + place * o.step_band);
    }
}

// Writes the elements of one pixel in two bands, with one store if they are contiguous and aligned.
FN void pair_put(const CubeParams& p, const Cube& c, const QuadsOut& o, u32 q, u32 band, u32 start, u32 from, u32 to) {
    const u32 place = band - o.first_band, n = start + place;
    const bool both = band >= from && band + 1 < to && o.step_band == 1;
    if (both && o.mode == MODE_COPY && (o.offset + 2 * n) % 4 == 0) {
        *cast<u32>(o.out + 2 * (u64)n) = q;
    } else if (both && o.mode == MODE_WIDEN && (o.offset + 4 * n) % 8 == 0) {
        *cast<uint2>(o.out + 4 * (u64)n) = make_uint2(f32_of_f16(q & 0xFFFF), f32_of_f16(q >> 16));
    } else {
#pragma unroll 1
        for (u32 i = 0; i < 2; i++) {
            const CubePick pick = {band + i, place + i};
            if (band + i < from || band + i >= to) continue;
            one_put(p, c, q >> 16 * i & 0xFFFF, pick, start + pick.place * o.step_band);
        }
    }
}

// Where to find four bands of four pixels: the planes of both bytes of each band, and the index of the element in its
// block.
struct QuadPlaces {
    Array<uint4, 8> plane;
    Array<u32, 4> place;
};

FN void quad_places(QuadPlaces& w, Ptr<const uint4> planes, u32 bands, u32 pixels, u32 band, u32 pixel) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 e = min(band + i, bands - 1) * pixels + pixel, block = e / CUBE_BLOCK;
        w.place[i] = e % CUBE_BLOCK;
        w.plane[2 * i] = planes[2 * block];
        w.plane[2 * i + 1] = planes[2 * block + 1];
    }
}

// Bytes at these places. `low` has one byte of each of four pixels, and `high` is the next word. `shifts` holds the
// offset of the bytes in the first word, with two bits for each place.
struct QuadBytes {
    Array<u32, 8> low, high;
    u32 shifts;
};

// All loads are issued before the first is used, because dependent loads are slow. A plane of one repeated byte needs
// no load. Every index is a compile-time constant, which keeps the arrays in registers. If `FOURS`, the indices of
// the elements are multiples of four.
template <bool FOURS> FN void quad_bytes(QuadBytes& b, const CubeParams& p, const QuadPlaces& w) {
    bool apart = false;
    b.shifts = 0;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        apart = apart || w.plane[i].z > 1;
        if (w.plane[i].z == 1) b.shifts |= ((w.plane[i].x + (FOURS ? 0 : w.place[i / 2])) & 3) << 2 * i;
        b.low[i] = b.high[i] = w.plane[i].x * 0x01010101u;
    }
    if (apart) {
        b.shifts = 0;
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            u64 at = ((u64)w.plane[i].y << 32 | w.plane[i].x) + (u64)w.place[i / 2] * w.plane[i].z;
            u32 word = 0;
#pragma unroll 1
            for (u32 n = 0; n < 4; n++, at += w.plane[i].z) word |= (u32)*place_of(p, at) << 8 * n;
            b.low[i] = word;
        }
    } else if (b.shifts == 0) {
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u64 at = ((u64)w.plane[i].y << 32 | w.plane[i].x) + w.place[i / 2];
            if (w.plane[i].z) b.low[i] = *cast<const u32>(place_of(p, at));
        }
    } else {
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u64 at = ((u64)w.plane[i].y << 32 | w.plane[i].x) + w.place[i / 2];
            const Ptr<const u32> words = cast<const u32>(place_of(p, at & ~(u64)3));
            if (w.plane[i].z) b.low[i] = words[0], b.high[i] = words[1];
        }
    }
}

FN u32 quad_byte(const QuadBytes& b, u32 i) { return __funnelshift_r(b.low[i], b.high[i], (b.shifts >> 2 * i & 3) * 8); }

// Returns the index of pixel `at` in an array with `row` words per pixel.
FN u32 quad_place(u32 at, u32 place, u32 row) { return at % 4 * place + at / 4 * row; }

// Writes the `bands` bands of a tile, which are contiguous in the output. `bands` is a multiple of four, and each
// lane writes four bands. `n` is the output index of the first band of the first pixel, and `step` is the distance to
// the next pixel.
FN void rows_put(const QuadsOut& o, const Array<u32, 4 * QUAD_PLACE>& tile, const Array<u32, 4 * QUAD_STARTS>& before,
                 u32 bands, u32 first_place, u32 n, u32 step, u32 count, u32 lane) {
    // `width` lanes share a pixel, and `turns` pixels are written at a time. `turns` is a multiple of four, so that a
    // lane stays in its quarter of the tile.
    const u32 width = bands <= 4 ? 1 : bands <= 8 ? 2 : bands <= 16 ? 4 : 8, turns = 32 / width;
    const u32 turn = lane / width, word = 2 * (lane % width);
    if (2 * word >= bands) return;
    n += turn * step + 2 * word;
    Array<uint2, 4> factors;
#pragma unroll
    for (u32 i = 0; i < 4; i++) factors[i] = factors_of(o, first_place + 2 * word + i);
    const u32 place = quad_place(turn, QUAD_PLACE, QUAD_ROW) + word, start = quad_place(turn, QUAD_STARTS, 1);
#pragma unroll 4
    for (u32 at = turn; at < count; at += turns) {
        const u32 on = (at - turn) / 4, sum = before[start + on];
        const u32 a = sum_both(tile[place + on * QUAD_ROW], sum), b = sum_both(tile[place + on * QUAD_ROW + 1], sum);
        if (o.mode == MODE_COPY)
            *cast<uint2>(o.out + 2 * (u64)n) = make_uint2(a, b);
        else if (o.mode == MODE_WIDEN)
            *cast<uint4>(o.out + 4 * (u64)n) =
                make_uint4(f32_of_f16(a & 0xFFFF), f32_of_f16(a >> 16), f32_of_f16(b & 0xFFFF), f32_of_f16(b >> 16));
        else
            floats_put(o, n, float_of(o, a, factors[0]), float_of(o, a >> 16, factors[1]), float_of(o, b, factors[2]),
                       float_of(o, b >> 16, factors[3]));
        n += turns * step;
    }
}

// Converts 128 pixels of cube `blockIdx.y` if its pixels are read four at a time. The warps of a block share the
// bands, so that all bands of a pixel are written at about the same time. Otherwise, the L2 cache would evict partly
// written lines.
KERNEL_BESIDE(cube_quads, CubeParams, TILE_WARPS * 32, 5) {
    SHARED(QuadsMemory, memory);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * QUAD_PIXELS;
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.walk != WALK_QUADS || c.picks_count == 0) return;
    const u32 pixels = c.region_rows * c.region_columns;
    if (first >= pixels) return;
    Array<u32, 4 * QUAD_PLACE>& tile = memory.tiles[warp];
    Array<u32, 4 * QUAD_STARTS>& before = memory.before[warp];
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
    const u32 unit_bytes = c.mode == MODE_COPY || (c.mode == MODE_FLOAT && c.output != F32) ? 2 : 4;
    const QuadsOut o = {p.out + c.out, (u32)(c.out & 15), c.mode,         unit_bytes, c.first_band, c.step_band,
                        c.output,      c.factor_bands,    cast<const uint2>(p.slot + c.factors)};
    const u32 bands = c.bands, all_pixels = c.pixels, behind = c.first_band + c.picks_count;
    const bool by_band = c.out_by_band, difference = c.difference;

    // Lanes after the last pixel process the last four pixels once more.
    const u32 count = min(QUAD_PIXELS, pixels - first), number = first + min(4 * lane, count - 4);
    const bool mine = 4 * lane < count;
    const u32 pixel = pixel_of(c, number);
    Array<u32, 4> start;
    u32 y = number / c.region_columns, x = number - y * c.region_columns;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        start[i] = c.origin + y * c.step_row + x * c.step_column;
        if (warp == 0) memory.starts[QUAD_STARTS * i + lane] = start[i];
        if (++x == c.region_columns) x = 0, y++;
    }
    const bool together = start[1] == start[0] + 1 && start[2] == start[0] + 2 && start[3] == start[0] + 3;
    // True if pixels are equally spaced in the output, and groups of four bands are aligned.
    const u32 step = c.region_columns == 1 ? c.step_row : c.step_column;
    const u32 first_start = __shfl_sync(0xFFFFFFFFu, start[0], 0);
    const bool rows = (c.region_columns == 1 || c.step_row == c.region_columns * c.step_column) && o.step_band == 1 &&
                      o.mode != MODE_ANY && step % 4 == 0 &&
                      (o.offset + unit_bytes * (first_start - o.first_band)) % (4 * unit_bytes) == 0;

    // Sums of the differences of all earlier bands, for four pixels.
    uint2 sum = make_uint2(0, 0);
    const u32 begin = difference ? 0 : o.first_band & ~3u;
    // Number of bands per warp: a multiple of four, at most 32.
    const u32 each = min(32u, (behind - begin + 15) / 16 * 4);
    for (u32 round = begin; round < behind; round += TILE_WARPS * each) {
        const u32 base = min(round + warp * each, behind), end = min(base + each, behind);
        const u32 from = min(max(base, o.first_band), end);
        uint2 own = make_uint2(0, 0);
        QuadPlaces where;
        quad_places(where, planes, bands, all_pixels, base, pixel);
        for (u32 band = base; band < end; band += 4) {
            QuadBytes bytes;
            quad_bytes<true>(bytes, p, where);
            quad_places(where, planes, bands, all_pixels, band + 4, pixel);
            Array<uint2, 4> q;
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const u32 low = quad_byte(bytes, 2 * i), high = quad_byte(bytes, 2 * i + 1);
                q[i].x = __byte_perm(low, high, 0x5140);
                q[i].y = __byte_perm(low, high, 0x7362);
                if (difference) {
                    own.x = q[i].x = sum_both(own.x, unzigzag_both(q[i].x));
                    own.y = q[i].y = sum_both(own.y, unzigzag_both(q[i].y));
                }
            }
#pragma unroll
            for (u32 i = 0; i < 4; i += 2) {
                const u32 at = QUAD_ROW * lane + (band - base + i) / 2;
                tile[at] = __byte_perm(q[i].x, q[i + 1].x, 0x5410);
                tile[at + QUAD_PLACE] = __byte_perm(q[i].x, q[i + 1].x, 0x7632);
                tile[at + 2 * QUAD_PLACE] = __byte_perm(q[i].y, q[i + 1].y, 0x5410);
                tile[at + 3 * QUAD_PLACE] = __byte_perm(q[i].y, q[i + 1].y, 0x7632);
            }
        }
        memory.sums[warp][lane] = own;
        __syncthreads();
        uint2 here = sum;
#pragma unroll
        for (u32 n = 0; n < TILE_WARPS; n++) {
            const uint2 other = memory.sums[n][lane];
            sum.x = sum_both(sum.x, other.x);
            sum.y = sum_both(sum.y, other.y);
            if (n + 1 == warp) here = sum;
        }
        before[lane] = (here.x & 0xFFFF) * 0x10001u;
        before[QUAD_STARTS + lane] = (here.x >> 16) * 0x10001u;
        before[2 * QUAD_STARTS + lane] = (here.y & 0xFFFF) * 0x10001u;
        before[3 * QUAD_STARTS + lane] = (here.y >> 16) * 0x10001u;
        __syncwarp();
        if (from == end) {
            // None of these bands is requested.
        } else if (by_band) {
            for (u32 band = base; band < end; band += 2) {
                Array<u32, 4> pair;
#pragma unroll
                for (u32 i = 0; i < 4; i++)
                    pair[i] = sum_both(tile[i * QUAD_PLACE + QUAD_ROW * lane + (band - base) / 2], before[i * QUAD_STARTS + lane]);
#pragma unroll
                for (u32 i = 0; i < 2; i++) {
                    const u32 halves = i == 0 ? 0x5410 : 0x7632;
                    const uint2 q = make_uint2(__byte_perm(pair[0], pair[1], halves), __byte_perm(pair[2], pair[3], halves));
                    if (mine && band + i >= from && band + i < end) quad_put(p, c, o, q, band + i, start, together);
                }
            }
        } else if (rows && from == base && (end - base) % 4 == 0) {
            rows_put(o, tile, before, end - base, base - o.first_band, first_start + base - o.first_band, step, count, lane);
        } else {
            // Each lane writes a pair of bands, first of one pixel, then of the next.
            const u32 first_word = (from - base) / 2, words = (end - base + 1) / 2 - first_word;
            const u32 pixels_on = 32 / words, words_on = 32 % words;
            u32 word = lane % words;
            for (u32 at = lane / words; at < count;) {
                const u32 place = quad_place(at, QUAD_STARTS, 1);
                const u32 q = sum_both(tile[quad_place(at, QUAD_PLACE, QUAD_ROW) + first_word + word], before[place]);
                pair_put(p, c, o, q, base + 2 * (first_word + word), memory.starts[place], from, end);
                at += pixels_on;
                word += words_on;
                if (word >= words) word -= words, at++;
            }
        }
        __syncthreads();
    }
}

// A warp of cube_means computes 8 × 4 pixels. Regardless of the rotation, their source pixels are in few rows. All
// bytes of the four source pixels are loaded before the first is used.
#define MEANS_COLUMNS 8u
#define MEANS_ROWS (CUBE_PIXELS / MEANS_COLUMNS)
// If bands are stored side by side, the number of lanes that share a pixel, with four bands per lane.
#define MEANS_LANES 8u

struct MeansWarp {
    // Means of 32 pixels in 32 bands, as float32, a row of 33 words per pixel.
    Array<u32, TILE_WORDS> values;
    // For each pixel: its four source pixels, the bits of their weights, flags for the source pixels inside the
    // region, and the running sums of their bands, in half words.
    Array<uint4, CUBE_PIXELS> pixels, weights;
    Array<u32, CUBE_PIXELS> inside;
    Array<uint2, CUBE_PIXELS> sums;
};

struct MeansMemory {
    Array<MeansWarp, MEANS_WARPS> warps;
};

FN Array<u32, 4> four_of(uint4 x) { return {x.x, x.y, x.z, x.w}; }

// Replaces the differences in `q`, of four bands of four pixels, by their running sums from the first band on. The
// lanes of a pixel hold adjacent bands. On entry, `so_far` holds the sums before the first of these bands. On return,
// it holds the sums after the last one.
FN void means_sum(Array<uint2, 4>& q, uint2& so_far, u32 lane) {
    const u32 part = lane % MEANS_LANES;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 a = unzigzag_both(q[i].x), b = unzigzag_both(q[i].y);
        q[i].x = sum_both(a, a << 16);
        q[i].y = sum_both(sum_both(b, b << 16), (q[i].x >> 16) * 0x10001u);
    }
    const uint2 carry = so_far;
    uint2 all = make_uint2(__byte_perm(q[0].y, q[1].y, 0x7632), __byte_perm(q[2].y, q[3].y, 0x7632));
#pragma unroll
    for (u32 n = 1; n < MEANS_LANES; n *= 2) {
        const u32 x = __shfl_up_sync(0xFFFFFFFFu, all.x, n), y = __shfl_up_sync(0xFFFFFFFFu, all.y, n);
        if (part >= n) all.x = sum_both(all.x, x), all.y = sum_both(all.y, y);
    }
    uint2 before = make_uint2(__shfl_up_sync(0xFFFFFFFFu, all.x, 1), __shfl_up_sync(0xFFFFFFFFu, all.y, 1));
    if (part == 0) before = make_uint2(0, 0);
    before = make_uint2(sum_both(before.x, carry.x), sum_both(before.y, carry.y));
    so_far = make_uint2(sum_both(all.x, carry.x), sum_both(all.y, carry.y));
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 word = i < 2 ? before.x : before.y, twice = __byte_perm(word, word, i % 2 == 0 ? 0x1010 : 0x3232);
        q[i].x = sum_both(q[i].x, twice);
        q[i].y = sum_both(q[i].y, twice);
    }
}

// Reads four bands, starting with `band`, of four pixels from a payload in shape order.
FN void means_read(const CubeParams& p, const Means& m, Ptr<const uint4> planes, const Array<u32, 4>& pixel, u32 band,
                   Array<uint2, 4>& q) {
    QuadPlaces where;
    bool is_split = false;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 e = pixel[i] * m.bands + band, block = e / CUBE_BLOCK;
        where.place[i] = e % CUBE_BLOCK;
        is_split = is_split || where.place[i] > CUBE_BLOCK - 4;
        where.plane[2 * i] = planes[2 * block];
        where.plane[2 * i + 1] = planes[2 * block + 1];
    }
    if (is_split) {
        // Elements after the end of the array are not used.
        const u32 last = m.bands * m.pixels - 1;
#pragma unroll 1
        for (u32 n = 0; n < 4; n++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const u32 element = element_at<2>(p, planes, min(pixel[i] * m.bands + band + n, last)) << n % 2 * 16;
                if (n == 0) q[i] = make_uint2(0, 0);
                if (n < 2) q[i].x |= element;
                if (n >= 2) q[i].y |= element;
            }
        }
        return;
    }
    QuadBytes bytes;
    quad_bytes<false>(bytes, p, where);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 low = quad_byte(bytes, 2 * i), high = quad_byte(bytes, 2 * i + 1);
        q[i] = make_uint2(__byte_perm(low, high, 0x5140), __byte_perm(low, high, 0x7362));
    }
}

// Returns the factors of a band, or 0 if there are none. There is one pair for all bands or one for each, so this
// needs no division.
FN uint2 means_factors(const Means& m, const QuadsOut& o, u32 band) {
    if (m.factor_bands == 0) return make_uint2(0, 0);
    u32 n = m.factor_bands == 1 ? 0 : max(band, m.first_band) - m.first_band;
    while (n >= m.factor_bands) n -= m.factor_bands;
    return o.factors[n];
}

// Computes the means of a chunk of bands from a payload in shape order. Eight lanes share a pixel, with four bands
// per lane.
template <bool HALF>
FN void means_by_pixel(const CubeParams& p, const Cube& c, const Means& m, const QuadsOut& o, MeansWarp& w, u32 chunk, u32 lane) {
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
    const u32 part = lane % MEANS_LANES, band = chunk * 32 + 4 * part;
    Array<uint2, 4> factors;
#pragma unroll
    for (u32 n = 0; n < 4; n++) factors[n] = means_factors(m, o, band + n);
#pragma unroll 1
    for (u32 at = lane / MEANS_LANES; at < CUBE_PIXELS; at += 32 / MEANS_LANES) {
        Array<uint2, 4> q;
        means_read(p, m, planes, four_of(w.pixels[at]), min(band, m.bands - 1), q);
        if (m.difference) {
            uint2 so_far = w.sums[at];
            means_sum(q, so_far, lane);
            __syncwarp();
            if (part == MEANS_LANES - 1) w.sums[at] = so_far;
        }
        const uint4 bits = w.weights[at];
        const Array<float, 4> weight = {bits_float(bits.x), bits_float(bits.y), bits_float(bits.z), bits_float(bits.w)};
        const u32 inside = w.inside[at];
#pragma unroll
        for (u32 n = 0; n < 4; n++) {
            Array<u32, 4> element;
#pragma unroll
            for (u32 i = 0; i < 4; i++) element[i] = (n < 2 ? q[i].x : q[i].y) >> n % 2 * 16 & 0xFFFF;
            w.values[33 * at + 4 * part + n] =
                mean_of<HALF>(c, p.slot, p.status, m, element, weight, inside, band + n, factors[n]);
        }
    }
}

// The four source pixels of a lane's pixel, and the range of the source pixels' indices over all lanes.
struct MeansPixels {
    Array<u32, 4> pixel, sums;
    Array<float, 4> weight;
    u32 inside, least, greatest;
};

// Reads two bands of four pixels from a band-major payload. If, for each band, the pixels of all lanes are in one
// block, all lanes use the same planes.
FN void means_read_bands(const CubeParams& p, const Means& m, Ptr<const uint4> planes, const MeansPixels& t, u32 band,
                         Array<Array<u32, 4>, 2>& q) {
    Array<u32, 2> start, block;
    bool together = true;
#pragma unroll
    for (u32 n = 0; n < 2; n++) {
        start[n] = min(band + n, m.bands - 1) * m.pixels;
        block[n] = (start[n] + t.least) / CUBE_BLOCK;
        together = together && (start[n] + t.greatest) / CUBE_BLOCK == block[n];
    }
    if (!together) {
#pragma unroll
        for (u32 n = 0; n < 2; n++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) q[n][i] = element_at<2>(p, planes, start[n] + t.pixel[i]);
        }
        return;
    }
#pragma unroll
    for (u32 n = 0; n < 2; n++) {
        const uint4 low = planes[2 * block[n]], high = planes[2 * block[n] + 1];
        const Ptr<const u8> from_low = place_of(p, (u64)low.y << 32 | low.x), from_high = place_of(p, (u64)high.y << 32 | high.x);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const u32 place = (start[n] + t.pixel[i]) % CUBE_BLOCK;
            q[n][i] = from_low[place * low.z] | (u32)from_high[place * high.z] << 8;
        }
    }
}

// Computes the means of a chunk of bands from a band-major payload, one pixel per lane.
template <bool HALF>
FN void means_by_band(const CubeParams& p, const Cube& c, const Means& m, const QuadsOut& o, MeansWarp& w, MeansPixels& t, u32 chunk,
                      u32 lane) {
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
#pragma unroll 1
    for (u32 turn = 0; turn < 32 && chunk * 32 + turn < m.bands; turn += 2) {
        const u32 band = chunk * 32 + turn;
        Array<Array<u32, 4>, 2> q;
        means_read_bands(p, m, planes, t, band, q);
#pragma unroll
        for (u32 n = 0; n < 2; n++) {
            if (m.difference) {
#pragma unroll
                for (u32 i = 0; i < 4; i++) q[n][i] = t.sums[i] = (t.sums[i] + unzigzag(q[n][i])) & 0xFFFF;
            }
            w.values[33 * lane + turn + n] =
                mean_of<HALF>(c, p.slot, p.status, m, q[n], t.weight, t.inside, band + n, means_factors(m, o, band + n));
        }
    }
}

// Writes the means of a chunk of bands. `start` is the output index of the lane's first value. `present` has a bit
// for each lane that has a pixel.
FN void means_out(const QuadsOut& o, const MeansWarp& w, u32 start, u32 present, bool by_band, u32 chunk, u32 behind, u32 lane) {
    const u32 base = chunk * 32, from = max(base, o.first_band), to = min(base + 32, behind);
    if (by_band) {
        u32 n = start + (from - o.first_band) * o.step_band;
        for (u32 band = from; band < to; band++, n += o.step_band) {
            const u32 value = float_output(w.values[33 * lane + band - base], o.type);
            if ((present >> lane & 1) == 0) continue;
            if (o.type == F32)
                cast<u32>(o.out)[n] = value;
            else
                cast<u16>(o.out)[n] = (u16)value;
        }
        return;
    }
    const u32 band = base + 4 * (lane % MEANS_LANES);
    for (u32 at = lane / MEANS_LANES; at < CUBE_PIXELS; at += 32 / MEANS_LANES) {
        const u32 n = __shfl_sync(0xFFFFFFFFu, start, at) + band - o.first_band;
        if ((present >> at & 1) == 0) continue;
        Array<u32, 4> value;
#pragma unroll
        for (u32 i = 0; i < 4; i++) value[i] = float_output(w.values[33 * at + band - base + i], o.type);
        if (band >= from && band + 4 <= to && (o.offset + o.unit_bytes * n) % (4 * o.unit_bytes) == 0) {
            floats_put(o, n, value[0], value[1], value[2], value[3]);
            continue;
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (band + i < from || band + i >= to) continue;
            if (o.type == F32)
                cast<u32>(o.out)[n + i] = value[i];
            else
                cast<u16>(o.out)[n + i] = (u16)value[i];
        }
    }
}

// Finds the source pixels of pixel `number` of the region, for this lane and for the lanes that share the pixel.
FN void means_pixels(const Cube& c, MeansWarp& w, MeansPixels& t, u32 number, u32 lane) {
    const Taps taps = taps_of(c, number);
    t.weight = taps.weight;
    t.inside = taps.inside;
    t.least = 0xFFFFFFFFu;
    t.greatest = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        t.sums[i] = 0;
        t.pixel[i] = pixel_of(c, taps.pixel[i]);
        if ((t.inside >> i & 1) == 0) continue;
        t.least = min(t.least, t.pixel[i]);
        t.greatest = max(t.greatest, t.pixel[i]);
    }
#pragma unroll
    for (u32 n = 1; n < 32; n *= 2) {
        t.least = min(t.least, __shfl_xor_sync(0xFFFFFFFFu, t.least, n));
        t.greatest = max(t.greatest, __shfl_xor_sync(0xFFFFFFFFu, t.greatest, n));
    }
    // Pixels outside the region are read too, but not used. If all are outside, use the first pixel.
    if (t.least > t.greatest) t.least = t.greatest = c.first_pixel;
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        if ((t.inside >> i & 1) == 0) t.pixel[i] = t.least;
    w.pixels[lane] = make_uint4(t.pixel[0], t.pixel[1], t.pixel[2], t.pixel[3]);
    w.weights[lane] = make_uint4(float_bits(t.weight[0]), float_bits(t.weight[1]), float_bits(t.weight[2]), float_bits(t.weight[3]));
    w.inside[lane] = t.inside;
    w.sums[lane] = make_uint2(0, 0);
    __syncwarp();
}

template <bool HALF>
FN void means(const CubeParams& p, const Cube& c, MeansWarp& w, u32 unit, u32 lane) {
    const u32 columns = c.region_columns, rows = c.region_rows, across = (columns + MEANS_COLUMNS - 1) / MEANS_COLUMNS;
    const u32 parts = (c.chunks + c.chunks_each - 1) / c.chunks_each, tile = unit / parts, skip = unit % parts * c.chunks_each;
    if (tile / across * MEANS_ROWS >= rows) return;
    const u32 x = tile % across * MEANS_COLUMNS + lane % MEANS_COLUMNS, y = tile / across * MEANS_ROWS + lane / MEANS_COLUMNS;
    const u32 present = __ballot_sync(0xFFFFFFFFu, x < columns && y < rows);
    MeansPixels t;
    // Lanes without a pixel repeat a pixel at the edge.
    means_pixels(c, w, t, min(y, rows - 1) * columns + min(x, columns - 1), lane);
    const u32 unit_bytes = c.output == F32 ? 4 : 2, start = c.origin + y * c.step_row + x * c.step_column;
    const Means m = {direct_of(c), c.bands, c.pixels, c.first_band, c.factor_bands, c.difference != 0, bits_float((u32)c.outside)};
    const QuadsOut o = {p.out + c.out, (u32)(c.out & 15), c.mode,         unit_bytes, c.first_band, c.step_band,
                        c.output,      c.factor_bands,    cast<const uint2>(p.slot + c.factors)};
    const u32 behind = c.first_band + c.picks_count, begin = c.first_chunk + skip, end = begin + min(c.chunks_each, c.chunks - skip);
    const bool is_by_band = c.walk == WALK_BANDS, out_by_band = c.out_by_band;
    for (u32 chunk = begin; chunk < end; chunk++) {
        if (is_by_band)
            means_by_band<HALF>(p, c, m, o, w, t, chunk, lane);
        else
            means_by_pixel<HALF>(p, c, m, o, w, chunk, lane);
        __syncwarp();
        means_out(o, w, start, present, out_by_band, chunk, behind, lane);
        __syncwarp();
    }
}

// Converts cube `blockIdx.y` of the batch if its `means` flag is set.
KERNEL_BESIDE(cube_means, CubeParams, MEANS_WARPS * 32, 6) {
    SHARED(MeansMemory, memory);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, unit = blockIdx.x * MEANS_WARPS + warp;
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (!c.means || c.chunks == 0) return;
    if (direct_of(c) == DIRECT_F16)
        means<true>(p, c, memory.warps[warp], unit, lane);
    else
        means<false>(p, c, memory.warps[warp], unit, lane);
}

// Returns the four random words of Philox4x32-10 for the cube's key and sample and for block `n`.
FN uint4 noise_block(const Cube& c, u32 n) {
    uint4 x = make_uint4(c.noise_sample[0], c.noise_sample[1], n, 2);
    u32 k0 = c.noise_key[0], k1 = c.noise_key[1];
#pragma unroll
    for (u32 round = 0; round < 10; round++) {
        const u64 a = (u64)0xD2511F53u * x.x, b = (u64)0xCD9E8D57u * x.z;
        x = make_uint4((u32)(b >> 32) ^ x.y ^ k0, (u32)b, (u32)(a >> 32) ^ x.w ^ k1, (u32)a);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return x;
}

// Returns a deviate, exact in float32: 2^16 times the number of ones in `ones`, plus both halves of `parts`, minus
// the mean.
FN float noise_deviate(u32 ones, u32 parts) {
    return (float)((i32)(((u32)__popc(ones) << 16) + (parts & 0xFFFFu) + (parts >> 16)) - (17 * 65536 - 1));
}

// Adds a deviate to value `n` of a row. A NaN stays a NaN and becomes quiet.
FN void noise_put(const Cube& c, Ptr<u8> out, u32 n, float deviate) {
    u32 x;
    switch (c.output) {
        case F16: x = f32_of_f16(cast<const u16>(out)[n]); break;
        case BF16: x = (u32)cast<const u16>(out)[n] << 16; break;
        default: x = cast<const u32>(out)[n];
    }
    if (c.noise == NOISE_BUT && bits_float(x) == bits_float(c.noise_keep)) return;
    const float noise = rounded_product(deviate, bits_float(c.noise_scale));
    const u32 y = is_nan32(x) ? x | 0x400000u : float_bits(rounded_sum(bits_float(x), noise));
    if (c.output == F32)
        cast<u32>(out)[n] = y;
    else
        cast<u16>(out)[n] = (u16)float_output(y, c.output);
}

// Adds noise to cube `blockIdx.y`, two values per thread. The draw of a value depends on its index in [rows, columns,
// bands]. Two values share a block of random words.
KERNEL(cube_noise, CubeParams, NOISE_THREADS) {
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.noise == NOISE_NOTHING) return;
    const u32 pixels = c.region_rows * c.region_columns, count = pixels * c.picks_count;
    const u32 n = 2 * (blockIdx.x * NOISE_THREADS + threadIdx.x);
    if (n >= count) return;
    const Ptr<u8> out = p.out + c.out;
    if (!c.out_by_band) {
        const uint4 words = noise_block(c, n / 2);
        noise_put(c, out, n, noise_deviate(words.x, words.y));
        if (n + 1 < count) noise_put(c, out, n + 1, noise_deviate(words.z, words.w));
        return;
    }
    for (u32 i = n; i < min(n + 2, count); i++) {
        const u32 place = i % pixels * c.picks_count + i / pixels;
        const uint4 words = noise_block(c, place / 2);
        noise_put(c, out, i, place % 2 == 0 ? noise_deviate(words.x, words.y) : noise_deviate(words.z, words.w));
    }
}

// Finds the smallest and the largest value of cube `blockIdx.y` if it has a gamma. The keys must be 0 at the start.
KERNEL(cube_extremes, CubeParams, GAMMA_THREADS) {
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.gamma == 0.0) return;
    const u32 count = c.region_rows * c.region_columns * c.picks_count;
    const Ptr<const u8> out = p.out + c.out;
    u32 greatest = 0, least = 0;
    for (u32 i = 0; i < GAMMA_EACH; i++) {
        const u32 n = (blockIdx.x * GAMMA_EACH + i) * GAMMA_THREADS + threadIdx.x;
        if (n >= count) break;
        const u32 x = gamma_load(c, out, n);
        if (!gamma_counts(c, x)) continue;
        const u32 key = gamma_key(bits_float(x));
        greatest = max(greatest, key);
        least = max(least, ~key);
    }
    for (u32 n = 16; n > 0; n /= 2) {
        greatest = max(greatest, __shfl_xor_sync(0xFFFFFFFFu, greatest, n));
        least = max(least, __shfl_xor_sync(0xFFFFFFFFu, least, n));
    }
    if (threadIdx.x % 32 != 0) return;
    const Ptr<u32> keys = p.status + p.statuses + 2 * blockIdx.y;
    atomicMax(keys, greatest);
    atomicMax(keys + 1, least);
}

// Raises the values of cube `blockIdx.y` to a power if it has a gamma.
KERNEL(cube_gamma, CubeParams, GAMMA_THREADS) {
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    if (c.gamma == 0.0) return;
    const u32 count = c.region_rows * c.region_columns * c.picks_count;
    const Ptr<u8> out = p.out + c.out;
    const Ptr<const u32> keys = p.status + p.statuses + 2 * blockIdx.y;
    const u32 greatest = keys[0], least = keys[1];
    for (u32 i = 0; i < GAMMA_EACH; i++) {
        const u32 n = (blockIdx.x * GAMMA_EACH + i) * GAMMA_THREADS + threadIdx.x;
        if (n >= count) return;
        u32 x = gamma_load(c, out, n);
        if (is_nan32(x)) x |= 0x400000u;
        if (greatest != 0 && gamma_counts(c, x))
            x = float_bits(gamma_value(bits_float(x), gamma_of_key(~least), gamma_of_key(greatest), c.gamma));
        if (c.output == F32)
            cast<u32>(out)[n] = x;
        else
            cast<u16>(out)[n] = (u16)float_output(x, c.output);
    }
}

struct CubeConfig {
    Ptr<u32> out;
};

// Reports constants and struct sizes, which the host compares with its own.
KERNEL(cube_config, CubeConfig, 32) {
    if (threadIdx.x != 0) return;
    const u32 sizes[] = {sizeof(CubeParams), sizeof(CubeStream), sizeof(CubePiece), sizeof(CubePlane), sizeof(CubePick),
                         sizeof(Cube),       CUBE_BLOCK,         CUBE_PIXELS,       CUBE_PIECE_THREADS, STREAM_WARPS,
                         TILE_WARPS,         Element<4>::BANDS,  Element<8>::BANDS, BF16,              FAULT_LZ4,
                         FAULT_FIXED,        FAULT_BOOL,        QUAD_PIXELS,       WALK_QUADS,         FAULT_ZSTD,
                         FILL_NANS,          NOISE_BUT,         NOISE_THREADS,      AFFINE_VIEW,       AFFINE_WARPS,
                         MEANS_WARPS,        MEANS_COLUMNS,     GAMMA_THREADS,      GAMMA_EACH,        VIEW_THREADS,
                         AFFINE_VOLUME_MEAN, VOLUME_THREADS,    sizeof(VolumeMove)};
    for (u32 n = 0; n < sizeof(sizes) / 4; n++) p.out[n] = sizes[n];
}
