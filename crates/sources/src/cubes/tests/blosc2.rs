use super::blosc2_writer::{Blosc2Spec, Coded, NANS, NEVER_SET, ZEROS, smooth, smooth_spec};
use super::*;

const SHAPE: [usize; 3] = [3, 5, 4];

#[test]
fn every_type_coder_and_layout() {
    let folder = Folder::new();
    let options = CubeOptions::default();
    let types = [
        (Dtype::Bool, "|b1"),
        (Dtype::U8, "|u1"),
        (Dtype::I16, "<i2"),
        (Dtype::U16, ">u2"),
        (Dtype::F16, "<f2"),
        (Dtype::F32, "<f4"),
        (Dtype::F32, ">f4"),
        (Dtype::I64, "<i8"),
        (Dtype::F64, ">f8"),
    ];
    for (dtype, descr) in types {
        let elements = ordered(dtype, descr.starts_with('>'), SHAPE, |at| at);
        for (chunk, block) in [
            ([3, 5, 4], [3, 5, 4]),
            ([2, 3, 3], [1, 2, 2]),
            ([2, 4, 4], [1, 3, 4]),
            ([1, 5, 4], [1, 5, 2]),
            ([7, 8, 9], [4, 8, 1]),
        ] {
            for coded in [Coded::Chunk, Coded::Streams, Coded::Zlib, Coded::Zstd] {
                for [shuffle, split] in [[false, false], [true, false], [true, true]] {
                    let item = dtype.bytes() as usize;
                    let (chunk, block) = (&chunk, &block);
                    let spec = Blosc2Spec { descr, item, chunk, block, coded, shuffle, split, ..Default::default() };
                    let path = folder.write("x", Blosc2Spec { shape: &SHAPE, ..spec }.file(&elements));
                    assert_cube(&path, CubeKind::Blosc2, dtype, SHAPE, &options);
                }
            }
        }
    }
}

#[test]
fn coded_streams() {
    let folder = Folder::new();
    let elements = smooth();
    for coded in [Coded::Streams, Coded::Zlib, Coded::Zstd] {
        for [shuffle, split] in [[false, false], [true, false], [true, true]] {
            let file = Blosc2Spec { coded, shuffle, split, ..smooth_spec() }.file(&elements);
            assert_eq!(file.len() < elements.len() / 2, coded != Coded::Streams, "{} bytes", file.len());
            let loaded = load(&folder.write("x", file), &CubeOptions::default()).unwrap();
            assert!(loaded.array.bytes() == elements);
        }
    }
}

#[test]
fn two_axes_are_one_band_and_leading_ones_are_left_out() {
    let folder = Folder::new();
    let options = CubeOptions::default();
    let elements = cube(Dtype::U8, [5, 4, 1]);
    let flat =
        Blosc2Spec { descr: "|u1", item: 1, shape: &[5, 4], chunk: &[3, 4], block: &[2, 3], ..Default::default() };
    let path = folder.write("x", flat.file(&elements));
    assert_cube(&path, CubeKind::Blosc2, Dtype::U8, [5, 4, 1], &options);
    assert_eq!(load_mask(&path, &options).unwrap().array.bytes(), elements);

    let [chunk, block] = [&[1, 1, 3, 4], &[1, 1, 2, 3]];
    let path = folder.write("x", Blosc2Spec { shape: &[1, 1, 5, 4], chunk, block, ..flat.clone() }.file(&elements));
    assert_eq!(load(&path, &options).unwrap().array.shape(), [1, 5, 4]);
    assert_eq!(load_mask(&path, &options).unwrap().array.shape(), [5, 4]);

    let elements = cube(Dtype::U8, SHAPE);
    let [chunk, block] = [&[1, 2, 3, 4], &[1, 1, 2, 3]];
    let path = folder.write("x", Blosc2Spec { shape: &[1, 3, 5, 4], chunk, block, ..flat.clone() }.file(&elements));
    assert_cube(&path, CubeKind::Blosc2, Dtype::U8, SHAPE, &options);
    let path = folder.write("x", Blosc2Spec { shape: &[3, 1, 5, 4], chunk, block, ..flat }.file(&elements));
    assert_eq!(
        message(load(&path, &options)),
        "`x`: the array has 4 axes ([3, 1, 5, 4]), but must have [height, width] or [height, width, channels]\n\
         hint: save each cube of the stack as a separate file"
    );
}

#[test]
fn special_chunks() {
    let folder = Folder::new();
    let special = [(0, ZEROS), (1, NANS), (3, NEVER_SET)];
    let spec =
        Blosc2Spec { shape: &[4, 3, 4], chunk: &[1, 3, 4], block: &[1, 1, 4], special: &special, ..Default::default() };
    let elements = cube(Dtype::F32, [4, 3, 4]);
    let loaded = load(&folder.write("x", spec.file(&elements)), &CubeOptions::default()).unwrap();
    let row = 48;
    let nans = f32::NAN.to_le_bytes().repeat(12);
    let expected = [vec![0; row], nans, elements[2 * row..3 * row].to_vec(), vec![0; row]].concat();
    assert_eq!(loaded.array.bytes(), expected);
    let special = [(0, 0x85 << 56)];
    let file = Blosc2Spec { special: &special, ..spec.clone() }.file(&elements);
    assert!(message(load(&folder.write("x", file), &CubeOptions::default())).contains("blosc2 special chunk"));
    let file = Blosc2Spec { descr: "<f2", item: 2, special: &[(0, NANS)], ..spec }.file(&elements);
    assert!(message(load(&folder.write("x", file), &CubeOptions::default())).contains("items of 4 or 8 bytes"));
}

