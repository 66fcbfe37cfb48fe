//! Names the kernels of `pictures.cu`, their PTX, and their expected configuration.

use super::layout::{CONFIG, KERNELS};
use crate::config::KernelSource;

pub(crate) const SOURCE: KernelSource<{ CONFIG.len() }> = KernelSource {
    ptx: include_str!("../../ptx/pictures.ptx"),
    kernels: &KERNELS,
    config: "pictures_config",
    expected: CONFIG,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_host_agree_on_sizes_and_constants() {
        SOURCE.assert_same();
    }
}
