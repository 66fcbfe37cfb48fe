// Decodes bits to coefficients, as libjpeg does. Flags bits that no encoder writes.
#pragma once
#include "pictures.cuh"

// Row-order index of each zigzag position.
CONSTANT u8 NATURAL[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// A position in the bits of one segment. The segment is stored as unstuffed 32-bit words, with the first bit highest.
//
// The next words of each lane's segment are in the lane's part of the ring, in shared memory. A read from global
// memory would make all lanes of the warp wait, and at most symbols some lane needs a word.
struct Bits {
    Ptr<const u32> words;
    Ring* ring;
    u32 lane;
    u32 at, end;     // Index of the word after `next`, and of the first word of zeros after the segment.
    u32 ready;       // Index of the first word that is not in the ring yet, a multiple of four.
    u32 high, low, next;
    u32 used;        // Number of bits taken from `high`, below 32.
};

// The words of a lane are 32 apart, so lanes always use different banks.
FN u32 place_in_ring(const Bits& b, u32 at) { return at % RING_WORDS * 32 + b.lane; }

// Moves four words to the ring. Decoding a damaged segment may read far past its end, and gets its last words again.
FN void read_four(Bits& b) {
    uint4 four = *(cast<const uint4>(b.words) + min(b.ready, b.end) / 4);
    u32 place = place_in_ring(b, b.ready);
    (*b.ring)[place] = four.x;
    (*b.ring)[place + 32] = four.y;
    (*b.ring)[place + 64] = four.z;
    (*b.ring)[place + 96] = four.w;
    b.ready += 4;
}

// Fills the free part of the ring, by at most eight words. Nearly all blocks need fewer.
FN void read_ahead(Bits& b) {
    u32 room = b.at / 4 * 4 + RING_WORDS - b.ready;
    if (room >= 4) read_four(b);
    if (room >= 8) read_four(b);
}

FN u32 word_at(const Bits& b, u32 at) { return (*b.ring)[place_in_ring(b, at)]; }

FN void open_bits(Bits& b, Ring& ring, u32 lane, Ptr<const u32> words, u32 first, u32 bytes) {
    b.words = words;
    b.ring = &ring;
    b.lane = lane;
    b.end = first + (bytes + 3) / 4;
    b.ready = first;
    read_four(b);
    b.high = word_at(b, first);
    b.low = word_at(b, first + 1);
    b.next = word_at(b, first + 2);
    b.at = first + 3;
    b.used = 0;
}

FN u32 peek(const Bits& b) { return __funnelshift_l(b.low, b.high, b.used); }

// Skips n bits, at most 32. The ring must hold the word at `at`. There is no branch, because the lanes need new words at
// different times.
FN void take(Bits& b, u32 n) {
    b.used += n;
    bool full = b.used >= 32;
    b.high = full ? b.low : b.high;
    b.low = full ? b.next : b.low;
    if (full) b.next = word_at(b, b.at);
    b.at += b.used >> 5;
    b.used &= 31;
}

// Returns the number of bytes from which bits have been taken, counted from the first word.
FN u32 bytes_taken(const Bits& b) { return (b.at - 3) * 4 + (b.used + 7) / 8; }

// Returns the number of bits left in the last byte from which bits have been taken.
FN u32 bits_left(const Bits& b) { return (0 - b.used) & 7; }

// A code packed into one number: the positions to advance in the block from bit 9 on (7 bits), the code's length
// (5 bits), and the size of the value that follows (4 bits). DC tables use only the length and the size.
#define AC_END 127u      // Advance of the end-of-block code, far beyond any block.
#define AC_NOTHING 64u   // Advance for invalid codes: beyond any block, but below AC_END.

FN u32 entry_of(u32 length, u32 symbol) {
    u32 run = symbol >> 4, size = symbol & 15;
    u32 places = size || run == 15 ? run + 1 : run ? AC_NOTHING : AC_END;
    return places << 9 | length << 4 | size;
}

FN u32 length_of(u32 code) { return code >> 4 & 31; }
FN u32 size_of(u32 code) { return code & 15; }

// Returns the code at the start of `bits` if it is longer than a table index. Its length is 0 if there is no such code.
// The ends are read together, because each read after another would make all lanes wait.
FN u32 long_code(const Huffman& table, u32 bits) {
    u32 next = bits >> 16, length = LOOKUP_BITS + 1;
#pragma unroll
    for (u32 shorter = LOOKUP_BITS + 1; shorter < 16; shorter++) length += next >= table.ends[shorter];
    if (next >= table.ends[16]) return AC_NOTHING << 9;
    u32 place = (next >> (16 - length)) + (u32)table.offsets[length];
    return entry_of(length, table.symbols[place & 255]);
}

// Returns the code at the start of `window`, the next bits. Afterwards the ring holds the word that `take` needs.
FN u32 next_code(Bits& b, const Huffman& table, u32 window) {
    u32 code = table.lookup[window >> (32 - LOOKUP_BITS)];
    if (!code || b.at >= b.ready) {
        if (b.at >= b.ready) read_four(b);
        if (!code) code = long_code(table, window);
    }
    return code;
}

// Returns the value in the bits after a code. Values that begin with a 0 bit are negative: their bits are the
// complement of their magnitude.
FN i32 value_of(u32 bits, u32 code) {
    u32 left = bits << length_of(code), flip = ~(u32)((i32)left >> 31);
    return (i32)((__funnelshift_l(left ^ flip, 0, size_of(code)) ^ flip) - flip);
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
template <u32 N>
FN u32 read_ac(Bits& bits, const Huffman& table, const Array<u32, 64>& steps, Array<u16, N>& block, u32 lane) {
    u32 at = 0, beyond = 0;
    do {
        u32 window = peek(bits), code = next_code(bits, table, window);
        at += code >> 9;
        take(bits, length_of(code) + size_of(code));
        u32 step = steps[at & 63];
        i32 value = value_of(window, code) * (i32)(step & 0xFFFF);
        beyond |= (u32)(value + 16384);
        // A run of sixteen zeros may end at position 64, where nothing is written.
        if (at < 64) block[(step >> 16) + lane * 2] = (u16)value;
    } while (at < 63);
    // A run of sixteen zeros may also end at the last position.
    if (at >= 64 && at < AC_END) return ODD_ENTROPY;
    return beyond >> 15 ? ODD_RANGE : 0;
}