#[test]
fn refusals_name_the_reason() {
    let folder = Folder::new();
    let elements = cube(Dtype::F32, SHAPE);
    // Use zeros, so that the chunk is compressed. A chunk that is stored uncompressed has no coder.
    let good = Blosc2Spec::default().file(&[0; 240]);
    let refused = |file: &[u8]| message(load(&folder.write("x", file), &CubeOptions::default()));
    let with = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        refused(&file)
    };
    assert_eq!(
        with(26, 1),
        "`x`: sparse Blosc2 frames (a folder with a file for each chunk) are not supported\n\
         hint: write the array with `contiguous=True`"
    );
    assert_eq!(
        with(94, b'x'),
        "`x`: the Blosc2 frame is damaged: expected the offset of a metalayer to begin with the byte 0xd2, found 0x00"
    );
    let mut other = good.clone();
    let at = other.windows(5).position(|name| name == b"\xa4b2nd").unwrap();
    other[at + 1] = b'x';
    assert_eq!(
        refused(&other),
        "`x`: the Blosc2 frame has no metalayer `b2nd`, so the shape of the array is unknown\n\
         hint: write the array with `blosc2.asarray(array, urlpath=\"FILE.b2nd\")`"
    );
    let complex =
        Blosc2Spec { descr: "<c8", item: 8, ..Default::default() }.file(&[elements.clone(), elements.clone()].concat());
    assert!(refused(&complex).contains("complex numbers (\"<c8\") are not supported in Blosc2 files"));
    // The first chunk starts right after the header. The cases below change its flags and filters.
    let chunk = usize::from(good[14]);
    assert_eq!(good[chunk..chunk + 2], [5, 1]);
    let hint = "hint: write the array again with `codec=blosc2.Codec.ZSTD` and the default filters";
    let mut plugin = good.clone();
    plugin[chunk + 2] = 0xC5;
    plugin[chunk + 22] = 34;
    assert_eq!(
        refused(&plugin),
        format!("`x`: Blosc2 chunk 0: blosc2 codec ZFP (format 6, number 34) is not supported\n{hint}")
    );
    for (at, byte, reason) in [
        (2, 0x61, "a chunk with the short header of Blosc1 is not supported"),
        (16, 33, "blosc2 filter 33 (NDMEAN) is not supported"),
        (30, 1, "a chunk with blocks of different lengths is not supported"),
        (31, 1, "a chunk with a dictionary (`use_dict`), big-endian data or instrumentation is not supported"),
    ] {
        let found = with(chunk + at, byte);
        assert_eq!(found, format!("`x`: Blosc2 chunk 0: {reason}\n{hint}"));
    }
}

#[test]
fn sizes_are_compared_before_memory_is_allocated() {
    let folder = Folder::new();
    let refused = |spec: Blosc2Spec| {
        let unit = spec
            .chunk
            .iter()
            .zip(spec.block)
            .fold(spec.item, |unit, (chunk, block)| unit.saturating_mul(chunk.next_multiple_of((*block).max(1))));
        let counts = spec.shape.iter().zip(spec.chunk).map(|(length, chunk)| length.div_ceil(*chunk));
        let chunks = counts.fold(1, usize::saturating_mul);
        let offsets = vec![ZEROS; chunks.min(4)];
        message(load(&folder.write("x", spec.frame(&[], &offsets, unit)), &CubeOptions::default()))
    };
    let huge = 1 << 31;
    let spec = Blosc2Spec::default;
    let found = refused(Blosc2Spec { shape: &[huge, huge, huge], chunk: &[1, 1, 1], block: &[1, 1, 1], ..spec() });
    assert!(found.contains("has 2^64 bytes or more"), "{found}");
    let found = refused(Blosc2Spec { shape: &[huge, 4, 4], chunk: &[1, 4, 4], block: &[1, 4, 4], ..spec() });
    assert!(found.contains(", but the limit is "), "{found}");
    let found = refused(Blosc2Spec { shape: &[2, 2, 2], chunk: &[1 << 10, 1 << 10, 4], block: &[1, 1, 1], ..spec() });
    assert!(found.contains(" blocks, but at most 1048576 are allowed for a cube of 32 bytes"), "{found}");
    let found = refused(Blosc2Spec { shape: &[2, 2, 2], chunk: &[1 << 10, 1 << 10, 8], block: &[9, 9, 8], ..spec() });
    assert!(found.contains("each Blosc2 chunk has "), "{found}");
    assert!(found.contains(" bytes, but at most 16777216 are allowed for a cube of 32 bytes"), "{found}");
    let found = refused(Blosc2Spec { chunk: &[2, 4, 4], block: &[2, 4, 5], ..spec() });
    assert!(found.contains("the Blosc2 shapes contradict each other or are too large: "), "{found}");
    let found = refused(Blosc2Spec { chunk: &[2, 4, 4], block: &[2, 4, 0], ..spec() });
    assert!(found.contains("the Blosc2 shapes contradict each other or are too large: "), "{found}");
}
