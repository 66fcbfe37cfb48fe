// Decodes one zstd frame (RFC 8878, whose sections are cited below) with the 32 lanes of a warp. Tables are built in
// shared memory, four lanes decode the four streams of literals, and all lanes read the sequences and copy. Every
// length, offset and state is checked before use. The decoder rejects every frame that libzstd rejects. It also
// rejects a few frames that libzstd accepts but no writer produces: frames without a content size, with an offset of
// 0, or with codes of 12 bits.
#pragma once
#include "device.cuh"

// Maximum size of a block (3.1.1.2.4), in bytes.
#define ZSTD_BLOCK (128u << 10)
// Maximum length of a literal code (4.2.1), in bits.
#define ZSTD_CODE_BITS 11u
// Start of each table in `states`: literal lengths, match lengths, offsets. The tables have room for their maximum
// number of states (3.1.1.3.2.1).
#define ZSTD_LITERALS 0u
#define ZSTD_MATCHES 512u
#define ZSTD_OFFSETS 1024u
#define ZSTD_STATES 1280u
// Maximum number of symbols in a table, rounded up.
#define ZSTD_SYMBOLS 64u

struct ZstdMemory {
    // Table indexed by the next bits of a stream of literals. An entry holds the symbol and the length of its code, in
    // 8 bits each.
    Array<u16, 1u << ZSTD_CODE_BITS> codes;
    // Tables indexed by state: base of the next state (16 bits), number of bits to add (8 bits), symbol (8 bits).
    Array<u32, ZSTD_STATES> states;
    // Counts and next states of the symbols while a table is built.
    Array<i16, 3 * ZSTD_SYMBOLS> counts;
    Array<u16, 3 * ZSTD_SYMBOLS> next;
    // States of the code that compresses the literal weights.
    Array<u32, 64> weight_states;
    Array<u16, 256> begins;
    Array<u8, 256> weights;
    // For each of the three tables: number of bits per state, and number of symbols, or 0 if the block repeats the
    // previous table.
    Array<u32, 3> bits;
    Array<u32, 3> symbols;
    // Result that lane 0 passes to the other lanes: a position, or 0 for damage.
    u32 found;
};

