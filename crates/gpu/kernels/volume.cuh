// Moves boxes of volumes across planes by an affine map, and computes channels at a low resolution. The host computes
// the same results (crates/array, volume_warp.rs and finish/volume.rs), so products and sums are rounded separately.
#pragma once
#include "affine.cuh"

#define VOLUME_THREADS 256u

// How the voxels of a box are computed. Axes are in the order planes, rows, columns. Unless `channels` is 0, the low
// resolution of each channel follows, as numbers of planes, rows and columns. They are 0 for channels that keep their
// resolution.
struct VolumeMove {
    // Rows of the map for x, y and z, relative to the centre of the box.
    Array<double, 12> map;
    // First voxel and size of the part that the map may read, and then of the box.
    Array<u32, 3> within, within_size, origin, size;
    u32 height, width;
    u32 channels, unused;
};

// Interpolation along an axis at a low resolution: the two positions to read, and the weight of the second.
struct LowTaps {
    Array<u32, 2> places;
    float second_weight;
};

// Computes in units of half a voxel, so that all numbers are whole.
FN LowTaps low_taps(u32 at, u32 low, u32 side) {
    const u64 sum = (2 * (u64)at + 1) * low, ahead = sum > side ? sum - side : 0, both = 2 * (u64)side;
    const u64 first = ahead / both, rest = ahead % both;
    LowTaps taps;
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const u64 voxel = first + i < low - 1 ? first + i : low - 1;
        taps.places[i] = (u32)((2 * voxel + 1) * side / (2 * (u64)low));
    }
    taps.second_weight = (float)((double)rest / (double)both);
    return taps;
}

// Returns the source position of the box's voxel [z, y, x] along axis `axis` of the volume.
FN double volume_place(const VolumeMove& v, const Array<u32, 3>& voxel, u32 axis) {
    // A voxel's centre is half a voxel from its edge.
    const double z = (double)voxel[0] + 0.5 - (double)v.size[0] * 0.5;
    const double y = (double)voxel[1] + 0.5 - (double)v.size[1] * 0.5;
    const double x = (double)voxel[2] + 0.5 - (double)v.size[2] * 0.5;
    const u32 row = 4 * (2 - axis);
    const double middle = (double)v.origin[axis] + (double)v.size[axis] * 0.5;
    return v.map[row] * x + (v.map[row + 1] * y + v.map[row + 2] * z + v.map[row + 3] + middle);
}
