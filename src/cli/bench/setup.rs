//! Turns arguments and a dataset into loader options, and explains combinations that are impossible.

use super::args::{BenchArgs, OrderArg};
use super::limit::{Workload, WorkloadContent};
use super::view::Argument;
use super::{device, system};
use crate::cli::units;
use shardpack_format::{ArrayDescriptor, ElementType, FieldKind, Hint, Note};
use shardpack_loader::order::{End, Mode, Order};
use shardpack_loader::{
    ArrayDtype, BatchMix, CubeMode, ImageMode, Loader, LoaderOptions, Mix, NoData, OnCorrupt, OrderOptions,
    parse_augment, parse_mixes,
};
use shardpack_pack::bail;
use shardpack_reader::{Bands, Dataset};
use shardpack_recipe::DatasetRecipe;

const BATCH_BYTES: u64 = 256 << 20;

/// A loader that is ready to run, with its options for the report.
pub(super) struct Setup {
    pub(super) loader: Loader,
    pub(super) workload: Workload,
    /// View of pictures in `--image` notation, or `None` without pictures.
    pub(super) image: Option<String>,
    /// View of arrays in `--cube` notation, or `None` without arrays.
    pub(super) cube: Option<String>,
    /// Bands of the arrays in `--bands` notation, or `None` for all bands.
    pub(super) bands: Option<String>,
    /// Element type of the arrays in `--dtype` notation, or `None` for the source's type.
    pub(super) dtype: Option<String>,
    /// Memory of the process with all indexes open, before creating the loader.
    pub(super) resident_bytes: u64,
}

impl Setup {
    pub(super) fn predicted_bytes(&self) -> u64 {
        self.resident_bytes.saturating_add(self.loader.predicted_bytes())
    }
}

/// Parses a list of batch augmentations. All except mosaics need the number of classes.
fn mix(list: &str, dataset: &Dataset) -> crate::Result<BatchMix> {
    let choices = parse_mixes(list)?;
    let classes = match dataset.classes() {
        Some(classes) => classes.len(),
        None if choices.iter().all(|mix| matches!(mix, Mix::Mosaic(_))) => 0,
        None => bail!("`--augment-batch {list}` needs class names, which the dataset does not have"),
    };
    Ok(BatchMix { choices, classes: u32::try_from(classes)? })
}

