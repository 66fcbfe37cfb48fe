// Cubes: Blosc2 chunks as they stand in a shard (format-spec §4 and §5.3) to the values of a batch. Three kernels, in
// this order, each for all cubes of a batch:
//
//   cube_streams   LZ4 streams, a warp each; streams that are stored, or runs, stay where they are
//   cube_pieces    bit planes and differences of bytes undone, a stream a block of threads: what is left are byte planes
//   cube_by_band / cube_by_pixel
//                  bytes to elements, differences along the bands summed up, values, in the order of the output
//
// The host has checked all numbers but those inside of LZ4 streams.
#include "cube.cuh"
#include "lz4.cuh"

#define STREAM_WARPS 4u
#define TILE_WARPS 4u

struct CubeParams {
    Ptr<u8> slot;
    Ptr<u8> out;
    // One word for each cube; 0 before and, where all is well, after.
    Ptr<u32> status;
    // In the slot: CubeStream[], CubePiece[] or Cube[].
    u64 table;
    u32 count;
    u32 unused;
};

struct StreamsMemory {
    Array<Lz4Memory, STREAM_WARPS> warps;
};

// Four bytes from anywhere; up to 7 after them are read as well.
FN u32 word_at(Ptr<const u8> slot, u64 at) {
    const Ptr<const u32> words = cast<const u32>(slot + (at & ~(u64)3));
    const u32 shift = (u32)(at & 3) * 8;
    if (shift == 0) return words[0];
    return __funnelshift_r(words[0], words[1], shift);
}

KERNEL(cube_streams, CubeParams, STREAM_WARPS * 32) {
    SHARED(StreamsMemory, memory);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = blockIdx.x * STREAM_WARPS + warp;
    if (n >= p.count) return;
    const CubeStream s = cast<const CubeStream>(p.slot + p.table)[n];
    if (s.kind == STREAM_LZ4) {
        const bool sound = lz4_block(p.slot, s.from, s.bytes, s.to, s.out_bytes, memory.warps[warp], lane);
        if (!sound && lane == 0) cube_fault(p.status, s.row, FAULT_LZ4, s.number);
    } else {
        // By words where these begin and end whole.
        const u32 words = s.to % 4 == 0 ? s.out_bytes / 4 : 0, run = (u32)s.from * 0x01010101u;
        const Ptr<u32> to = cast<u32>(p.slot + (s.to & ~(u64)3));
        for (u32 i = lane; i < words; i += 32) to[i] = s.kind == STREAM_RUN ? run : word_at(p.slot, s.from + 4 * (u64)i);
        for (u32 i = 4 * words + lane; i < s.out_bytes; i += 32)
            p.slot[s.to + i] = s.kind == STREAM_RUN ? (u8)run : p.slot[s.from + i];
    }
}

// Swaps bits of b with those of a that stand `n` higher.
#define SWAP_BITS(a, b, n, mask)                  \
    {                                             \
        const u32 t = ((a) >> (n) ^ (b)) & (mask); \
        (b) ^= t;                                 \
        (a) ^= t << (n);                          \
    }

// Words of 8 bit planes to the bytes of 32 elements: an 8 x 8 matrix of bits for each of the 4 bytes of a word is
// transposed, then the bytes are brought into order.
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

struct PiecesMemory {
    Array<u32, 32> sums;
};

