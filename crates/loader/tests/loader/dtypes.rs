//! Tests the element types of arrays in batches: the stored type, a requested type, and samples that do not fit the
//! type.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{RowOf, base, said, write};
use shardpack_format::*;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{
    ArrayDtype, CubeMode, ElementType, Loader, LoaderOptions, OnCorrupt, PatchPlace, varying_arrays,
};
use shardpack_reader::{Dataset, Error};

const SHAPE: [u64; 3] = [2, 3, 2];

/// An array of small integers that differ from sample to sample, in one of the forms that packers write.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Plain(Dtype),
    /// A float32 array that is stored as float16.
    Half,
    /// Same as `Half`, with a no-data value that float16 cannot represent.
    HalfNoData,
    /// An array of this type that is stored as uint8.
    Small(Dtype),
    /// A float32 array whose shape differs from all other kinds.
    Wide,
}

fn value(id: u64, element: u64) -> u8 {
    ((id * 12 + element) % 100) as u8
}

fn element(value: u8, dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F16 => half::f16::from_f32(value.into()).to_le_bytes().to_vec(),
        Dtype::F32 => f32::from(value).to_le_bytes().to_vec(),
        Dtype::F64 => f64::from(value).to_le_bytes().to_vec(),
        integer => u64::from(value).to_le_bytes()[..integer.bytes() as usize].to_vec(),
    }
}

impl Kind {
    fn descriptor(self) -> ArrayDescriptor {
        let plain = ArrayDescriptor::plain(Dtype::F32, SHAPE.to_vec());
        let half = ArrayDescriptor { stored: Dtype::F16, transform: Transform::F16, ..plain.clone() };
        match self {
            Self::Plain(dtype) => ArrayDescriptor::plain(dtype, SHAPE.to_vec()),
            Self::Half => half,
            Self::HalfNoData => ArrayDescriptor {
                no_data: Some(-9999.0),
                codes: Codes { no_data: Some(0x7E01), ..Codes::default() },
                ..half
            },
            Self::Small(decoded) => {
                ArrayDescriptor { decoded, stored: Dtype::U8, transform: Transform::Integer, ..plain }
            }
            Self::Wide => ArrayDescriptor { shape: vec![2, 5, 2], ..plain },
        }
    }
}

struct Arrays {
    dir: tempfile::TempDir,
}

impl Arrays {
    fn new(kinds: &[Kind]) -> Self {
        let dir = crate::support::scratch();
        let schema = Schema::new(vec![Field::stored("cube", FieldKind::Array)]).unwrap();
        let counts = [kinds.len() as u64 / 2, kinds.len().div_ceil(2) as u64];
        write(dir.path(), &schema, &counts, |schema, number, id| {
            let descriptor = kinds[id as usize].descriptor();
            let elements = descriptor.elements().unwrap();
            let bytes: Vec<u8> = (0..elements).flat_map(|i| element(value(id, i), descriptor.stored)).collect();
            let encoded = descriptor.encode().unwrap();
            let stored = StoredField { descriptor: &encoded, ..StoredField::raw(bytes.len() as u64) };
            let key = format!("cube-{id}");
            let mut builder = RecordBuilder::new(Vec::new(), schema, number, id, &key, &[], &[Some(stored)]).unwrap();
            builder.field_mut(0).copy_from_slice(&bytes);
            let (bytes, frame) = builder.finish();
            (bytes, frame, key, Vec::new())
        });
        Self { dir }
    }

    fn loader(&self, options: LoaderOptions) -> Result<Loader, Error> {
        let options = options.batch_size(1).mode(Mode::Stored).end(End::Uneven).threads(2);
        Loader::open(&Dataset::open(self.dir.path()).unwrap(), options)
    }

    fn refused(&self, dtype: ArrayDtype) -> String {
        said(&self.loader(base().dtype(dtype)).unwrap_err())
    }

