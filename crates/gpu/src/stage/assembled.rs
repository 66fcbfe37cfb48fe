//! A batch that is ready for upload: its copies, its kernel launches, and the meaning of its status words.

use super::prepared_row::{HostBytes, PreparedRow};
use super::sharing::SharedArrays;
use crate::config::STATUS_BYTES;
use crate::cubes::{self, CubeWork, Fault};
use crate::driver::Launch;
use crate::gather::Gather;
use crate::pictures::{self, LevelsBatch, PictureBatch, Regions, StagedPicture};
use shardpack_format::to_usize;
use shardpack_loader::stage::{DeviceArray, RowFault, Spot};
use std::borrow::Cow;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct Assembled {
    /// Number of bytes to upload, from the start of the staging memory to the start of the slot's memory.
    pub(crate) upload_bytes: usize,
    /// Size of the batch in the slot's memory, in bytes.
    pub(crate) memory_bytes: usize,
    /// Rows that the host decoded, with their offsets in the output.
    pub(super) host: Vec<(usize, HostBytes)>,
    /// Ranges of the output to fill with zeros.
    pub(super) zero: Vec<Range<usize>>,
    pictures: PictureBatch,
    regions: Regions<usize>,
    levels: LevelsBatch,
    cubes: CubeWork,
    /// Copies of kept values, performed on the device.
    gather: Gather,
    /// The field and row of each picture and of each cube, in the order of their status words. All frames of a clip
    /// have the same row.
    spots: [Vec<Spot>; 2],
    /// For each picture, the number of the picture whose samples it uses.
    samples_of: Vec<usize>,
    /// Crops that cannot be decoded, because the picture whose samples they use was prepared but then dropped. This
    /// happens only in rows that fail.
    lost: Vec<Spot>,
    /// For each shared array, the cube rows that use it.
    sharing: Vec<Vec<usize>>,
    /// Keeps arrays on the device alive until the kernels have read them.
    _scenes: Vec<Arc<dyn DeviceArray>>,
}

impl Assembled {
    /// Assembles a batch. Also returns its tables, which the caller must copy to offset `start` of the staging
    /// memory. `host` holds the first bytes of the output. In the slot's memory, cubes use `scratch`, and pictures
    /// use the bytes after it. Some rows use parts of the `shared` arrays. Arrays on the device are held until the
    /// batch is dropped.
    pub(super) fn new(
        rows: impl Iterator<Item = (Spot, PreparedRow)>,
        shared: SharedArrays,
        host: HostBytes,
        start: usize,
        scratch: Range<u64>,
    ) -> Result<(Self, Vec<u8>), String> {
        let SharedArrays { arrays, scenes } = shared;
        let (mut host, mut zero) = (vec![(0, host)], Vec::new());
        let (mut pictures, mut cubes, mut spots) = (Vec::<StagedPicture>::new(), Vec::new(), [const { Vec::new() }; 2]);
        let (mut samples_of, mut lost) = (Vec::new(), Vec::new());
        let mut levels = Vec::new();
        let [picture_spots, cube_spots] = &mut spots;
        let mut sharing = vec![Vec::new(); arrays.len()];
        for (spot, fate) in rows {
            match fate {
                PreparedRow::Host(bytes) => host.push((spot.bytes.start, bytes)),
                PreparedRow::Levels(row) => levels.push(row),
                PreparedRow::Zero => zero.push(spot.bytes),
                PreparedRow::Pictures(entries, of) => {
                    // Rows are sorted by field and number, so the picture with the samples comes first.
                    let place = |spot: &Spot| (spot.field, spot.row);
                    let of = if of == place(&spot) {
                        Some(pictures.len())
                    } else {
                        let of = picture_spots.binary_search_by_key(&of, place).ok();
                        of.filter(|&of| entries.iter().all(|entry| shares(pictures.get(of), entry)))
                    };
                    match of {
                        Some(of) => {
                            // Each frame of a clip has its own samples. A crop that uses the samples of another one is
                            // a single picture.
                            samples_of.extend((of..).take(entries.len()));
                            picture_spots.extend(iter::repeat_n(spot, entries.len()));
                            pictures.extend(entries);
                        }
                        None => lost.push(spot),
                    }
                }
                PreparedRow::Cube(entry, identity) => {
                    let number = |identity| arrays.binary_search_by_key(&identity, |(identity, _)| *identity).ok();
                    let number = identity.and_then(number);
                    if let Some(rows) = number.and_then(|number| sharing.get_mut(number)) {
                        rows.push(cubes.len());
                    }
                    cubes.push((entry, number));
                    cube_spots.push(spot);
                }
            }
        }
        let mut tables = Vec::new();
        let pictures: Vec<_> = pictures.iter().collect();
        let cubes: Vec<_> = cubes.iter().map(|(entry, number)| (&**entry, *number)).collect();
        let arrays: Vec<_> = arrays.iter().map(|(_, places)| places).collect();
        let pieces = pictures.iter().flat_map(|entry| entry.pieces());
        let gather = Gather::assemble(pieces, start, &mut tables).ok_or("batch has too many copies for one launch")?;
        let pictures =
            pictures::assemble(&pictures, &samples_of, start, &mut tables).map_err(|reason| reason.to_string())?;
        let levels = LevelsBatch::assemble(&levels, start, &mut tables);
        let cubes = cubes::assemble(&cubes, &arrays, start, scratch.end, &mut tables);
        let cubes = cubes.map_err(|error| error.to_string())?;
        let slot_bytes = to_usize(cubes.slot_bytes());
        let (regions, memory_bytes) = pictures.layout(slot_bytes);
        let upload_bytes = start + tables.len();
        Ok((
            Self {
                upload_bytes,
                memory_bytes,
                host,
                zero,
                pictures,
                regions,
                levels,
                cubes,
                gather,
                spots,
                samples_of,
                lost,
                sharing,
                _scenes: scenes,
            },
            tables,
        ))
    }