// A piece may be turned in place: all of it is read before any of it is written.
KERNEL(cube_pieces, CubeParams, CUBE_PIECE_THREADS) {
    SHARED(PiecesMemory, memory);
    const CubePiece s = cast<const CubePiece>(p.slot + p.table)[blockIdx.x];
    const u32 thread = threadIdx.x, lane = thread % 32;
    if (s.delta == 0) {
        const u32 whole = s.count / 8 * 8, plane = whole / 8;
        // Two turns of 1024 threads and 32 elements each are the longest piece.
        Array<u32, 8> first, second;
        const u32 at = 32 * thread, then = at + 32 * CUBE_PIECE_THREADS;
#pragma unroll
        for (u32 k = 0; k < 8; k++) {
            first[k] = at < whole ? word_at(p.slot, s.from + k * plane + at / 8) : 0;
            second[k] = then < whole ? word_at(p.slot, s.from + k * plane + then / 8) : 0;
        }
        u8 odd = 0;
        if (thread < s.count - whole) odd = p.slot[s.rest + thread * s.step];
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
    // Running sums of up to 65,536 bytes: 64 for each thread, then those of the threads before it.
    Array<u32, 16> w;
    u32 sum = 0;
#pragma unroll
    for (u32 k = 0; k < 16; k++) {
        const u32 at = 64 * thread + 4 * k;
        w[k] = at < s.count ? word_at(p.slot, s.from + at) : 0;
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
        // Four sums of bytes in one word, without carries between them.
        const u32 x = ((w[k] & 0x7F7F7F7Fu) + (bytes & 0x7F7F7F7Fu)) ^ ((w[k] ^ bytes) & 0x80808080u);
        const u32 at = 64 * thread + 4 * k;
        if (s.to % 4 == 0 && at + 4 <= s.count) {
            *cast<u32>(p.slot + s.to + at) = x;
        } else {
            for (u32 i = at; i < min(at + 4, s.count); i++) p.slot[s.to + i] = (u8)(x >> 8 * (i - at));
        }
    }
}

// Elements of up to 4 bytes in a tile: a word each, rows of 33 so that lanes of a column meet no bank twice. Of 8 bytes:
// half as many bands, the upper words in a half of their own.
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

// Stored element `e` of a payload.
template <u32 WIDTH> FN typename Element<WIDTH>::T element_at(Ptr<const u8> slot, Ptr<const uint4> planes, u32 e) {
    typename Element<WIDTH>::T q = 0;
    const u32 block = e / CUBE_BLOCK, i = e % CUBE_BLOCK;
#pragma unroll
    for (u32 j = 0; j < WIDTH; j++) {
        const uint4 plane = planes[block * WIDTH + j];
        const u64 at = (u64)plane.y << 32 | plane.x;
        q |= (typename Element<WIDTH>::T)slot[at + (u64)i * plane.z] << 8 * j;
    }
    return q;
}

// A signed difference out of a zigzag-coded one; exact modulo 2^8 and 2^16.
FN u32 unzigzag(u32 z) { return z >> 1 ^ (0 - (z & 1)); }

template <u32 WIDTH> FN u32 mask_of() { return WIDTH == 1 ? 0xFFu : 0xFFFFu; }

// Number of the pixel that is number `n` of the region.
FN u32 pixel_of(const Cube& c, u32 n) {
    if (c.region_columns == c.columns) return c.first_pixel + n;
    return c.first_pixel + n / c.region_columns * c.columns + n % c.region_columns;
}

// The values of a tile of pixels and a chunk of bands, to their places.
template <u32 WIDTH>
FN void tile_out(const CubeParams& p, const Cube& c, const Array<u32, TILE_WORDS>& tile, u32 first, u32 count, u32 chunk,
                 u32 lane) {
    const Ptr<const CubePick> picks = cast<const CubePick>(p.slot + c.picks);
    const Ptr<u8> out = p.out + c.out;
    const u32 base = chunk * Element<WIDTH>::BANDS;
    // Numbers of bands, or of picks.
    u32 from, to;
    if (c.picked) {
        const Ptr<const u32> starts = cast<const u32>(p.slot + c.chunk_picks) + (chunk - c.first_chunk);
        from = starts[0];
        to = starts[1];
    } else {
        from = max(base, c.first_band);
        to = min(base + Element<WIDTH>::BANDS, c.first_band + c.picks_count);
    }
    if (from >= to) return;
    // Lanes go along what is contiguous in the output: pixels of one band, or bands of one pixel. Pixels are turned here,
    // in the addresses of the stores, so that loads are what they always are: a turned load of one byte in 32 would cost
    // a sector for each plane. Stores of bands of one pixel stay side by side wherever the pixel goes, and so do those of
    // a flipped row, backwards. Only a transposed plane gets them a row apart, two or four bytes each; the tiles of the
    // rows below, which run at the same time, fill the rest of these sectors while they are in the second-level cache.
    const u32 number = first + min(lane, count - 1), y = number / c.region_columns, x = number - y * c.region_columns;
    const u32 mine = c.origin + y * c.step_row + x * c.step_column;
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

// Whether a band of this chunk comes out; most have none where few bands are listed.
FN bool chunk_is_asked(const CubeParams& p, const Cube& c, u32 chunk) {
    if (!c.picked) return true;
    const Ptr<const u32> starts = cast<const u32>(p.slot + c.chunk_picks) + (chunk - c.first_chunk);
    return starts[0] < starts[1];
}

// Band-major payloads: a lane has a pixel and goes through its bands.
template <u32 WIDTH>
FN void by_band(const CubeParams& p, const Cube& c, Array<u32, TILE_WORDS>& tile, u32 first, u32 chunk, u32 chunks, u32 lane) {
    typedef typename Element<WIDTH>::T T;
    const u32 pixels = c.region_rows * c.region_columns, count = min(CUBE_PIXELS, pixels - first);
    const u32 pixel = pixel_of(c, first + min(lane, count - 1));
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
    u32 sum = 0;
    for (u32 end = chunk + chunks; chunk < end; chunk++) {
        const u32 base = chunk * Element<WIDTH>::BANDS;
        if (!c.difference && !chunk_is_asked(p, c, chunk)) continue;
        for (u32 n = 0; n < Element<WIDTH>::BANDS && base + n < c.bands; n += 8) {
            // Loads that wait for each other's tables are slow one by one.
            Array<T, 8> q;
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                const u32 band = min(base + n + i, c.bands - 1);
                q[i] = element_at<WIDTH>(p.slot, planes, band * c.pixels + pixel);
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
        __syncwarp();
        tile_out<WIDTH>(p, c, tile, first, count, chunk, lane);
        __syncwarp();
    }
}

// Payloads in the order of the shape: a lane has a band of one pixel after the other.
template <u32 WIDTH>
FN void by_pixel(const CubeParams& p, const Cube& c, Array<u32, TILE_WORDS>& tile, u32 first, u32 chunk, u32 chunks, u32 lane) {
    const u32 pixels = c.region_rows * c.region_columns, count = min(CUBE_PIXELS, pixels - first);
    const Ptr<const uint4> planes = cast<const uint4>(p.slot + c.planes);
    // The sum of pixel `lane` so far.
    u32 carry = 0;
    for (u32 end = chunk + chunks; chunk < end; chunk++) {
        if (!c.difference && !chunk_is_asked(p, c, chunk)) continue;
        const u32 band = chunk * Element<WIDTH>::BANDS + lane % Element<WIDTH>::BANDS;
        // Elements of 8 bytes: half a warp for each of two pixels.
        const u32 each = 32 / Element<WIDTH>::BANDS;
        for (u32 r = 0; r < count; r += each) {
            const u32 mine = r + lane / Element<WIDTH>::BANDS;
            const u32 pixel = pixel_of(c, first + min(mine, count - 1));
            typename Element<WIDTH>::T q = 0;
            if (band < c.bands) q = element_at<WIDTH>(p.slot, planes, pixel * c.bands + band);
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
    if (c.by_band)
        by_band<WIDTH>(p, c, tile, first, c.first_chunk + skip, chunks, lane);
    else
        by_pixel<WIDTH>(p, c, tile, first, c.first_chunk + skip, chunks, lane);
}

// Cube `blockIdx.y` of the batch; `p.count` is the number of units of the largest one.
KERNEL(cube_values, CubeParams, TILE_WARPS * 32) {
    SHARED(TilesMemory, memory);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Cube& c = *(cast<const Cube>(p.slot + p.table) + blockIdx.y);
    const u32 unit = blockIdx.x * TILE_WARPS + warp;
    Array<u32, TILE_WORDS>& tile = memory.tiles[warp];
    switch (c.width) {
        case 1: values<1>(p, c, tile, unit, lane); break;
        case 2: values<2>(p, c, tile, unit, lane); break;
        case 4: values<4>(p, c, tile, unit, lane); break;
        default: values<8>(p, c, tile, unit, lane);
    }
}

struct CubeConfig {
    Ptr<u32> out;
};

// What the host takes for granted.
KERNEL(cube_config, CubeConfig, 32) {
    if (threadIdx.x != 0) return;
    const u32 sizes[] = {sizeof(CubeParams), sizeof(CubeStream), sizeof(CubePiece), sizeof(CubePlane), sizeof(CubePick),
                         sizeof(Cube),       CUBE_BLOCK,         CUBE_PIXELS,       CUBE_PIECE_THREADS, STREAM_WARPS,
                         TILE_WARPS,         Element<4>::BANDS,  Element<8>::BANDS, BF16,              FAULT_LZ4,
                         FAULT_FIXED,        FAULT_BOOL};
    for (u32 n = 0; n < sizeof(sizes) / 4; n++) p.out[n] = sizes[n];
}