    /// Checks every value, and returns the element type.
    fn loads_as(&self, dtype: ArrayDtype) -> Dtype {
        let mut loader = self.loader(base().dtype(dtype)).unwrap();
        let mut types = Vec::new();
        while let Some(batch) = loader.next_batch() {
            let batch = batch.unwrap();
            let cube = batch.field("cube").unwrap();
            let ElementType::Dtype(dtype) = cube.dtype() else { panic!("{}", cube.dtype()) };
            let expected: Vec<u8> = (0..12).flat_map(|i| element(value(batch.indices()[0], i), dtype)).collect();
            assert_eq!(cube.row_of(0), expected);
            types.push(dtype);
        }
        types.dedup();
        assert_eq!(types.len(), 1, "one type for all: {types:?}");
        types[0]
    }
}

/// Calls `check` once for each rotation of the kinds, so that each kind comes first once.
fn turned(kinds: &[Kind], check: impl Fn(&Arrays)) {
    for turn in 0..kinds.len() {
        let mut kinds = kinds.to_vec();
        kinds.rotate_left(turn);
        check(&Arrays::new(&kinds));
    }
}

#[test]
fn samples_of_several_types_come_as_one_that_holds_all() {
    use Kind::*;
    for (kinds, expected) in [
        (&[Half, Plain(Dtype::U16), Small(Dtype::F32)][..], Dtype::F32),
        (&[HalfNoData, Plain(Dtype::U16)], Dtype::F32),
        (&[Plain(Dtype::U8), Plain(Dtype::I8)], Dtype::I16),
        (&[Half, Plain(Dtype::I32)], Dtype::F64),
        (&[Small(Dtype::I64), Plain(Dtype::U8), Small(Dtype::F32)], Dtype::I64),
        (&[Plain(Dtype::F64), Half], Dtype::F64),
        (&[Small(Dtype::I64)], Dtype::I64),
    ] {
        turned(kinds, |arrays| assert_eq!(arrays.loads_as(ArrayDtype::Source), expected, "{kinds:?}"));
    }
}

#[test]
fn a_requested_type_is_used_if_no_value_changes() {
    use Kind::*;
    let cubes = |dtype: Dtype| ArrayDtype::Cubes(dtype.into());
    turned(&[Half, Small(Dtype::F32), Plain(Dtype::U8)], |arrays| {
        assert_eq!(arrays.loads_as(cubes(Dtype::F16)), Dtype::F16);
        assert_eq!(arrays.loads_as(cubes(Dtype::F64)), Dtype::F64);
        assert_eq!(arrays.loads_as(ArrayDtype::Fields(vec![("cube".into(), Dtype::F32.into())])), Dtype::F32);
    });
    let mixed = Arrays::new(&[Half, HalfNoData, Plain(Dtype::F32)]);
    assert_eq!(
        mixed.refused(cubes(Dtype::F16)),
        "sample 1, `cube-1`: field `cube`: float16 cannot hold all values of float32 (no-data is -9999)\n\
         hint: choose the dtype float32, which can hold all values of both types"
    );
    assert!(
        mixed.refused(cubes(Dtype::I64)).contains("int64 cannot hold all values of float32"),
        "{}",
        mixed.refused(cubes(Dtype::I64))
    );
    let fields = |name: &str| ArrayDtype::Fields(vec![(name.into(), Dtype::F32.into())]);
    assert_eq!(
        mixed.refused(fields("cub")),
        "`dtype` cannot be set for `cub`, only for decoded pictures and arrays (cube)"
    );
    let apart = Arrays::new(&[Plain(Dtype::U64), Plain(Dtype::I64)]).refused(ArrayDtype::Source);
    assert!(
        apart.contains(
            "values of all samples, which have the types uint64, int64\nhint: load the samples of each type separately"
        ),
        "{apart}"
    );
}