    /// Returns the kernel launches, in order: the copying kernel, the picture kernels and the cube kernels. The
    /// parameters are the addresses of the kept values, of the slot's memory and of the output.
    pub(super) fn launches(&self, kept: u64, memory: u64, out: u64) -> [Vec<Launch>; 3] {
        let at = Regions { out, ..self.regions.map(|offset| memory + offset as u64) };
        let cubes = self.cubes.launches(memory, kept, out);
        let gather = [self.gather.launch(kept, memory)].into_iter().filter(Launch::has_work).collect();
        let mut pictures = self.pictures.launches(&at);
        pictures.extend(self.levels.launches(memory, out));
        [gather, pictures, cubes.into_iter().filter(Launch::has_work).collect()]
    }

    /// Returns the ranges of the status words in the slot's memory, first for pictures and then for cubes.
    /// The kernels write these words.
    pub(super) fn statuses(&self) -> [Range<usize>; 2] {
        let pictures = self.regions.status;
        [pictures..pictures + STATUS_BYTES * self.pictures.rows().len(), self.cubes.statuses()]
    }

    pub(super) fn faults(&self, words: [&[u8]; 2]) -> Vec<RowFault> {
        let [pictures, cubes] = &self.spots;
        let [picture_words, cube_words] = words.map(|words| words.as_chunks::<STATUS_BYTES>().0);
        let (own_words, shared_words) = cube_words.split_at_checked(cubes.len()).unwrap_or((cube_words, &[]));
        let word = |word: &[u8; STATUS_BYTES]| u32::from_le_bytes(*word);
        let mut cube_words: Vec<u32> = own_words.iter().map(word).collect();
        // A fault in shared blocks counts as a fault of every row that may use them.
        for (rows, shared) in self.sharing.iter().zip(shared_words) {
            for &row in rows {
                if let Some(own) = cube_words.get_mut(row).filter(|own| Fault::of(**own).is_none()) {
                    *own = word(shared);
                }
            }
        }
        let fault = |spot: &Spot, reason: Option<&'static str>| {
            reason.map(|reason| RowFault { row: spot.row, field: spot.field, reason: Cow::Borrowed(reason) })
        };
        // A fault in the samples counts as a fault of every crop that uses them.
        let of_samples = |&of: &usize| picture_words.get(of).map_or(0, word);
        let of_pictures = pictures
            .iter()
            .zip(picture_words)
            .zip(&self.samples_of)
            .filter_map(|((spot, own), of)| fault(spot, PictureBatch::fault(word(own) | of_samples(of))));
        let of_cubes = cubes
            .iter()
            .zip(cube_words)
            .filter_map(|(spot, of)| fault(spot, Fault::of(of).map(|fault| fault.reason())));
        let of_lost =
            self.lost.iter().filter_map(|spot| fault(spot, Some("a crop without the samples of its picture")));
        let mut faults: Vec<_> = of_pictures.chain(of_cubes).chain(of_lost).collect();
        // Report only the first faulty frame of each clip.
        faults.dedup_by_key(|fault| (fault.row, fault.field));
        faults
    }
}

/// Returns true if `first` decodes the samples that another crop of the same picture needs.
fn shares(first: Option<&StagedPicture>, crop: &StagedPicture) -> bool {
    first.is_some_and(|first| first.samples() == Some(crop.samples_used()))
}