pub(super) fn setup(args: &BenchArgs) -> crate::Result<Setup> {
    let dataset = args.dataset.open(args.max_record)?;
    if dataset.is_empty() {
        bail!("nothing to measure: `{}` has no samples", args.dataset.path.display());
    }
    let names = |kind| chosen(&dataset, args, kind);
    let (pictures, arrays) = (names(FieldKind::Image), names(FieldKind::Array));
    fits("--image", "pictures", args.image.as_ref().map(|view| &*view.text), &pictures, &dataset)?;
    fits("--cube", "arrays", args.cube.as_ref().map(|view| &*view.text), &arrays, &dataset)?;
    fits("--bands", "arrays", args.bands.as_ref().map(|bands| &*bands.text), &arrays, &dataset)?;
    let view = args.image.clone().unwrap_or_else(Argument::full);
    let cube = args.cube.clone().unwrap_or_else(Argument::whole);
    let bands = args.bands.as_ref().map_or(Bands::All, |view| view.value.clone());
    let dtype = args.dtype.as_ref().map_or(ArrayDtype::Source, |view| view.value.clone());
    let decoded: Vec<&str> = arrays.iter().chain(&pictures).copied().collect();
    fits("--dtype", "arrays or pictures", args.dtype.as_ref().map(|dtype| &*dtype.text), &decoded, &dataset)?;
    let augment = args.augment.as_deref().map(parse_augment).transpose()?.unwrap_or_default();
    let mix = args.augment_batch.as_deref().map(|list| mix(list, &dataset)).transpose()?;
    let scaling = device::scaling(args.mean.as_deref(), args.std.as_deref())?;
    if let (Some(lanes), OrderArg::Stored | OrderArg::Full) = (args.lanes, args.order) {
        bail!("`--lanes {lanes}` applies only to `--order windowed`");
    }
    if let (Some(view), CubeMode::Raw) = (&args.dtype, cube.value) {
        bail!("`--dtype {}` has no effect with `--cube raw`", view.text);
    }
    if let (Some(view), CubeMode::Raw) = (&args.bands, cube.value) {
        bail!("`--bands {}` has no effect with `--cube raw`", view.text);
    }
    // Read all indexes before measuring, because the measurement should not include them.
    for number in dataset.shard_numbers() {
        dataset.shard(number)?;
    }
    let batch_size = match args.batch_size {
        Some(samples) => samples,
        None => default_batch_size(&dataset, &arrays, &cube, &bands, &dtype),
    };
    // A batch larger than the dataset would waste memory.
    let batch_size = batch_size.min(shardpack_format::saturating_u32(dataset.len()));
    let threads = args.threads.unwrap_or_else(shardpack_io::cores);
    let stage = device::stage(args.device)?;
    let mut options = LoaderOptions::default()
        .batch_size(batch_size)
        .seed(args.seed)
        .mode(match args.order {
            OrderArg::Stored => Mode::Stored,
            OrderArg::Windowed => Mode::Windowed,
            OrderArg::Full => Mode::Full,
        })
        .lanes(args.lanes.map_or(Order::LANES, u64::from))
        // Allow an incomplete last batch, so that every sample is loaded.
        .end(End::Uneven)
        .image(view.value)
        .cube(cube.value)
        .bands(bands)
        .dtype(dtype)
        .threads(threads)
        .slots(args.slots.map_or_else(|| Ok(LoaderOptions::default_slots(stage.is_some())), usize::try_from)?)
        .read_ahead_bytes(args.read_ahead)
        .max_batch_bytes(args.max_batch)
        .window(args.window.value)
        // The page cache is dropped before each epoch, so the loader must not read before that.
        .begins_ahead(!args.cold)
        .on_corrupt(match args.skip {
            0 => OnCorrupt::Error,
            samples => OnCorrupt::Skip { max: samples.saturating_mul(args.epochs.into()) },
        })
        .no_data(args.no_data.map_or(NoData::AsStored, NoData::Cubes))
        .augment(augment.arrays)
        .augment_bands(augment.bands)
        .augment_pictures(augment.pictures)
        .resident(args.resident);
    options.output.fields = args.fields.clone();
    options.output.scaling = scaling;
    options.output.mix = mix;
    options.resources.stage = stage;
    let content = content(&dataset, &pictures, &arrays, &view, &cube);
    let resident_bytes = system::resident_bytes();
    let workload = Workload {
        threads,
        cores: shardpack_io::cores(),
        batch_size,
        slots: options.resources.slots,
        single_reads: args.order == OrderArg::Full,
        dataset_bytes: dataset.shards().map(|shard| shard.bytes).sum(),
        memory_bytes: system::memory_bytes(),
        content,
        on_device: options.resources.stage.is_some(),
    };
    if args.cold {
        // Drop the pages here too, because the loader checks which ones are cached when it is opened.
        system::drop_page_cache(&dataset)?;
    }
    let loader = Loader::open(&dataset, options)?;
    has_room(loader.predicted_bytes(), system::available_bytes())?;
    Ok(Setup {
        loader,
        workload,
        image: (!pictures.is_empty()).then_some(view.text),
        cube: (!arrays.is_empty()).then_some(cube.text),
        bands: args.bands.as_ref().map(|bands| bands.text.clone()),
        dtype: args.dtype.as_ref().map(|dtype| dtype.text.clone()),
        resident_bytes,
    })
}

/// Returns the fields of this kind. The loader reports unknown names.
fn chosen<'d>(dataset: &'d Dataset, args: &BenchArgs, kind: FieldKind) -> Vec<&'d str> {
    let chosen = |name: &String| args.fields.as_ref().is_none_or(|names| names.contains(name));
    let fields = dataset.schema().fields().iter().filter(|field| field.kind == kind && chosen(&field.name));
    fields.map(|field| &*field.name).collect()
}