// Predefined tables (3.1.1.3.2.2).
CONSTANT i8 ZSTD_LITERAL_COUNTS[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
                                       2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
CONSTANT i8 ZSTD_MATCH_COUNTS[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                     1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
CONSTANT i8 ZSTD_OFFSET_COUNTS[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
// Base and number of extra bits of each length code (3.1.1.3.2.1.1).
CONSTANT u32 ZSTD_LITERAL_BASES[36] = {0,  1,  2,  3,  4,  5,  6,  7,  8,   9,   10,  11,   12,   13,   14,   15,    16,    18,
                                       20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
CONSTANT u8 ZSTD_LITERAL_BITS[36] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  1,  1,
                                     1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
CONSTANT u32 ZSTD_MATCH_BASES[53] = {3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,  17,  18,  19,   20,   21,   22,   23,    24,    25,   26, 27, 28, 29,
                                     30, 31, 32, 33, 34, 35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539};
CONSTANT u8 ZSTD_MATCH_BITS[53] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0, 0,
                                   0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// Returns the index of the highest set bit of `x`, which is not 0.
FN u32 zstd_log2(u32 x) { return 31 - (u32)__clz((i32)x); }

// Returns 32 bits of input from bit `bit` on. `from` is a multiple of 4. May read past the frame.
FN u32 zstd_peek(Ptr<const u8> from, u32 bit) {
    const Ptr<const u32> words = cast<const u32>(from) + bit / 32;
    return __funnelshift_r(words[0], words[1], bit % 32);
}

// A bit stream that is read backwards (4.1).
struct ZstdBits {
    Ptr<const u32> words;
    // `at` is the index of the word before `next`. `first` is the index of the first word, which is read again instead
    // of any earlier word.
    i32 at, first;
    u32 high, low, next;
    // Number of bits taken from `high`, below 32.
    u32 used;
};

// Opens the bytes from `begin` to `end`. A bit in the last byte marks the end.
FN bool zstd_open(ZstdBits& b, Ptr<const u8> from, u32 begin, u32 end) {
    if (begin >= end) return false;
    const u32 last = from[end - 1];
    if (last == 0) return false;
    const u32 top = 8 * (end - 1) + zstd_log2(last);
    b.words = cast<const u32>(from);
    b.first = (i32)(begin / 4);
    b.used = (0 - top) % 32;
    b.at = (i32)((top + b.used) / 32) - 4;
    b.high = b.words[b.at + 3];
    b.low = b.words[max(b.at + 2, b.first)];
    b.next = b.words[max(b.at + 1, b.first)];
    return true;
}

// Returns the number of bits left in the stream, which begins at byte `begin`. It is negative if too many bits were
// taken.
FN i32 zstd_left(const ZstdBits& b, u32 begin) { return 32 * (b.at + 4) - (i32)b.used - (i32)(8 * begin); }

// Returns the next 32 bits, with the first bit highest.
FN u32 zstd_next(const ZstdBits& b) { return __funnelshift_l(b.low, b.high, b.used); }

// Returns the upper `n` bits, at most 31.
FN u32 zstd_upper(u32 bits, u32 n) { return bits >> 1 >> (31 - n); }

// Skips n bits, at most 32. The next word is already being loaded, so no lane waits for it. There is no
// branch, because lanes need words at different times.
FN void zstd_skip(ZstdBits& b, u32 n) {
    b.used += n;
    const bool full = b.used >= 32;
    b.high = full ? b.low : b.high;
    b.low = full ? b.next : b.low;
    if (full) b.next = b.words[max(b.at, b.first)];
    b.at -= full;
    b.used &= 31;
}

FN u32 zstd_take(ZstdBits& b, u32 n) {
    const u32 value = zstd_upper(zstd_next(b), n);
    zstd_skip(b, n);
    return value;
}

// Reads the counts of a table (4.1.1). The table has at most `most` + 1 symbols and 2^most_bits states. Returns the
// position after the counts, or 0 for damage.
FN u32 zstd_counts(ZstdMemory& memory, u32 to, Ptr<const u8> from, u32 begin, u32 end, u32 most_bits, u32 most, u32& bits,
                   u32& symbols) {
    u32 bit = 8 * begin;
    if (begin >= end) return 0;
    bits = (zstd_peek(from, bit) & 15) + 5;
    bit += 4;
    if (bits > most_bits) return 0;
    // `left` is the number of states that have no symbol yet, plus 1. `half` is the highest power of two that does not
    // exceed `left`, and bounds the next count.
    i32 left = (1 << bits) + 1, half = 1 << bits;
    u32 width = bits + 1;
    bool was_none = false;
    symbols = 0;
    while (left > 1) {
        if (was_none) {
            for (u32 more = 3; more == 3;) {
                if (bit >= 8 * end) return 0;
                more = zstd_peek(from, bit) & 3;
                bit += 2;
                if (symbols + more > most) return 0;
                for (u32 i = 0; i < more; i++) memory.counts[to + symbols++] = 0;
            }
        }
        if (symbols > most || bit >= 8 * end) return 0;
        const i32 peeked = (i32)zstd_peek(from, bit), spare = 2 * half - 1 - left;
        i32 count = peeked & (half - 1);
        bit += width - 1;
        if (count >= spare) {
            count = peeked & (2 * half - 1);
            if (count >= half) count -= spare;
            bit++;
        }
        count--;
        left -= count < 0 ? -count : count;
        memory.counts[to + symbols++] = (i16)count;
        was_none = count == 0;
        while (left < half && half > 1) {
            half >>= 1;
            width--;
        }
    }
    const u32 behind = (bit + 7) / 8;
    return left == 1 && behind <= end ? behind : 0;
}

// Builds a table of 2^bits states from counts that fill it (4.1.1), on one lane.
template <class Table>
FN void zstd_table(Table& table, u32 at, ZstdMemory& memory, u32 counts, u32 symbols, u32 bits) {
    const u32 size = 1u << bits, step = size / 2 + size / 8 + 3;
    u32 high = size, place = 0;
    for (u32 s = 0; s < symbols; s++) {
        const i32 count = memory.counts[counts + s];
        memory.next[counts + s] = (u16)(count < 0 ? 1 : count);
        if (count < 0) table[at + --high] = s << 24;
    }
    for (u32 s = 0; s < symbols; s++) {
        for (i32 i = 0; i < memory.counts[counts + s]; i++) {
            table[at + place] = s << 24;
            do place = (place + step) & (size - 1);
            while (place >= high);
        }
    }
    for (u32 state = 0; state < size; state++) {
        const u32 s = table[at + state] >> 24, next = memory.next[counts + s]++, more = bits - zstd_log2(next);
        table[at + state] = s << 24 | more << 16 | ((next << more) - size);
    }
}

// Reads the weights of the literal codes (4.2.1) on one lane. A symbol has 2^(weight - 1) table entries.
// Returns the start of the literals, or 0 for damage.
FN u32 zstd_weights(ZstdMemory& memory, Ptr<const u8> from, u32 begin, u32 end, u32& symbols) {
    if (begin >= end) return 0;
    const u32 head = from[begin];
    u32 at = begin + 1;
    symbols = 0;
    if (head >= 128) {
        symbols = head - 127;
        const u32 behind = at + (symbols + 1) / 2;
        if (behind > end) return 0;
        for (u32 i = 0; i < symbols; i++) memory.weights[i] = (u8)(from[at + i / 2] >> (i % 2 == 0 ? 4 : 0) & 15);
        return behind;
    }
    const u32 behind = at + head;
    if (behind > end) return 0;
    u32 bits = 0, kinds = 0;
    at = zstd_counts(memory, 0, from, at, behind, 6, ZSTD_CODE_BITS, bits, kinds);
    if (at == 0) return 0;
    zstd_table(memory.weight_states, 0, memory, 0, kinds, bits);
    ZstdBits in;
    if (!zstd_open(in, from, at, behind)) return 0;
    // Two states take turns. When one of them has no bits left for its next state, the other's symbol is the last.
    u32 state = zstd_take(in, bits), other = zstd_take(in, bits);
    if (zstd_left(in, at) < 0) return 0;
    for (;;) {
        // There must be room for this symbol, the last symbol and the implicit one.
        if (symbols > 253) return 0;
        const u32 entry = memory.weight_states[state];
        memory.weights[symbols++] = (u8)(entry >> 24);
        state = (entry & 0xFFFF) + zstd_take(in, entry >> 16 & 0xFF);
        if (zstd_left(in, at) < 0) {
            memory.weights[symbols++] = (u8)(memory.weight_states[other] >> 24);
            return behind;
        }
        const u32 swapped = state;
        state = other;
        other = swapped;
    }
}

// Builds the table of literal codes. Returns the length of the longest code in bits, or 0 for damage.
FN u32 zstd_codes(ZstdMemory& memory, u32 symbols, u32 lane) {
    if (lane == 0) {
        u32 sum = 0;
        bool sound = true;
        for (u32 i = 0; i < symbols; i++) {
            sound &= memory.weights[i] <= ZSTD_CODE_BITS;
            if (memory.weights[i] != 0) sum += 1u << ((memory.weights[i] - 1) & 31);
        }
        u32 bits = 0;
        if (sound && sum != 0) {
            bits = zstd_log2(sum) + 1;
            const u32 rest = (1u << bits) - sum;
            // The implicit last symbol must fill the rest of the table, so `rest` must be a power of two.
            sound = bits <= ZSTD_CODE_BITS && (rest & (rest - 1)) == 0;
            memory.weights[symbols] = (u8)(zstd_log2(rest) + 1);
        }
        // Longest codes come first, and codes of equal length are sorted by symbol. The number of longest codes is
        // even and not 0. `next` holds the number of codes of each weight, and then the position of the next code of
        // that weight.
        for (u32 weight = 0; weight <= ZSTD_CODE_BITS; weight++) memory.next[weight] = 0;
        for (u32 i = 0; sound && i <= symbols; i++) memory.next[memory.weights[i]]++;
        const u32 longest = memory.next[1];
        u32 begin = 0;
        for (u32 weight = 1; weight <= ZSTD_CODE_BITS; weight++) {
            const u32 count = memory.next[weight];
            memory.next[weight] = (u16)begin;
            begin += count << (weight - 1);
        }
        for (u32 i = 0; sound && i <= symbols; i++) {
            const u32 weight = memory.weights[i];
            memory.begins[i] = memory.next[weight];
            if (weight != 0) memory.next[weight] += (u16)(1u << (weight - 1));
        }
        memory.found = sound && longest != 0 && longest % 2 == 0 ? bits : 0;
    }
    __syncwarp();
    const u32 bits = memory.found;
    for (u32 i = lane; bits != 0 && i <= symbols; i += 32) {
        const u32 weight = memory.weights[i], entry = i | (bits + 1 - weight) << 8;
        if (weight == 0) continue;
        for (u32 n = 0; n < 1u << (weight - 1); n++) memory.codes[memory.begins[i] + n] = (u16)entry;
    }
    __syncwarp();
    return bits;
}

// A stream of literals with a buffer of 64 bits, whose highest bit is the next one. Nearly all bits of a stream
// belong to symbols.
struct ZstdCodes {
    Ptr<const u32> words;
    // Index of the word before `next`, which follows the `count` bits in the buffer.
    i32 at;
    u64 bits;
    u32 count, next;
};

// Makes at least 33 bits available, enough for three symbols.
FN void zstd_refill(ZstdCodes& c) {
    if (c.count > 32) return;
    c.bits |= (u64)c.next << (32 - c.count);
    c.count += 32;
    c.next = c.words[c.at--];
}

FN u32 zstd_literal(const ZstdMemory& memory, ZstdCodes& c, u32 shift) {
    const u32 entry = memory.codes[(u32)(c.bits >> 32) >> shift], taken = entry >> 8;
    c.bits <<= taken;
    c.count -= taken;
    return entry & 0xFF;
}

// Decodes one stream of literals (4.2.2) to `count` bytes from `to` on, in whole words where aligned. The output is
// `skew` bytes after a multiple of 4. At least 14 bytes of the frame precede a stream, and the function may read the
// last 9 of them.
FN bool zstd_stream(const ZstdMemory& memory, u32 code_bits, Ptr<const u8> from, u32 begin, u32 end, Ptr<u8> out, u32 to, u32 count,
                    u32 skew) {
    ZstdBits in;
    if (!zstd_open(in, from, begin, end)) return false;
    ZstdCodes c;
    c.words = in.words;
    c.at = in.at;
    c.bits = ((u64)in.high << 32 | in.low) << in.used;
    c.count = 64 - in.used;
    c.next = in.next;
    const u32 shift = 32 - code_bits, behind = to + count, head = min((0 - skew - to) % 4, count);
    for (u32 n = 0; n < head; n++) {
        zstd_refill(c);
        out[to++] = (u8)zstd_literal(memory, c, shift);
    }
    for (; behind - to >= 4; to += 4) {
        // The stream was read too far past its end.
        if (c.at + 4 < in.first) return false;
        zstd_refill(c);
        u32 word = zstd_literal(memory, c, shift);
        word |= zstd_literal(memory, c, shift) << 8;
        zstd_refill(c);
        word |= zstd_literal(memory, c, shift) << 16;
        word |= zstd_literal(memory, c, shift) << 24;
        *cast<u32>(out + to) = word;
    }
    if (c.at + 4 < in.first) return false;
    while (to < behind) {
        zstd_refill(c);
        out[to++] = (u8)zstd_literal(memory, c, shift);
    }
    return 32 * (c.at + 2) + (i32)c.count == (i32)(8 * begin);
}

// A frame in progress. Input positions are relative to a multiple of 16, output positions to the output's start.
struct Zstd {
    Ptr<const u8> from;
    Ptr<u8> out;
    u32 at, done;
    // Offset of the output from a multiple of 4.
    u32 skew;
    // Last three offsets (3.1.2.5).
    u32 recent[3];
    // Length of the longest literal code in bits, or 0 if there are no codes. `tables` has a flag for each table that
    // exists.
    u32 code_bits, tables;
};

// Literals of a block. They are bytes of the input, one repeated byte (`step` 0), or decoded bytes. Decoded bytes are
// first written to the end of the largest possible block in the output. They move down from there as the block is
// filled, and the filled part never reaches literals that are still needed.
struct ZstdLiterals {
    Ptr<const u8> from;
    u32 step, count;
    bool in_place;
    u32 place;
};

// Reads the literals of a block (3.1.1.3.1), which may fill the output up to `limit`.
FN bool zstd_literals(Zstd& z, ZstdMemory& memory, u32 end, u32 limit, ZstdLiterals& literals, u32 lane) {
    const u32 head = z.from[z.at], kind = head & 3, format = head >> 2 & 3;
    literals.step = 1;
    literals.in_place = false;
    literals.place = 0;
    if (kind < 2) {
        const u32 bytes = format % 2 == 0 ? 1 : format == 1 ? 2 : 3;
        if (end - z.at < bytes) return false;
        const u32 word = zstd_peek(z.from, 8 * z.at);
        literals.count = bytes == 1 ? word >> 3 & 31 : bytes == 2 ? word >> 4 & 0xFFF : word >> 4 & 0xFFFFF;
        z.at += bytes;
        const u32 stored = kind == 0 ? literals.count : 1;
        if (end - z.at < stored || literals.count > limit - z.done) return false;
        literals.from = z.from + z.at;
        literals.step = kind == 0;
        z.at += stored;
        return true;
    }
    const u32 bytes = format < 2 ? 3 : 2 + format;
    if (end - z.at < bytes) return false;
    const u32 word = zstd_peek(z.from, 8 * z.at), more = zstd_peek(z.from, 8 * z.at + 22), width = bytes == 3 ? 10 : bytes == 4 ? 14 : 18;
    const u32 mask = (1u << width) - 1, count = word >> 4 & mask;
    const u32 stored = (width == 18 ? more : word >> (4 + width)) & mask;
    z.at += bytes;
    if (stored > end - z.at || count > limit - z.done || count == 0) return false;
    const u32 behind = z.at + stored;
    if (kind == 2) {
        u32 symbols = 0, begin = 0;
        if (lane == 0) begin = zstd_weights(memory, z.from, z.at, behind, symbols);
        begin = __shfl_sync(0xFFFFFFFFu, begin, 0);
        symbols = __shfl_sync(0xFFFFFFFFu, symbols, 0);
        if (begin == 0) return false;
        z.at = begin;
        z.code_bits = zstd_codes(memory, symbols, lane);
    }
    if (z.code_bits == 0) return false;
    // There are one or four streams. The lengths of the first three of four are stored, and the fourth has the
    // remaining bytes.
    u32 from = z.at, to = behind, first = 0, share = count;
    if (format != 0) {
        if (count < 6 || behind - z.at < 6) return false;
        const u32 quarter = (count + 3) / 4;
        from += 6;
        to = from;
        for (u32 n = 0; n <= min(lane, 2u); n++) {
            from = to;
            to += zstd_peek(z.from, 8 * (z.at + 2 * n)) & 0xFFFF;
        }
        if (lane >= 3) {
            from = to;
            to = behind;
        }
        first = min(min(lane, 3u) * quarter, count);
        share = lane < 3 ? quarter : count - min(3 * quarter, count);
        // The first three streams decode `quarter` literals each. Together, they must not exceed the number of
        // literals.
        if (3 * quarter > count) return false;
    }
    bool sound = true;
    const u32 place = limit - count;
    if (lane < (format == 0 ? 1 : 4)) {
        sound = from <= to && to <= behind && zstd_stream(memory, z.code_bits, z.from, from, to, z.out, place + first, share, z.skew);
    }
    // Make the literals of the four lanes readable.
    if (!__all_sync(0xFFFFFFFFu, sound)) return false;
    __syncwarp();
    literals.from = z.out + place;
    literals.count = count;
    literals.in_place = true;
    literals.place = place;
    z.at = behind;
    return true;
}

FN u32 zstd_table_at(u32 n) { return n == 0 ? ZSTD_LITERALS : n == 1 ? ZSTD_OFFSETS : ZSTD_MATCHES; }

// Reads the counts of a block's tables (3.1.1.3.2.1) on one lane, in the order literal lengths, offsets,
// match lengths. Returns the start of the sequences, or 0 for damage.
FN u32 zstd_read_tables(ZstdMemory& memory, Ptr<const u8> from, u32 at, u32 end, u32 modes, u32 tables) {
    for (u32 n = 0; n < 3; n++) {
        const u32 mode = modes >> (6 - 2 * n) & 3, most = n == 0 ? 35 : n == 1 ? 31 : 52, counts = n * ZSTD_SYMBOLS;
        u32 bits = memory.bits[n], symbols = 0;
        if (mode == 0) {
            symbols = n == 0 ? 36 : n == 1 ? 29 : 53;
            bits = n == 1 ? 5 : 6;
            for (u32 s = 0; s < symbols; s++)
                memory.counts[counts + s] = n == 0 ? ZSTD_LITERAL_COUNTS[s] : n == 1 ? ZSTD_OFFSET_COUNTS[s] : ZSTD_MATCH_COUNTS[s];
        } else if (mode == 1) {
            if (at >= end || from[at] > most) return 0;
            memory.states[zstd_table_at(n)] = (u32)from[at++] << 24;
            bits = 0;
        } else if (mode == 2) {
            at = zstd_counts(memory, counts, from, at, end, n == 1 ? 8 : 9, most, bits, symbols);
            if (at == 0) return 0;
        } else if ((tables >> n & 1) == 0) {
            return 0;
        }
        memory.bits[n] = bits;
        memory.symbols[n] = symbols;
    }
    return at;
}

// Converts the value of an offset code to an offset (3.1.2.5).
FN u32 zstd_offset(Zstd& z, u32 value, u32 literals) {
    if (value > 3) {
        z.recent[2] = z.recent[1];
        z.recent[1] = z.recent[0];
        z.recent[0] = value - 3;
        return value - 3;
    }
    const u32 which = value + (literals == 0);
    if (which == 1) return z.recent[0];
    const u32 offset = which == 2 ? z.recent[1] : which == 3 ? z.recent[2] : z.recent[0] - 1;
    if (which != 2) z.recent[2] = z.recent[1];
    z.recent[1] = z.recent[0];
    z.recent[0] = offset;
    return offset;
}

FN void zstd_put_literals(Zstd& z, const ZstdLiterals& literals, u32 taken, u32 count, u32 lane) {
    // The literals after the last sequence of a frame may already be in place.
    const bool there = literals.in_place && literals.place + taken == z.done;
    for (u32 n = lane; !there && n - lane < count; n += 32) {
        u8 byte = 0;
        if (n < count) byte = literals.from[(taken + n) * literals.step];
        // Source and destination may overlap.
        if (literals.in_place) __syncwarp();
        if (n < count) z.out[z.done + n] = byte;
    }
    z.done += count;
}

// Executes a block's sequences (3.1.1.3.2) and copies its remaining literals.
FN bool zstd_sequences(Zstd& z, ZstdMemory& memory, u32 end, u32 limit, const ZstdLiterals& literals, u32 lane) {
    if (z.at >= end) return false;
    u32 count = z.from[z.at++], taken = 0;
    if (count == 0) {
        if (z.at != end) return false;
        zstd_put_literals(z, literals, 0, literals.count, lane);
        __syncwarp();
        return true;
    }
    if (count >= 128) {
        const u32 more = count == 255 ? 2 : 1;
        if (end - z.at < more) return false;
        const u32 word = zstd_peek(z.from, 8 * z.at);
        count = more == 2 ? (word & 0xFFFF) + 0x7F00 : (count - 128) << 8 | (word & 0xFF);
        z.at += more;
    }
    if (count == 0 || z.at >= end) return false;
    const u32 modes = z.from[z.at++];
    if ((modes & 3) != 0) return false;
    if (lane == 0) memory.found = zstd_read_tables(memory, z.from, z.at, end, modes, z.tables);
    __syncwarp();
    z.at = memory.found;
    if (z.at == 0) return false;
    if (lane < 3 && memory.symbols[lane] != 0)
        zstd_table(memory.states, zstd_table_at(lane), memory, lane * ZSTD_SYMBOLS, memory.symbols[lane], memory.bits[lane]);
    z.tables = 7;
    __syncwarp();
    ZstdBits in;
    if (!zstd_open(in, z.from, z.at, end)) return false;
    u32 literal_entry = memory.states[ZSTD_LITERALS + zstd_take(in, memory.bits[0])];
    u32 offset_entry = memory.states[ZSTD_OFFSETS + zstd_take(in, memory.bits[1])];
    u32 match_entry = memory.states[ZSTD_MATCHES + zstd_take(in, memory.bits[2])];
    for (;;) {
        const u32 code = offset_entry >> 24, value = (1u << code) + zstd_take(in, code);
        const u32 of_match = match_entry >> 24, of_literals = literal_entry >> 24;
        u32 bits = zstd_next(in), n = ZSTD_MATCH_BITS[of_match];
        const u32 length = ZSTD_MATCH_BASES[of_match] + zstd_upper(bits, n);
        bits <<= n;
        const u32 before = ZSTD_LITERAL_BASES[of_literals] + zstd_upper(bits, ZSTD_LITERAL_BITS[of_literals]);
        zstd_skip(in, n + ZSTD_LITERAL_BITS[of_literals]);
        // Compute the next states while other lanes copy.
        if (--count != 0) {
            bits = zstd_next(in);
            n = literal_entry >> 16 & 0xFF;
            u32 all = n;
            literal_entry = memory.states[ZSTD_LITERALS + (literal_entry & 0xFFFF) + zstd_upper(bits, n)];
            bits <<= n;
            n = match_entry >> 16 & 0xFF;
            all += n;
            match_entry = memory.states[ZSTD_MATCHES + (match_entry & 0xFFFF) + zstd_upper(bits, n)];
            bits <<= n;
            n = offset_entry >> 16 & 0xFF;
            offset_entry = memory.states[ZSTD_OFFSETS + (offset_entry & 0xFFFF) + zstd_upper(bits, n)];
            zstd_skip(in, all + n);
        }
        const u32 offset = zstd_offset(z, value, before);
        // The block must have enough literals left for this sequence.
        if (before > literals.count - taken) return false;
        const u32 room = limit - z.done - (literals.count - taken);
        if (length > room || offset - 1 >= z.done + before) return false;
        zstd_put_literals(z, literals, taken, before, lane);
        taken += before;
        // Make the other lanes' bytes readable.
        __syncwarp();
        const Ptr<const u8> back = Ptr<const u8>(z.out) + (z.done - offset);
        if (length <= offset) {
            for (u32 i = lane; i < length; i += 32) z.out[z.done + i] = back[i];
        } else {
            for (u32 i = lane; i < length; i += 32) z.out[z.done + i] = back[i % offset];
        }
        z.done += length;
        if (count == 0) break;
    }
    if (zstd_left(in, z.at) != 0) return false;
    __syncwarp();
    zstd_put_literals(z, literals, taken, literals.count - taken, lane);
    __syncwarp();
    return true;
}

// Returns the maximum size of a block in a frame with the given window descriptor (3.1.1.1.2): the size of the window,
// at most 128 KiB.
FN u32 zstd_most(u32 window) {
    const u32 base = 1u << (10 + min(window >> 3, 8u));
    return min(base + base / 8 * (window & 7), ZSTD_BLOCK);
}

// Decodes a frame of `bytes` bytes, which begins `at` bytes (at most 15) after `from`, a multiple of 16. The frame
// must fill the `out_bytes` bytes at `out`, which is `skew` bytes after a multiple of 4. The host has checked magic,
// header and block headers. 16 bytes on each side of the frame are readable. Returns true if the frame is valid.
// Otherwise, part of the output may be written.
FN bool zstd_frame(Ptr<const u8> from, u32 at, u32 bytes, Ptr<u8> out, u32 skew, u32 out_bytes, ZstdMemory& memory,
                   u32 lane) {
    const u32 end = at + bytes;
    if (bytes < 9) return false;
    // In a single segment, the window is the whole content (3.1.1.1.1). Otherwise, a byte describes the window.
    // Offsets may exceed the window, because all earlier output is available.
    const u32 descriptor = from[at + 4], size = descriptor >> 6, is_single = descriptor >> 5 & 1;
    if (!is_single && size == 0) return false;
    const u32 block = is_single ? ZSTD_BLOCK : zstd_most(from[at + 5]);
    Zstd z;
    z.from = from;
    z.out = out;
    z.at = at + 6 - is_single + (1u << size);
    z.done = 0;
    z.skew = skew;
    z.recent[0] = 1;
    z.recent[1] = 4;
    z.recent[2] = 8;
    z.code_bits = 0;
    z.tables = 0;
    for (bool last = false; !last;) {
        if (z.at + 3 > end) return false;
        const u32 head = zstd_peek(from, 8 * z.at), kind = head >> 1 & 3, count = head >> 3 & 0x1FFFFF;
        const u32 most = min(out_bytes - z.done, block);
        last = head & 1;
        z.at += 3;
        if (kind < 2) {
            ZstdLiterals literals;
            literals.from = from + z.at;
            literals.step = kind == 0;
            literals.in_place = false;
            literals.place = 0;
            const u32 stored = kind == 0 ? count : 1;
            if (count > most || stored > end - z.at) return false;
            zstd_put_literals(z, literals, 0, count, lane);
            __syncwarp();
            z.at += stored;
            continue;
        }
        // A compressed block must be shorter than its content.
        if (kind != 2 || count < 2 || count > min(block, out_bytes) || count > end - z.at) return false;
        const u32 behind = z.at + count;
        ZstdLiterals literals;
        if (!zstd_literals(z, memory, behind, z.done + most, literals, lane)) return false;
        if (!zstd_sequences(z, memory, behind, z.done + most, literals, lane)) return false;
        z.at = behind;
    }
    return z.at == end && z.done == out_bytes;
}
