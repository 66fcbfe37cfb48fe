// Decodes one LZ4 block with the 32 lanes of a warp. All lanes read the tokens, and copy literals and matches
// together. Every length and offset is checked before use, by the rules of LZ4_decompress_safe. An offset of 0, and a
// last match too close to the end of the block, are rejected too, because no writer produces them.
//
// The number of instructions per sequence determines the speed, because a block of noise has thousands of sequences.
// So the input and the newest output are in shared memory, where access to a byte takes one instruction, and global
// memory is accessed in whole lines.
#pragma once
#include "device.cuh"

// Number of bytes copied between global and shared memory at a time, 16 per lane.
#define LZ4_LINE 512u
// Size of the input buffer: the current line and the next.
#define LZ4_INPUT (2 * LZ4_LINE)
// Number of bytes of the newest output in shared memory. Older matches are read back from global memory.
#define LZ4_HISTORY 4096u
// Longest offset that is read from the history. It is slightly shorter than the history, because between two barriers
// some lanes may already write the next sequence.
#define LZ4_NEAR (LZ4_HISTORY - 64)

struct Lz4Memory {
    Array<uint4, LZ4_INPUT / 16> input;
    Array<uint4, LZ4_HISTORY / 16> history;
};

struct Lz4Reader {
    // The input, from a multiple of 16 on. Positions are relative to it.
    Ptr<const uint4> from;
    u32 end;
    // End of the input in shared memory. The line after it is being loaded into `next`.
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

// Makes the input up to `until` readable. Input more than a line before `until` is no longer readable.
FN void lz4_need(Lz4Reader& in, Lz4Memory& memory, u32 until, u32 lane) {
    if (until > in.loaded) lz4_advance(in, memory, lane);
}

FN u32 lz4_byte(const Lz4Memory& memory, u32 at) { return ((const u8*)&memory.input)[at % LZ4_INPUT]; }

FN u32 lz4_word(const Lz4Memory& memory, u32 at) {
    const u32* words = (const u32*)&memory.input;
    const u32 n = at / 4;
    return __funnelshift_r(words[n % (LZ4_INPUT / 4)], words[(n + 1) % (LZ4_INPUT / 4)], at % 4 * 8);
}

FN u8& lz4_history(Lz4Memory& memory, u32 at) { return ((u8*)&memory.history)[at % LZ4_HISTORY]; }

FN u32 lz4_history_word(Lz4Memory& memory, u32 at) {
    const u32* words = (const u32*)&memory.history;
    const u32 n = at / 4;
    return __funnelshift_r(words[n % (LZ4_HISTORY / 4)], words[(n + 1) % (LZ4_HISTORY / 4)], at % 4 * 8);
}

// Writes four bytes at an offset that is a multiple of 4.
FN void lz4_put_word(Lz4Memory& memory, u32 at, u32 word) {
    ((u32*)&memory.history)[at / 4 % (LZ4_HISTORY / 4)] = word;
}

struct Lz4Writer {
    Ptr<u8> out;
    // True if `out` is 16-byte aligned.
    bool aligned;
    // End of the output in global memory.
    u32 flushed;
};

// Writes a full line of the history, if there is one, to global memory.
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

// Returns four bytes of input per lane, from `at + lane` on. They hold lengths and offsets.
FN u32 lz4_window(Lz4Reader& in, Lz4Memory& memory, u32 at, u32 lane) {
    lz4_need(in, memory, at + 64, lane);
    return lz4_word(memory, at + lane);
}

// Copies `count` bytes, at most 128, from the input to the history, in whole words except at both ends.
FN void lz4_literals(Lz4Memory& memory, u32 from, u32 to, u32 count, u32 lane) {
    const u32 head = min((0 - to) & 3, count), words = (count - head) / 4;
    if (lane < words) lz4_put_word(memory, to + head + 4 * lane, lz4_word(memory, from + head + 4 * lane));
    const u32 i = lane < head ? lane : lane + 4 * words;
    if (i < count && lane < 6) lz4_history(memory, to + i) = (u8)lz4_byte(memory, from + i);
}

// Copies `count` bytes of the history from `back` bytes back, which is at least 132 or `count` + 4. A word is
// combined from two words. No lane writes to either of them at the same time, not even to unused bytes.
FN void lz4_repeat(Lz4Memory& memory, u32 to, u32 back, u32 count, u32 lane) {
    const u32 head = min((0 - to) & 3, count), words = (count - head) / 4;
    if (lane < words)
        lz4_put_word(memory, to + head + 4 * lane, lz4_history_word(memory, to + head + 4 * lane - back));
    const u32 i = lane < head ? lane : lane + 4 * words;
    if (i < count && lane < 6) lz4_history(memory, to + i) = lz4_history(memory, to + i - back);
}

// Returns a byte of output that all lanes have finished writing.
FN u8 lz4_written(const Lz4Writer& to, Lz4Memory& memory, u32 at, u32 offset) {
    return offset <= LZ4_NEAR ? lz4_history(memory, at) : to.out[at];
}

// Copies a match of more than 32 bytes to `op`.
FN void lz4_long_match(Lz4Writer& to, Lz4Memory& memory, u32 op, u32 offset, u32 length, u32 lane) {
    if (offset > LZ4_HISTORY - 256) {
        for (u32 n = 0; n < length; n += 32) {
            if (n + lane < length) lz4_history(memory, op + n + lane) = lz4_written(to, memory, op + n + lane - offset, offset);
            __syncwarp();
            lz4_flush(to, memory, op + min(n + 32, length), lane);
        }
        return;
    }
    u32 n = 0, back = offset, share = 0;
    if (offset < 132) {
        // Each lane copies its byte from several whole periods back, far enough that no lane waits for another. The
        // product computes n / offset for n below 200.
        share = (0xFFFF + offset) / offset;
        if (offset < 36) {
            lz4_history(memory, op + lane) = lz4_history(memory, op - offset + lane - (lane * share >> 16) * offset);
            n = 32;
            __syncwarp();
            lz4_flush(to, memory, op + n, lane);
        }
    }
    while (n < length) {
        if (back < 132) back = (n * share >> 16) * offset + offset;
        const u32 count = min(min(length - n, back - 4), 128u);
        lz4_repeat(memory, op + n, back, count, lane);
        n += count;
        __syncwarp();
        lz4_flush(to, memory, op + n, lane);
    }
}

// Decodes a block of `bytes` bytes (at least 1), which begins `at` bytes (at most 15) after `from`, a multiple of 16.
// The block must fill the `out_bytes` bytes at `out`, a multiple of 16 if `aligned`. 16 bytes on each side of the
// block are readable. Returns true if the block is valid. Otherwise, part of the output may be written.
FN bool lz4_block(Ptr<const u8> from, u32 at, u32 bytes, Ptr<u8> out, bool aligned, u32 out_bytes, Lz4Memory& memory,
                  u32 lane) {
    Lz4Writer writer;
    writer.out = out;
    writer.aligned = aligned;
    writer.flushed = 0;
    Lz4Reader in;
    in.from = cast<const uint4>(from);
    u32 ip = at;
    const u32 end = ip + bytes;
    in.end = end;
    in.loaded = 0;
    lz4_fetch(in, lane);
    u32 op = 0;
    // Each lane holds four bytes of input, from `seen + lane` on. The initial `seen` forces the window to be loaded
    // before its first use.
    u32 window = 0, seen = ip - 32;
    for (;;) {
        // If the token is in the first half of the window, short literals and an offset fit in the rest.
        if (ip - seen > 16) {
            window = lz4_window(in, memory, ip, lane);
            seen = ip;
        }
        u32 word = __shfl_sync(0xFFFFFFFFu, window, ip - seen);
        const u32 token = word & 0xFF;
        u32 literals = token >> 4;
        // Fast path for the most common sequence: short literals and a short match, far from both ends.
        if (ip + 80 <= end && op + 64 <= out_bytes && literals != 15 && token % 16 != 15) {
            word >>= 8;
            ip++;
            if (literals != 0) {
                const u32 mine = __shfl_sync(0xFFFFFFFFu, window, (ip - seen + lane) & 31);
                word = __shfl_sync(0xFFFFFFFFu, window, ip - seen + literals);
                if (lane < literals) lz4_history(memory, op + lane) = (u8)mine;
                ip += literals;
                op += literals;
            }
            const u32 offset = word & 0xFFFF, length = token % 16 + 4;
            ip += 2;
            if (offset - 1 >= op) return false;
            // Make the other lanes' bytes readable.
            __syncwarp();
            if (lane < length) {
                const u32 from = op - offset + (offset < length ? lane % offset : lane);
                lz4_history(memory, op + lane) = lz4_written(writer, memory, from, offset);
            }
            op += length;
            lz4_flush(writer, memory, op, lane);
            continue;
        }
        ip++;
        if (literals == 15) {
            if (ip + 15 >= end) return false;
            u32 more = word >> 8 & 0xFF;
            for (;;) {
                ip++;
                literals += more;
                if (ip + 15 > end) return false;
                if (more != 255) break;
                lz4_need(in, memory, ip + 64, lane);
                more = lz4_byte(memory, ip);
            }
        }
        const bool last = op + literals + 12 > out_bytes || ip + literals + 8 > end;
        if (last && (ip + literals != end || op + literals != out_bytes)) return false;
        if (literals == 0) {
            word >>= 8;
        } else if (literals < 15) {
            const u32 mine = __shfl_sync(0xFFFFFFFFu, window, (ip - seen + lane) & 31);
            word = __shfl_sync(0xFFFFFFFFu, window, ip - seen + literals);
            if (lane < literals) lz4_history(memory, op + lane) = (u8)mine;
        } else {
            // No lane may get a line ahead of a lane that still copies the previous match.
            __syncwarp();
            for (u32 n = 0; n < literals; n += 128) {
                const u32 count = min(literals - n, 128u);
                lz4_need(in, memory, ip + n + 160, lane);
                lz4_literals(memory, ip + n, op + n, count, lane);
                lz4_flush(writer, memory, op + n + count, lane);
            }
            seen = ip + literals;
            if (!last) {
                window = lz4_window(in, memory, seen, lane);
                word = __shfl_sync(0xFFFFFFFFu, window, 0);
            }
        }
        ip += literals;
        op += literals;
        if (last) break;

        const u32 offset = word & 0xFFFF;
        u32 length = token & 15;
        ip += 2;
        if (length == 15) {
            u32 more = word >> 16 & 0xFF;
            for (;;) {
                ip++;
                length += more;
                if (ip + 4 > end) return false;
                if (more != 255) break;
                lz4_need(in, memory, ip + 64, lane);
                more = lz4_byte(memory, ip);
            }
        }
        length += 4;
        if (offset - 1 >= op || op + length + 5 > out_bytes) return false;
        __syncwarp();
        if (length > 32) {
            lz4_long_match(writer, memory, op, offset, length, lane);
        } else {
            if (lane < length) {
                const u32 from = op - offset + (offset < length ? lane % offset : lane);
                lz4_history(memory, op + lane) = lz4_written(writer, memory, from, offset);
            }
            lz4_flush(writer, memory, op + length, lane);
        }
        op += length;
    }
    lz4_flush(writer, memory, op, lane);
    __syncwarp();
    for (u32 n = writer.flushed + lane; n < op; n += 32) writer.out[n] = lz4_history(memory, n);
    return true;
}
