// Correct and faulty kernels that test the emulator.
#include "device.cuh"

struct PlayTest {
    Ptr<const u32> in;
    Ptr<u32> out;
    u32 count;
    u32 choice;
};

struct PlayShared {
    Array<u32, 64> values;
};

// Reverses the 64 values of a block. If `choice` is 1, the barrier is missing.
KERNEL(play_reverse, PlayTest, 64) {
    SHARED(PlayShared, s);
    u32 base = blockIdx.x * 64;
    s.values[threadIdx.x] = p.in[base + threadIdx.x];
    if (p.choice != 1) __syncthreads();
    p.out[base + threadIdx.x] = s.values[63 - threadIdx.x];
}

// Sums over each warp with shuffles, and counts odd values with a vote.
KERNEL(play_warp_sum, PlayTest, 64) {
    u32 value = p.in[threadIdx.x], odd = __ballot_sync(0xFFFFFFFFu, value & 1);
    for (u32 n = 16; n; n /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, n);
    value = __shfl_sync(0xFFFFFFFFu, value, 0);
    // The two halves of the warp take different branches.
    u32 mask = threadIdx.x & 16 ? 0xFFFF0000u : 0x0000FFFFu;
    u32 other = __shfl_xor_sync(mask, threadIdx.x, 1);
    p.out[threadIdx.x] = value + (u32)__popc(odd) * 1000 + (other == (threadIdx.x ^ 1) ? 0 : 1u << 31);
}

// Makes the mistake with number `choice`, or none if `choice` is 0.
KERNEL(play_wrong, PlayTest, 64) {
    SHARED(PlayShared, s);
    if (p.choice == 1) p.out[p.count] = 1;
    if (p.choice == 2) p.out[0] = (p.in - 1)[0];
    if (p.choice == 3 && threadIdx.x != 5) __syncthreads();
    if (p.choice == 4) s.values[p.count] = 1;
    if (p.choice == 5) p.out[0] = *cast<const u32>(cast<const u8>(p.in) + 1);
    if (p.choice == 6 && threadIdx.x == 5) __syncwarp();
}

KERNEL(play_halves, PlayTest, 64) {
    for (u32 i = threadIdx.x; i < p.count; i += blockDim.x) {
        float x = bits_float(p.in[i]);
        p.out[i] = (u32)bf16_bits(x) << 16 | f16_bits(x);
    }
}
