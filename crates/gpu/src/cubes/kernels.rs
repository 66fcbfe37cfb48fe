//! Names the kernels of `cubes.cu`, their PTX, and their expected configuration.

use super::wire::CONFIG;
use crate::config::KernelSource;

pub(crate) const SOURCE: KernelSource<{ CONFIG.len() }> = KernelSource {
    ptx: include_str!("../../ptx/cubes.ptx"),
    kernels: &[
        "cube_frames",
        "cube_streams",
        "cube_pieces",
        "cube_values",
        "cube_quads",
        "cube_affine",
        "cube_means",
        "cube_view",
        "cube_volume",
        "cube_extremes",
        "cube_gamma",
        "cube_noise",
        "cube_config",
    ],
    config: "cube_config",
    expected: CONFIG,
};