/// The sample that does not fit is not among the inspected ones, so loading finds it. The error must name the sample
/// and must not count as damage.
#[test]
fn a_misfit_outside_the_inspected_samples_is_named_and_is_not_damage() {
    for (kind, message) in [
        (
            Kind::Plain(Dtype::F64),
            "sample 101, `cube-101`: field `cube`: float32 cannot hold all values of float64\n\
             hint: choose the dtype float64, which can hold all values of both types",
        ),
        (
            Kind::Wide,
            "sample 101, `cube-101`: field `cube`: the array has the shape [2, 5, 2], not [2, 3, 2] as in the \
             first sample\n\
             hint: load patches of one size, such as `cube = patch64x64`, or pack the arrays with scalar fields \
             `height`, `width` and `channels`",
        ),
    ] {
        let mut kinds = vec![Kind::Half; 200];
        kinds[101] = kind;
        let arrays = Arrays::new(&kinds);
        let on_corrupt = OnCorrupt::Skip { max: 9 };
        let mut loader = arrays.loader(base().on_corrupt(on_corrupt)).unwrap();
        for number in 0..200 {
            match loader.next_batch().unwrap() {
                Ok(batch) => assert_eq!(batch.indices(), [number]),
                Err(error) => {
                    assert_eq!(number, 101);
                    assert_eq!(error.kind(), ErrorKind::Usage, "{error:?}");
                    assert_eq!(said(&error), message);
                }
            }
        }
        assert_eq!(loader.stats().skipped, 0);
        if kind != Kind::Wide {
            let dtype = ArrayDtype::Cubes(Dtype::F64.into());
            assert_eq!(arrays.loads_as(dtype), Dtype::F64, "the hint helps");
        }
    }
}

/// The heads of records are read without a checksum. A damaged head must not determine the type, so the loader must
/// confirm it by reading whole records.
#[test]
fn a_damaged_head_does_not_set_the_type() {
    let arrays = Arrays::new(&[Kind::Plain(Dtype::U16); 8]);
    let dataset = Dataset::open(arrays.dir.path()).unwrap();
    let row = dataset.shard(0).unwrap().row(2).unwrap();
    drop(dataset);
    let path = arrays.dir.path().join(shard_name(0));
    let mut bytes = std::fs::read(&path).unwrap();
    // The descriptor follows the frame and one entry of the field table. It begins with the decoded and the
    // stored type.
    let at = row.offset as usize + 64 + 24;
    assert_eq!(bytes[at..at + 2], [Dtype::U16.code(); 2]);
    bytes[at..at + 2].fill(Dtype::I16.code());
    std::fs::write(&path, bytes).unwrap();
    let on_corrupt = OnCorrupt::Skip { max: 1 };
    let mut loader = arrays.loader(base().on_corrupt(on_corrupt)).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.field("cube").unwrap().dtype(), Dtype::U16);
}

#[test]
fn arrays_of_several_shapes_are_left_out_unless_named() {
    let arrays = Arrays::new(&[Kind::Plain(Dtype::F32), Kind::Wide, Kind::Plain(Dtype::F32), Kind::Wide]);
    let dataset = Dataset::open(arrays.dir.path()).unwrap();
    assert_eq!(varying_arrays(&dataset).unwrap(), ["cube"]);
    let loader = Loader::open(&dataset, base().batch_size(2)).unwrap();
    assert_eq!(loader.names().len(), 0);
    let named = base().batch_size(2).fields(["cube"]);
    let error = Loader::open(&dataset, named.clone()).unwrap_err().to_string();
    assert!(error.contains("cannot batch field `cube`: its arrays differ in shape"), "{error}");
    // All arrays are large enough for the patch, so one batch can hold them.
    let cube = CubeMode::Patch { height: 2, width: 2, place: PatchPlace::Center };
    let mut patches = Loader::open(&dataset, named.cube(cube)).unwrap();
    assert_eq!(patches.next_batch().unwrap().unwrap().field("cube").unwrap().shape().unwrap(), [2, 2, 2, 2]);
    let alike = Arrays::new(&[Kind::Plain(Dtype::F32), Kind::Plain(Dtype::U8)]);
    assert!(varying_arrays(&Dataset::open(alike.dir.path()).unwrap()).unwrap().is_empty());
}
