//! Decodes a value that the fake stage has accepted, with the host's decoders.

use shardpack_array::{ArrayDecoder, Finish, Region};
use shardpack_augment::{Augmentation, ChangeScratch, Picture};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, ElementType, Layout, Limits};
use shardpack_jpeg::{FloatTable, PictureDecoder, PixelLayout, Rendering, Scaling, StoredPicture};
use shardpack_loader::stage::{MaskView, RowNoise, ViewElement};

#[derive(Debug)]
pub enum Job {
    Picture {
        media_type: String,
        bytes: Vec<u8>,
        how: Rendering,
        changes: Vec<Augmentation>,
        dtype: ElementType,
        scaling: Scaling,
    },
    Array {
        codec: Codec,
        descriptor: ArrayDescriptor,
        bytes: Vec<u8>,
        region: Option<Region>,
        finish: Box<Finish>,
        noise: Option<RowNoise>,
        limits: Limits,
    },
    Mask {
        codec: Codec,
        descriptor: ArrayDescriptor,
        bytes: Vec<u8>,
        region: Region,
        view: Box<MaskView>,
        limits: Limits,
    },
    Bytes(Vec<u8>),
    Zero,
}

impl Job {
    /// Decodes a value into a row of the output, using the host's decoders. Fails on pictures of `odd_bytes` bytes.
    pub fn decode(self, odd_bytes: Option<usize>, to: &mut [u8]) -> Result<(), String> {
        match self {
            Self::Zero => to.fill(0),
            Self::Bytes(bytes) => to.copy_from_slice(&bytes),
            Self::Picture { media_type, bytes, how, changes, dtype, scaling } => {
                if odd_bytes == Some(bytes.len()) {
                    return Err("a stream that ends early".into());
                }
                let mut decoder = PictureDecoder::new(Limits::default());
                let mut levels = vec![0; to.len() / dtype.bytes() as usize];
                let plain = Rendering { layout: PixelLayout::HeightWidthChannels, ..how };
                let size = decoder.decode_into(&StoredPicture::new(&media_type, &bytes), &plain, &mut levels);
                let size = size.map_err(|e| e.to_string())?;
                let [height, width] = [size.height, size.width].map(|side| side as usize);
                change(&changes, &how, &mut Picture::new(&mut levels, height, width).unwrap());
                if how.layout == PixelLayout::ChannelsHeightWidth {
                    levels = (0..3).flat_map(|c| levels.iter().skip(c).step_by(3)).copied().collect();
                }
                match dtype {
                    ElementType::Dtype(Dtype::U8) => to.copy_from_slice(&levels),
                    _ => float(scaling, dtype, &levels, how.layout, to),
                }
            }
            Self::Array { codec, descriptor, bytes, region, finish, noise, limits } => {
                let mut decoder = ArrayDecoder::new();
                let whole = Region::whole(&descriptor).ok();
                let (shape, layout) = match region.as_ref().or(whole.as_ref()) {
                    Some(region) => {
                        let [a, b, c] = region.shape_of(&descriptor).map_err(|e| e.to_string())?.shape;
                        match region.layout {
                            Layout::AsShape => ([a, b, c], Layout::AsShape),
                            Layout::BandMajor => ([b, c, a], Layout::BandMajor),
                        }
                    }
                    None => ([1, descriptor.elements().map_err(|e| e.to_string())?, 1], Layout::AsShape),
                };
                let mut elements = vec![0; descriptor.decoded.array_bytes(&shape).unwrap() as usize];
                let decoded = match &region {
                    Some(region) => {
                        decoder.decode_region(codec, &descriptor, &bytes, region, &mut elements, &limits).map(|_| ())
                    }
                    None => decoder.decode_into(codec, &descriptor, &bytes, &mut elements, &limits),
                };
                let finished = decoded.and_then(|()| finish.apply(descriptor.decoded, shape, layout, &elements, to));
                finished.map_err(|e| e.to_string())?;
                if let Some(noise) = noise {
                    let dtype = finish.to.of(descriptor.decoded).unwrap();
                    noise.add(dtype, (shape, layout), to).unwrap();
                }
            }
            Self::Mask { codec, descriptor, bytes, region, view, limits } => {
                let plain = Region { layout: Layout::AsShape, ..region.clone() };
                let channels = if descriptor.shape.len() == 3 { descriptor.bands() as usize } else { 1 };
                let element = descriptor.decoded.size();
                let mut elements = vec![0; region.height as usize * region.width as usize * channels * element];
                let decoded =
                    ArrayDecoder::new().decode_region(codec, &descriptor, &bytes, &plain, &mut elements, &limits);
                decoded.map_err(|e| e.to_string())?;
                let pixels = view.rows.len() * view.columns.len();
                for (n, channel) in (0..pixels).flat_map(|n| (0..channels).map(move |channel| (n, channel))) {
                    let at = [n / view.columns.len(), n % view.columns.len()].map(|side| side as u32);
                    let value = match view.shown(at) {
                        ViewElement::Pixel([y, x]) => {
                            let from = (y as usize * region.width as usize + x as usize) * channels + channel;
                            elements[from * element..][..element].to_vec()
                        }
                        ViewElement::Fixed(bits) => bits.to_le_bytes()[..element].to_vec(),
                    };
                    let place = match region.layout {
                        Layout::BandMajor => channel * pixels + n,
                        Layout::AsShape => n * channels + channel,
                    };
                    to[place * element..][..element].copy_from_slice(&value);
                }
            }
        }
        Ok(())
    }
}

fn change(changes: &[Augmentation], how: &Rendering, picture: &mut Picture<'_>) {
    let (draws, height, width) = (how.key.draws(), picture.height(), picture.width());
    for (place, change) in (0..).zip(changes) {
        let operations = change.resolve(&draws, place, height, width);
        operations.iter().for_each(|operation| operation.apply(picture, &mut ChangeScratch::default()));
    }
}

fn float(scaling: Scaling, dtype: ElementType, levels: &[u8], layout: PixelLayout, to: &mut [u8]) {
    FloatTable::new(scaling, dtype).unwrap().convert(levels, layout, to).unwrap();
}
