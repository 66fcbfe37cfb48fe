// One LZ4 block, decoded by the 32 lanes of a warp. All lanes read the tokens; literals and matches are copied 32
// bytes at a time. Every length and offset is checked before it is used, by the rules of LZ4_decompress_safe: what it
// refuses is refused here. (It takes an offset of 0, and a few blocks whose last match comes too late, that no writer
// makes; those are refused here.)
//
// Rates go by instructions for each sequence, of which noise has thousands in a block. The input and the newest output
// stand in shared memory for that: a byte of either is one instruction away, and global memory sees whole lines only.
#pragma once
#include "device.cuh"

// Bytes that pass between global and shared memory at a time: 16 a lane.
#define LZ4_LINE 512u
// Two lines of input: one that is read, one that comes.
#define LZ4_INPUT (2 * LZ4_LINE)
// The newest output. Matches from before it are read back from global memory.
#define LZ4_HISTORY 4096u
// Longest offset that is looked up in the history: lanes may be a sequence ahead of each other, up to a barrier.
#define LZ4_NEAR (LZ4_HISTORY - 64)

struct Lz4Memory {
    Array<uint4, LZ4_INPUT / 16> input;
    Array<uint4, LZ4_HISTORY / 16> history;
};

struct Lz4Reader {
    // The input from a multiple of 16 on; positions are counted from there.
    Ptr<const uint4> from;
    u32 end;
    // Up to here the input is in shared memory; the line after that is on its way in `next`.
    u32 loaded;
    uint4 next;
};

FN void lz4_fetch(Lz4Reader& in, u32 lane) {
    in.next = make_uint4(0, 0, 0, 0);
    if (in.loaded + 16 * lane < in.end) in.next = in.from[in.loaded / 16 + lane];
}

FN void lz4_advance(Lz4Reader& in, Lz4Memory& memory, u32 lane) {
    __syncwarp();
    memory.input[(in.loaded / 16 + lane) % (LZ4_INPUT / 16)] = in.next;
    in.loaded += LZ4_LINE;
    lz4_fetch(in, lane);
    __syncwarp();
}

// Makes the input up to `until` readable; what stands a line before that is forgotten.
FN void lz4_need(Lz4Reader& in, Lz4Memory& memory, u32 until, u32 lane) {
    if (until > in.loaded) lz4_advance(in, memory, lane);
}

FN u32 lz4_byte(const Lz4Memory& memory, u32 at) { return ((const u8*)&memory.input)[at % LZ4_INPUT]; }

// Four bytes of the input.
FN u32 lz4_word(const Lz4Memory& memory, u32 at) {
    const u32* words = (const u32*)&memory.input;
    const u32 n = at / 4;
    return __funnelshift_r(words[n % (LZ4_INPUT / 4)], words[(n + 1) % (LZ4_INPUT / 4)], at % 4 * 8);
}

FN u8& lz4_history(Lz4Memory& memory, u32 at) { return ((u8*)&memory.history)[at % LZ4_HISTORY]; }

// Four bytes of the history.
FN u32 lz4_history_word(Lz4Memory& memory, u32 at) {
    const u32* words = (const u32*)&memory.history;
    const u32 n = at / 4;
    return __funnelshift_r(words[n % (LZ4_HISTORY / 4)], words[(n + 1) % (LZ4_HISTORY / 4)], at % 4 * 8);
}

// Puts four bytes to a multiple of 4.
FN void lz4_put_word(Lz4Memory& memory, u32 at, u32 word) {
    ((u32*)&memory.history)[at / 4 % (LZ4_HISTORY / 4)] = word;
}

// Where a block goes.
struct Lz4Writer {
    Ptr<u8> out;
    // Whether `out` is a multiple of 16.
    bool aligned;
    // Up to here the output is in global memory, too.
    u32 flushed;
};

// Hands a line of history on to global memory if one is full.
FN void lz4_flush(Lz4Writer& to, Lz4Memory& memory, u32 done, u32 lane) {
    if (done - to.flushed < LZ4_LINE) return;
    __syncwarp();
    if (to.aligned) {
        cast<uint4>(to.out + to.flushed)[lane] = memory.history[(to.flushed / 16 + lane) % (LZ4_HISTORY / 16)];
    } else {
        for (u32 n = lane; n < LZ4_LINE; n += 32) to.out[to.flushed + n] = lz4_history(memory, to.flushed + n);
    }
    to.flushed += LZ4_LINE;
}

