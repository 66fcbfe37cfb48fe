// Copies the bytes of kept values that a batch needs into the slot, where the other kernels read them.
#include "device.cuh"

// A range of `bytes` bytes of a value, and its destination in the slot, both unaligned.
struct Piece {
    u64 from;
    u64 to;
    u32 bytes;
    u32 unused;
};

constexpr u32 GATHER_THREADS = 128;

struct GatherConfigParams {
    Ptr<u32> out;
};

// Reports constants and struct sizes, which the host compares with its own.
KERNEL(gather_config, GatherConfigParams, 32) {
    if (threadIdx.x) return;
    p.out[0] = sizeof(Piece);
    p.out[1] = GATHER_THREADS;
}

struct GatherParams {
    Ptr<const u8> kept;
    Ptr<u8> slot;
    Ptr<const Piece> pieces;
    u32 count;
};

// Each warp copies one piece, mostly in whole words, and may read the word after the last byte. Kept values and slots
// begin at multiples of 256. The memory for kept values has 16 bytes after the last value.
KERNEL(gather, GatherParams, GATHER_THREADS) {
    u32 n = blockIdx.x * (GATHER_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (n >= p.count) return;
    Piece piece = p.pieces[n];
    u64 from = piece.from, to = piece.to;
    u32 head = min((u32)(16 - (to & 15)) & 15, piece.bytes), left = piece.bytes - head;
    if (lane < head) p.slot[to + lane] = p.kept[from + lane];
    from += head;
    to += head;
    u32 done = 0;
    if (from % 16 == 0) {
        Ptr<const uint4> quads = cast<const uint4>(p.kept + from);
        Ptr<uint4> out = cast<uint4>(p.slot + to);
        done = left / 16 * 16;
#pragma unroll 4
        for (u32 i = lane; i < left / 16; i += 32) out[i] = quads[i];
    } else {
        u32 shift = (u32)(from & 3) * 8;
        Ptr<const u32> words = cast<const u32>(p.kept + from / 4 * 4);
        Ptr<u32> out = cast<u32>(p.slot + to);
        done = left / 4 * 4;
#pragma unroll 4
        for (u32 i = lane; i < left / 4; i += 32) out[i] = __funnelshift_r(words[i], words[i + 1], shift);
    }
    for (u32 i = done + lane; i < left; i += 32) p.slot[to + i] = p.kept[from + i];
}
