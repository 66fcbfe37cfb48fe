// Decodes bits to coefficients, as libjpeg does. Flags bits that no encoder writes.
#pragma once
#include "pictures.cuh"

// Row-order index of each zigzag position.
CONSTANT u8 NATURAL[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// A position in the bits of one segment. The segment is stored as unstuffed 32-bit words, with the first bit highest.
struct Bits {
    Ptr<const u32> words;
    u32 at, end;     // Index of the word after `next`, and of the zero word after the segment.
    u32 high, low, next;
    u32 used;        // Number of bits taken from `high`, below 32.
};

// Decoding a damaged segment may read far past its end. All words there count as zero.
FN u32 word_at(const Bits& b, u32 at) { return b.words[min(at, b.end)]; }

FN void open_bits(Bits& b, Ptr<const u32> words, u32 first, u32 bytes) {
    b.words = words;
    b.end = first + (bytes + 3) / 4;
    b.high = word_at(b, first);
    b.low = word_at(b, first + 1);
    b.next = word_at(b, first + 2);
    b.at = first + 3;
    b.used = 0;
}

FN u32 peek(const Bits& b) { return __funnelshift_l(b.low, b.high, b.used); }

// Skips n bits, at most 32. The next word is already being loaded, so no lane waits for it. There is no branch,
// because the lanes need new words at different times.
FN void take(Bits& b, u32 n) {
    b.used += n;
    bool full = b.used >= 32;
    b.high = full ? b.low : b.high;
    b.low = full ? b.next : b.low;
    if (full) b.next = word_at(b, b.at);
    b.at += full;
    b.used &= 31;
}

// Returns the number of bytes from which bits have been taken, counted from the first word.
FN u32 bytes_taken(const Bits& b) { return (b.at - 3) * 4 + (b.used + 7) / 8; }

// Returns the number of bits left in the last byte from which bits have been taken.
FN u32 bits_left(const Bits& b) { return (0 - b.used) & 7; }

// A code packed into one number: its length from bit 12 on, the positions to advance in the block (8 bits),
// and the size of the value that follows (4 bits). DC tables use only the length and the size.
#define AC_END 128u      // Advance of the end-of-block code, far beyond any block.
#define AC_NOTHING 64u   // Advance for invalid codes: beyond any block, but below AC_END.

FN u32 entry_of(u32 length, u32 symbol) {
    u32 run = symbol >> 4, size = symbol & 15;
    u32 places = size || run == 15 ? run + 1 : run ? AC_NOTHING : AC_END;
    return length << 12 | places << 4 | size;
}

// Returns the code at the start of `bits` if it is longer than a table index. Its length is 0 if there is no such code.
FN u32 long_code(const Huffman& table, u32 bits) {
    u32 next = bits >> 16;
#pragma unroll 1
    for (u32 length = LOOKUP_BITS + 1; length <= 16; length++) {
        if (next < table.ends[length]) {
            u32 place = (next >> (16 - length)) + (u32)table.offsets[length];
            return entry_of(length, table.symbols[place & 255]);
        }
    }
    return AC_NOTHING << 4;
}

FN u32 code_of(const Huffman& table, u32 bits) {
    u32 entry = table.lookup[bits >> (32 - LOOKUP_BITS)];
    return entry ? entry : long_code(table, bits);
}

// Returns the value in the `size` bits after a code of `length` bits. Values that begin with a 0 bit are negative.
FN i32 value_of(u32 bits, u32 length, u32 size) {
    u32 left = bits << length;
    i32 below = (i32)left < 0 ? 0 : 1 - (i32)(1u << size);
    return (i32)(left >> 1 >> (31 - size)) + below;
}

// Returns 1 if a value is too large for 16-bit arithmetic. The inputs of an IDCT pass must be between -2^14 and 2^14.
FN u32 out_of_range(i32 value) { return (u32)(value + 16384) >> 15; }

// Returns the index of a coefficient in a lane's block in shared memory. A word holds two coefficients, and the words
// of a lane are 32 apart, so lanes always use different banks.
FN u32 place_of(u32 natural, u32 lane) { return ((natural >> 1) * 32 + lane) * 2 + (natural & 1); }

// Combines the quantiser of the coefficient at zigzag position `at` (lower half) with the coefficient's index
// in the block of lane 0 (upper half).
FN u32 step_of(u32 quantiser, u32 at) { return quantiser | place_of(NATURAL[at], 0) << 16; }

// Decodes a block's AC coefficients and multiplies them by their quantisers. Returns the fault, or 0.
template <u32 N, u32 M>
FN u32 read_ac(Bits& bits, const Huffman& table, const Array<u32, M>& steps, u32 component, Array<u16, N>& block, u32 lane) {
    u32 at = 0, beyond = 0;
    do {
        u32 window = peek(bits), code = code_of(table, window);
        u32 length = code >> 12, size = code & 15;
        at += code >> 4 & 255;
        take(bits, length + size);
        u32 step = steps[component * 64 + (at & 63)];
        i32 value = value_of(window, length, size) * (i32)(step & 0xFFFF);
        beyond |= (u32)(value + 16384);
        // A run of sixteen zeros may end at position 64, where nothing is written.
        if (at < 64) block[(step >> 16) + lane * 2] = (u16)value;
    } while (at < 63);
    // A run of sixteen zeros may also end at the last position.
    if (at >= 64 && at < AC_END) return ODD_ENTROPY;
    return beyond >> 15 ? ODD_RANGE : 0;
}