// Decodes the block of `bytes` bytes, at least 1, at `base + at` to the `out_bytes` bytes at `base + to`, all of which
// it must fill. `base` is a multiple of 16, and 16 bytes around the block can be read. Returns whether the block is
// sound; if not, some of the output may be written.
FN bool lz4_block(Ptr<u8> base, u64 at, u32 bytes, u64 to, u32 out_bytes, Lz4Memory& memory, u32 lane) {
    Lz4Writer writer;
    writer.out = base + to;
    writer.aligned = (to & 15) == 0;
    writer.flushed = 0;
    Lz4Reader in;
    in.from = cast<const uint4>(base + (at & ~(u64)15));
    u32 ip = (u32)(at & 15);
    const u32 end = ip + bytes;
    in.end = end;
    in.loaded = 0;
    lz4_fetch(in, lane);
    u32 op = 0;
    // Each lane has the four bytes of the input from `seen + lane` on; old enough to be replaced.
    u32 window = 0, seen = ip - 32;
    for (;;) {
        // Short literals and a short match, far from both ends: most of noise, and a third of the instructions.
        while (ip + 80 <= end && op + 64 <= out_bytes) {
            if (ip - seen >= 16) {
                lz4_need(in, memory, ip + 64, lane);
                window = lz4_word(memory, ip + lane);
                seen = ip;
            }
            const u32 word = __shfl_sync(0xFFFFFFFFu, window, ip - seen);
            const u32 literals = word >> 4 & 15, length = (word & 15) + 4;
            if (literals == 15 || length == 19) break;
            u32 offset = word >> 8 & 0xFFFF;
            if (literals != 0) {
                const u32 mine = __shfl_sync(0xFFFFFFFFu, window, (ip - seen + 1 + lane) & 31);
                offset = __shfl_sync(0xFFFFFFFFu, window, ip - seen + 1 + literals) & 0xFFFF;
                if (lane < literals) lz4_history(memory, op + lane) = (u8)mine;
                op += literals;
                ip += literals;
            }
            ip += 3;
            if (offset - 1 >= op) return false;
            // What the other lanes wrote can be read after this.
            __syncwarp();
            if (lane < length) {
                const u32 from = op - offset + (offset < length ? lane % offset : lane);
                u8 value;
                if (offset <= LZ4_NEAR)
                    value = lz4_history(memory, from);
                else
                    value = writer.out[from];
                lz4_history(memory, op + lane) = value;
            }
            op += length;
            lz4_flush(writer, memory, op, lane);
        }

        lz4_need(in, memory, ip + 64, lane);
        const u32 token = lz4_byte(memory, ip++);
        u32 literals = token >> 4;
        if (literals == 15) {
            if (ip + 15 >= end) return false;
            u32 more;
            do {
                lz4_need(in, memory, ip + 64, lane);
                more = lz4_byte(memory, ip++);
                literals += more;
                if (ip + 15 > end) return false;
            } while (more == 255);
        }
        const bool last = op + literals + 12 > out_bytes || ip + literals + 8 > end;
        if (last && (ip + literals != end || op + literals != out_bytes)) return false;
        // A lane must not run a line ahead of one that still copies the match before.
        __syncwarp();
        u32 n = 0;
        if (literals >= 160) {
            // Four bytes a lane, from where the history has whole words.
            n = (0 - op) & 3;
            if (lane < n) lz4_history(memory, op + lane) = (u8)lz4_byte(memory, ip + lane);
            for (; n + 128 <= literals; n += 128) {
                lz4_need(in, memory, ip + n + 160, lane);
                lz4_put_word(memory, op + n + 4 * lane, lz4_word(memory, ip + n + 4 * lane));
                lz4_flush(writer, memory, op + n + 128, lane);
            }
        }
        for (; n < literals; n += 32) {
            lz4_need(in, memory, ip + n + 32, lane);
            if (n + lane < literals) lz4_history(memory, op + n + lane) = (u8)lz4_byte(memory, ip + n + lane);
            lz4_flush(writer, memory, op + min(n + 32, literals), lane);
        }
        ip += literals;
        op += literals;
        if (last) break;

        lz4_need(in, memory, ip + 32, lane);
        const u32 offset = lz4_byte(memory, ip) | lz4_byte(memory, ip + 1) << 8;
        ip += 2;
        u32 length = token & 15;
        if (length == 15) {
            u32 more;
            do {
                lz4_need(in, memory, ip + 32, lane);
                more = lz4_byte(memory, ip++);
                length += more;
                if (ip + 4 > end) return false;
            } while (more == 255);
        }
        length += 4;
        if (offset - 1 >= op || op + length + 5 > out_bytes) return false;
        __syncwarp();
        // Bytes that repeat: the first 32 come from the bytes before them, the others from whole periods back, so that no lane waits for another. `wide` is
        // the same for four bytes a lane, which are read out of two words: even what is dropped of these nobody writes.
        const u32 first = offset < 32 ? lane % offset : lane;
        const u32 back = (31 + offset) / offset * offset, wide = (131 + offset) / offset * offset;
        for (n = 0; n < length;) {
            if (n >= 132 && n + 128 <= length && (op + n) % 4 == 0 && wide <= LZ4_HISTORY - 256) {
                lz4_put_word(memory, op + n + 4 * lane, lz4_history_word(memory, op + n + 4 * lane - wide));
                n += 128;
            } else {
                // The second turn ends where the history has whole words.
                const u32 count = min(length - n, n == 32 ? 32 - (op & 3) : 32);
                const u32 from = n == 0 ? op + first - offset : op + n + lane - back;
                if (lane < count) {
                    u8 value;
                    if (back <= LZ4_NEAR)
                        value = lz4_history(memory, from);
                    else
                        value = writer.out[from];
                    lz4_history(memory, op + n + lane) = value;
                }
                n += count;
            }
            __syncwarp();
            lz4_flush(writer, memory, op + n, lane);
        }
        op += length;
    }
    lz4_flush(writer, memory, op, lane);
    __syncwarp();
    for (u32 n = writer.flushed + lane; n < op; n += 32) writer.out[n] = lz4_history(memory, n);
    return true;
}
