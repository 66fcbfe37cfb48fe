//! Applies the host's augmentations and conversions to decoded levels.

use half::{bf16, f16};
use shardpack_augment::{Augmentation, ChangeScratch, Picture};
use shardpack_format::{Dtype, ElementType};
use shardpack_jpeg::{PixelLayout, Rendering, Scaling};

pub(crate) fn changed(mut levels: Vec<u8>, size: [usize; 2], how: &Rendering, changes: &[Augmentation]) -> Vec<u8> {
    let [height, width] = size;
    let mut picture = Picture::new(&mut levels, height, width).expect("a whole picture");
    for (place, change) in (0..).zip(changes) {
        for operation in change.resolve(&how.key.draws(), place, height, width) {
            operation.apply(&mut picture, &mut ChangeScratch::default());
        }
    }
    match how.layout {
        PixelLayout::HeightWidthChannels => levels,
        PixelLayout::ChannelsHeightWidth => {
            (0..3).flat_map(|channel| levels.iter().skip(channel).step_by(3)).copied().collect()
        }
    }
}

/// Converts levels in the given layout to the bytes that the device would write.
pub(crate) fn converted(levels: &[u8], layout: PixelLayout, scaling: &Scaling, dtype: ElementType) -> Vec<u8> {
    let pixels = levels.len() / 3;
    let mut out = Vec::new();
    for (n, &level) in levels.iter().enumerate() {
        let channel = match layout {
            PixelLayout::HeightWidthChannels => n % 3,
            PixelLayout::ChannelsHeightWidth => n / pixels,
        };
        let value = scaling.apply(channel, level);
        match dtype {
            ElementType::Dtype(Dtype::F16) => out.extend(f16::from_f32(value).to_le_bytes()),
            ElementType::Bf16 => out.extend(bf16::from_f32(value).to_le_bytes()),
            ElementType::Dtype(Dtype::F32) => out.extend(value.to_le_bytes()),
            ElementType::Dtype(_) => out.push(level),
        }
    }
    out
}
