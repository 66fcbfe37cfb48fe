// Computes samples from coefficients, bit-identical to libjpeg's accurate integer IDCT (jidctint.c, "islow").
#pragma once
#include "entropy.cuh"

// Runs one pass over eight values. Adds `round` before the shift. The names of the variables are libjpeg's.
template <u32 SHIFT> FN void idct_pass(i32* v, i32 round) {
    i32 z1 = (v[2] + v[6]) * 4433;
    i32 tmp2 = z1 - v[6] * 15137, tmp3 = z1 + v[2] * 6270;
    i32 tmp0 = (i32)((u32)(v[0] + v[4]) << 13) + round, tmp1 = (i32)((u32)(v[0] - v[4]) << 13) + round;
    i32 tmp10 = tmp0 + tmp3, tmp13 = tmp0 - tmp3, tmp11 = tmp1 + tmp2, tmp12 = tmp1 - tmp2;

    z1 = v[7] + v[1];
    i32 z2 = v[5] + v[3], z3 = v[7] + v[3], z4 = v[5] + v[1];
    i32 z5 = (z3 + z4) * 9633;
    tmp0 = v[7] * 2446;
    tmp1 = v[5] * 16819;
    tmp2 = v[3] * 25172;
    tmp3 = v[1] * 12299;
    z1 *= -7373;
    z2 *= -20995;
    z3 = z5 - z3 * 16069;
    z4 = z5 - z4 * 3196;
    tmp0 += z1 + z3;
    tmp1 += z2 + z4;
    tmp2 += z2 + z3;
    tmp3 += z1 + z4;

    v[0] = (tmp10 + tmp3) >> SHIFT;
    v[7] = (tmp10 - tmp3) >> SHIFT;
    v[1] = (tmp11 + tmp2) >> SHIFT;
    v[6] = (tmp11 - tmp2) >> SHIFT;
    v[2] = (tmp12 + tmp1) >> SHIFT;
    v[5] = (tmp12 - tmp1) >> SHIFT;
    v[3] = (tmp13 + tmp0) >> SHIFT;
    v[4] = (tmp13 - tmp0) >> SHIFT;
}

template <u32 N> FN u32& pair_at(Array<u16, N>& block, u32 row, u32 pair, u32 lane) {
    return *(u32*)&block[place_of(row * 8 + pair * 2, lane)];
}

// Runs both passes over a lane's block and zeroes it. Writes 64 samples row by row if `keep`. Returns true if
// a sum is out of range.
template <u32 N> FN u32 idct_block(Array<u16, N>& block, u32 lane, Ptr<uint4> out, bool keep) {
    u32 odd = 0;
#pragma unroll
    for (u32 pair = 0; pair < 4; pair++) {
        u32 both[8];
        i32 v[8];
#pragma unroll
        for (u32 row = 0; row < 8; row++) {
            both[row] = pair_at(block, row, pair, lane);
            v[row] = (i16)(both[row] & 0xFFFF);
        }
        idct_pass<11>(v, 1 << 10);
#pragma unroll
        for (u32 row = 0; row < 8; row++) {
            odd |= (u32)(v[row] + 16384);
            u32 other = both[row];
            both[row] = __byte_perm((u32)v[row], other, 0x7610);
            v[row] = (i32)other >> 16;
        }
        idct_pass<11>(v, 1 << 10);
#pragma unroll
        for (u32 row = 0; row < 8; row++) {
            odd |= (u32)(v[row] + 16384);
            pair_at(block, row, pair, lane) = __byte_perm(both[row], (u32)v[row], 0x5410);
        }
    }
    // The columns' results do not all fit in registers.
    compiler_barrier();
    u32 packed[4];
#pragma unroll
    for (u32 row = 0; row < 8; row++) {
        i32 v[8];
#pragma unroll
        for (u32 pair = 0; pair < 4; pair++) {
            u32& both = pair_at(block, row, pair, lane);
            v[2 * pair] = (i16)(both & 0xFFFF);
            v[2 * pair + 1] = (i32)both >> 16;
            both = 0;
        }
        // Add 128, because samples are centred at 128.
        idct_pass<18>(v, (1 << 17) + (128 << 18));
        u32 half = row % 2 * 2;
        packed[half] = clamped(v[0], v[1], v[2], v[3]);
        packed[half + 1] = clamped(v[4], v[5], v[6], v[7]);
        if (row % 2 && keep) out[row / 2] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
    }
    return odd >> 15;
}