/// Fails if the option would have no effect, because the dataset has no fields of this kind.
fn fits(flag: &str, what: &str, value: Option<&str>, found: &[&str], dataset: &Dataset) -> crate::Result<()> {
    if let (Some(value), []) = (value, found) {
        let fields: Vec<&str> = dataset.schema().user_fields().map(|field| &*field.name).collect();
        let fields = fields.join(", ");
        bail!("`{flag} {value}` has no effect, because no {what} are loaded; the dataset has the fields {fields}");
    }
    Ok(())
}

/// Returns a batch size that fits into memory, based on the first sample. Ignores damage of that sample, because the
/// loader reports it.
fn default_batch_size(
    dataset: &Dataset,
    arrays: &[&str],
    cube: &Argument<CubeMode>,
    bands: &Bands,
    dtype: &ArrayDtype,
) -> u32 {
    let most = OrderOptions::default().batch_size;
    let Ok(sample) = dataset.get(0) else { return most };
    let bytes = |name: &&str| {
        let descriptor = sample.descriptor(name).ok()?;
        let element = dtype.of(name, descriptor.shape.len()).unwrap_or(descriptor.decoded.into());
        loaded_bytes(&descriptor, element, cube.value, bands)
    };
    let bytes: u64 = match cube.value {
        _ if arrays.is_empty() => 0,
        CubeMode::Raw => sample.record_bytes().len() as u64,
        _ => arrays.iter().filter_map(bytes).fold(0, u64::saturating_add),
    };
    let fit = BATCH_BYTES.checked_div(bytes).and_then(|samples| samples.try_into().ok()).unwrap_or(most);
    fit.clamp(1, most)
}

fn loaded_bytes(descriptor: &ArrayDescriptor, element: ElementType, mode: CubeMode, bands: &Bands) -> Option<u64> {
    let mut shape = descriptor.shape.clone();
    if let (CubeMode::Patch { height, width, .. }, [rows, columns] | [rows, columns, _]) = (mode, &mut *shape) {
        (*rows, *columns) = (height.into(), width.into());
    }
    if let (CubeMode::Volume { size, .. }, [planes, rows, columns] | [planes, rows, columns, _]) = (mode, &mut *shape) {
        [*planes, *rows, *columns] = size.map(u64::from);
    }
    if let [.., channels] = &mut *shape
        && descriptor.shape.len() == 3
    {
        *channels = match bands {
            Bands::All => *channels,
            Bands::Range(range) => range.end.saturating_sub(range.start),
            Bands::List(list) => list.len() as u64,
        };
    }
    element.array_bytes(&shape).ok()
}

fn content(
    dataset: &Dataset,
    pictures: &[&str],
    arrays: &[&str],
    view: &Argument<ImageMode>,
    cube: &Argument<CubeMode>,
) -> WorkloadContent {
    let recipe = DatasetRecipe::read(dataset.recipe());
    match (pictures, arrays) {
        ([picture, ..], _) if view.value != ImageMode::Raw => WorkloadContent::Pictures {
            side: view.side(),
            // If the recipe does not mention the field, assume that its pictures can be decoded in parts, because
            // otherwise the advice might suggest something that has already been done.
            in_parts: recipe.pictures(picture).is_none_or(|how| !how.keeps_files() || how.has_segment_index()),
            short_side: short_side(dataset),
        },
        (_, [array, ..]) if cube.value != CubeMode::Raw => {
            WorkloadContent::Arrays { coder: recipe.arrays(array).map(|arrays| arrays.settings.coder) }
        }
        _ => WorkloadContent::Stored,
    }
}

fn short_side(dataset: &Dataset) -> Option<f64> {
    let (height, width) = (dataset.column("height").ok()?.to_f64s(), dataset.column("width").ok()?.to_f64s());
    let sum: f64 = height.iter().zip(&width).map(|(height, width)| height.min(*width)).sum();
    (!height.is_empty()).then(|| sum / height.len() as f64)
}

/// Fails if there is too little memory. Otherwise the system would kill the process during the run.
fn has_room(needed: u64, available: Option<u64>) -> crate::Result<()> {
    match available {
        Some(available) if needed > available => {
            let text = format!(
                "not enough memory for the batches: {} needed, {} free",
                units::bytes(needed),
                units::bytes(available)
            );
            let hint = Hint::new("lower ").and([shardpack_format::Setting::named("batch_size")]).then(" or ");
            bail!(Note::new(text).with_hint(hint.and([shardpack_format::Setting::named("slots")])))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use shardpack_array::{Array, Coder};
    use shardpack_format::Dtype;
    use shardpack_loader::PatchPlace;
    use shardpack_pack::npy;
    use shardpack_pack::pack::{Hooks, PackOptions, pack};
    use shardpack_recipe::OptionValue;
    use std::sync::atomic::AtomicBool;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: BenchArgs,
    }

    #[test]
    fn no_data_is_a_number_and_no_matter_of_the_stream() {
        let of = |more: &[&str]| Command::try_parse_from([&["bench", "train"], more].concat());
        assert_eq!(of(&["--no-data", "-9999"]).unwrap().args.no_data, Some(-9999.0));
        assert_eq!(of(&[]).unwrap().args.no_data, None);
        assert!(of(&["--no-data", "0", "--stream"]).is_err());
    }

    #[test]
    fn a_part_of_an_array_takes_the_bytes_of_the_part() {
        let bytes = |shape, mode, bands| {
            loaded_bytes(&ArrayDescriptor::plain(Dtype::F32, shape), Dtype::F32.into(), mode, &bands)
        };
        let patch = CubeMode::Patch { height: 8, width: 4, place: PatchPlace::Random };
        assert_eq!(bytes(vec![480, 640, 100], CubeMode::Whole, Bands::All), Some(480 * 640 * 100 * 4));
        assert_eq!(bytes(vec![480, 640, 100], CubeMode::Whole, Bands::List(vec![5, 3])), Some(480 * 640 * 2 * 4));
        assert_eq!(bytes(vec![480, 640, 100], patch, Bands::Range(10..50)), Some(8 * 4 * 40 * 4));
        assert_eq!(bytes(vec![480, 640], patch, Bands::Range(10..50)), Some(8 * 4 * 4));
        assert_eq!(bytes(vec![100], patch, Bands::Range(10..50)), Some(100 * 4));
    }

    #[test]
    fn the_codec_of_a_packed_dataset_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let (source, out) = (folder.path().join("in"), folder.path().join("out"));
        std::fs::create_dir(&source).unwrap();
        let cube = Array::new(Dtype::U16, vec![8, 8, 4], vec![7; 512]).unwrap();
        std::fs::write(source.join("a.npy"), [npy::header(&cube), cube.bytes().to_vec()].concat()).unwrap();
        let given = [("codec".to_owned(), OptionValue::Text("blosc2-zstd".into()))];
        let hooks = Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &AtomicBool::new(false) };
        pack(&source, &out, &PackOptions::read(&given, &out).unwrap(), &hooks).unwrap();
        let args = Command::try_parse_from(["bench", out.to_str().unwrap()]).unwrap().args;
        let found = setup(&args).unwrap().workload.content;
        assert_eq!(found, WorkloadContent::Arrays { coder: Some(Coder::Blosc2Zstd) });
    }

    #[test]
    fn what_does_not_fit_into_memory_is_not_begun() {
        assert!(has_room(1 << 30, Some(1 << 30)).is_ok() && has_room(1 << 40, None).is_ok());
        let error = has_room(5_000_000_000, Some(4_000_000_000)).unwrap_err();
        let error = crate::explain::explain(&error, shardpack_format::Voice::Command);
        assert!(error.contains("4.00 GB") && error.contains("5.00 GB") && error.contains("--batch-size"), "{error}");
    }
}
