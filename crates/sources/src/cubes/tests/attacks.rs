//! Tests small files that claim to have large contents. Each must fail with a clear message, within
//! memory and time limits.

use super::blosc2_writer::Blosc2Spec;
use super::source::PIECE_BYTES;
use super::tiff_writer::TiffSpec;
use super::writers::{MatArray, mat, npy, npy_header, npz, png, tivita};
use super::*;
use crate::bounded;
use crate::testing::put;
use crate::{SourceError, SourceKind, SourceOptions, enumerate};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A directory entry: tag, type, count, and value or offset.
type Tag = (u16, u16, u32, u32);

/// Returns a little-endian TIFF with a header, `data`, and a sequence of pages with identical tags.
fn tiff(data: &[u8], pages: usize, tags: &[Tag]) -> Vec<u8> {
    let mut out = b"II\x2a\0\0\0\0\0".to_vec();
    out.extend(data);
    let mut link = 4;
    for _ in 0..pages {
        let here = out.len() as u32;
        out[link..link + 4].copy_from_slice(&here.to_le_bytes());
        out.extend((tags.len() as u16).to_le_bytes());
        for (tag, kind, count, value) in tags {
            out.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
            out.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
        }
        link = out.len();
        out.extend([0; 4]);
    }
    out
}

fn page(width: u32, height: u32, compression: u32) -> Vec<Tag> {
    vec![(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, compression), (339, 3, 1, 1)]
}

fn tiled(side: u32, offset: u32, bytes: u32) -> [Tag; 4] {
    [(322, 4, 1, side), (323, 4, 1, side), (324, 4, 1, offset), (325, 4, 1, bytes)]
}

/// Returns the error of [`load`], and checks that [`peek`] fails too.
#[track_caller]
fn refused(name: &str, bytes: &[u8]) -> String {
    let folder = Folder::new();
    let path = folder.write(name, bytes);
    assert!(peek(&path, &CubeOptions::default()).is_err(), "peek");
    message(load(&path, &CubeOptions::default()))
}

#[cfg(feature = "hdf5")]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![("bad-tile", large_tile())]
}

fn large_tile() -> Vec<u8> {
    let more = [(262, 3, 1, 1), (277, 3, 1, 1), (284, 3, 1, 1)];
    tiff(&[], 1, &[&page(16384, 16384, 8)[..], &tiled(65536, 8, 100), &more].concat())
}

#[test]
fn a_tile_sixteen_times_its_picture() {
    bounded::run(concat!(module_path!(), "::a_tile_sixteen_times_its_picture"), || {
        let file = large_tile();
        assert_eq!(file.len(), 158);
        assert_eq!(
            refused("a.tif", &file),
            "`a.tif`: TIFF strip or tile 0 at offset 8 has 100 bytes of Deflate data, too few for 4294967296 \
             bytes of pixels"
        );
    });
}

#[test]
fn pages_that_share_their_tables() {
    bounded::run(concat!(module_path!(), "::pages_that_share_their_tables"), || {
        let strips = 150_000;
        let table = 8u32.to_le_bytes().repeat(strips);
        let tables = [(273, 4, strips as u32, 8), (278, 4, 1, 1), (279, 4, strips as u32, 8)];
        let file = tiff(&table, 2000, &[&page(1, strips as u32, 1)[..], &tables].concat());
        let found = refused("a.tif", &file);
        assert!(found.contains("the TIFF directories and tables overlap: they have more than "), "{found}");
    });
}

#[test]
fn pages_inside_each_other() {
    bounded::run(concat!(module_path!(), "::pages_inside_each_other"), || {
        // Each directory starts four bytes after the previous one and claims 65,535 entries. The
        // link to the next directory follows these entries.
        let mut file = b"II\x2a\0\x08\0\0\0".to_vec();
        file.resize(8 + 2 + 65_535 * 12, 0xff);
        for next in 1..3000u32 {
            file.extend((8 + 4 * next).to_le_bytes());
        }
        let found = refused("a.tif", &file);
        assert!(found.contains("the TIFF directories and tables overlap: they have more than "), "{found}");
    });
}

#[test]
fn pages_that_share_a_table_of_bytes() {
    bounded::run(concat!(module_path!(), "::pages_that_share_a_table_of_bytes"), || {
        let strips = 16u32 << 20;
        let tags = [&page(1, strips, 1)[..], &[(273, 1, strips, 8), (278, 4, 1, 1)]].concat();
        let file = tiff(&vec![8; strips as usize], 8, &tags);
        let found = refused("a.tif", &file);
        assert!(found.contains("the TIFF directories and tables overlap: they have more than "), "{found}");
        // For a large file, the absolute limit of 256 MiB applies, because it is below eight times
        // the file size.
        let found = refused("a.tif", &[file, vec![0; 64 << 20]].concat());
        assert!(
            found.contains("the TIFF directories and tables overlap: they have more than 268435456 bytes"),
            "{found}"
        );
    });
}

#[test]
fn a_cube_above_the_limit_is_refused_before_its_tables() {
    let folder = Folder::new();
    let options = CubeOptions { max_bytes: 2999, ..CubeOptions::default() };
    // The table lies outside the file, so reading it would cause a different error.
    let tags = [&page(10, 100, 1)[..], &[(273, 4, 100, 1 << 30), (278, 4, 1, 1)]].concat();
    let path = folder.write("a.tif", tiff(&[], 3, &tags));
    for error in [peek(&path, &options).map(drop).unwrap_err(), load(&path, &options).map(drop).unwrap_err()] {
        assert!(matches!(error.problem(), CubeProblem::Limit { .. }), "{error}");
    }
    assert!(message(load(&path, &CubeOptions::default())).contains("value of TIFF tag "));
}

#[test]
fn tiles_that_are_inflated_again_and_again() {
    bounded::run(concat!(module_path!(), "::tiles_that_are_inflated_again_and_again"), || {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut zlib, &vec![0; 16 << 20]).unwrap();
        let packed = zlib.finish().unwrap();
        let tags = [&page(1, 1, 8)[..], &tiled(4096, 8, packed.len() as u32)].concat();
        let found = refused("a.tif", &tiff(&packed, 4500, &tags));
        assert!(
            found.contains("the decoded TIFF strips or tiles take ") && found.contains("at most 268435456 are allowed"),
            "{found}"
        );
        // A realistic file must be accepted: 200 pages of one pixel, in tiles of 1 MiB.
        let tags = [&page(1, 1, 8)[..], &tiled(1024, 8, packed.len() as u32)].concat();
        let folder = Folder::new();
        let whole = load(&folder.write("b.tif", tiff(&packed, 200, &tags)), &CubeOptions::default()).unwrap();
        assert_eq!(whole.array.shape(), [1, 1, 200]);
    });
}

#[test]
fn strips_that_are_all_the_file() {
    bounded::run(concat!(module_path!(), "::strips_that_are_all_the_file"), || {
        let strips = 150_000u32;
        let offsets = 8u32.to_le_bytes().repeat(strips as usize);
        let sizes = (offsets.len() as u32).to_le_bytes().repeat(strips as usize);
        let tables = [(273, 4, strips, 8), (278, 4, 1, 1), (279, 4, strips, 8 + offsets.len() as u32)];
        let file = tiff(&[offsets, sizes].concat(), 1, &[&page(1, strips, 32773)[..], &tables].concat());
        let found = refused("a.tif", &file);
        assert!(found.contains("the compressed TIFF strips or tiles take "), "{found}");
    });
}

#[test]
fn an_envi_header_of_four_million_lines() {
    bounded::run(concat!(module_path!(), "::an_envi_header_of_four_million_lines"), || {
        // The header has up to 4,000 keys, then repeats the last key for 16 MiB. A linear search would pass all
        // other keys each time.
        let header = |keys: usize| {
            let mut header = String::from("ENVI\nsamples = 1\nlines = 1\nbands = 1\ndata type = 1\ninterleave = bip\n");
            for key in 0..keys {
                let _ = writeln!(header, "a rather long key {key:04} = 1");
            }
            let last = format!("a rather long key {:04}=1\n", keys - 1);
            while header.len() < keys * (16 << 20) / 4000 - 40 {
                header.push_str(&last);
            }
            header
        };
        let folder = Folder::new();
        folder.write("x.img", [7]);
        let write = |keys| folder.write("x.hdr", header(keys));
        bounded::grows_with(1000, write, |_, path| {
            let cube = load(path, &CubeOptions::default()).unwrap();
            assert_eq!(cube.array.bytes(), [7]);
        });
        let header = header(4000);
        let list = format!("{header}wavelength = {{{}}}\n", "1,".repeat(1 << 20));
        assert!(
            message(load(&folder.write("x.hdr", &list[..list.len().min(16 << 20)]), &CubeOptions::default()))
                .contains("ENVI header")
        );
        let small = "ENVI\nsamples = 1\nlines = 1\nbands = 1\ndata type = 1\ninterleave = bip\n";
        let list = format!("{small}names = {{{}}}\n", "1,".repeat((1 << 20) + 1));
        let found = message(load(&folder.write("x.hdr", list), &CubeOptions::default()));
        assert_eq!(
            found,
            "`x.hdr`: the lists in the ENVI header have 1048577 items in total, but at most 1048576 are allowed"
        );
    });
}

#[test]
fn many_cubes_of_an_unusual_extension() {
    bounded::run(concat!(module_path!(), "::many_cubes_of_an_unusual_extension"), || {
        let header = "ENVI\nsamples = 2\nlines = 1\nbands = 1\ndata type = 1\ninterleave = bip\n";
        let folder = |cubes| {
            let folder = Folder::new();
            for number in 0..cubes {
                put(folder.path(), &format!("scene-{number:05}.hdr"), header);
                put(folder.path(), &format!("scene-{number:05}.radiance"), [1, 2]);
            }
            folder
        };
        bounded::grows_with(600, folder, |cubes, folder| {
            let listing = enumerate(folder.path(), &SourceOptions::default()).unwrap();
            assert_eq!((listing.kind, listing.samples.len()), (SourceKind::Cubes, cubes));
            assert!(listing.samples.iter().all(|sample| sample.data.is_some()));
        });
    });
}

/// Returns a cube of 1 MiB in every format and compression, with its name and the bytes of its side file.
fn large_files() -> Vec<super::hostile::Sample> {
    let shape = [64, 128, 64];
    let elements = cube(Dtype::U16, shape);
    let array = || npy(2, "'<u2'", true, "(64, 128, 64)", &elements);
    let variable = || [MatArray { name: "cube", class: 11, dims: &[64, 128, 64], stored: (4, elements.clone()) }];
    // MATLAB stores doubles as small integers if possible.
    let doubles = [MatArray { name: "cube", class: 6, dims: &[64, 128, 64], stored: (4, elements.clone()) }];
    let header = |interleave| {
        format!("ENVI\nsamples = 128\nlines = 64\nbands = 64\ndata type = 12\ninterleave = {interleave}\n").into()
    };
    let [chunk, block] = [&[16, 100, 64], &[4, 32, 64]];
    let blosc2 = Blosc2Spec { descr: "<u2", item: 2, shape: &shape, chunk, block, ..Blosc2Spec::default() };
    let tiff = TiffSpec::new(Dtype::U16, shape);
    let one_strip = |compression| TiffSpec { compression, ..tiff.clone() }.file();
    #[cfg_attr(not(feature = "hdf5"), allow(unused_mut))]
    let mut files: Vec<super::hostile::Sample> = vec![
        ("npy", array(), None),
        ("npz stored", npz(false, &[("c.npy", array())]), None),
        ("npz deflated", npz(true, &[("c.npy", array())]), None),
        ("blosc2", blosc2.file(&elements), None),
        ("envi bip", header("bip"), Some(elements.clone())),
        ("envi bsq", header("bsq"), Some(elements.clone())),
        ("mat", mat(false, false, &variable()), None),
        ("mat compressed", mat(false, true, &variable()), None),
        ("mat converted", mat(false, true, &doubles), None),
        ("tiff", one_strip(1), None),
        ("tiff lzw", one_strip(5), None),
        ("tiff deflate", one_strip(8), None),
        ("tiff packbits", one_strip(32773), None),
        ("tiff zstd", one_strip(50000), None),
        ("tiff tiles", TiffSpec { tile: Some((32, 32)), compression: 8, ..tiff }.file(), None),
        ("tivita", tivita(128, 64, 32, &elements), None),
    ];
    #[cfg(feature = "hdf5")]
    for (name, chunks) in [("hdf5", None), ("hdf5 chunks", Some([16, 32, 32]))] {
        let values: Vec<u16> = elements.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes)).collect();
        let mut builder = hdf5_pure::FileBuilder::new();
        let dataset = builder.create_dataset("cube").with_u16_data(&values).with_shape(&[64, 128, 64]);
        if let Some(chunks) = chunks {
            dataset.with_chunks(&chunks).with_deflate(4);
        }
        files.push((name, builder.finish().unwrap(), None));
    }
    files
}

/// Checks that `read` stops when the flag is set, after checking it at least `least` times.
#[track_caller]
fn stops(name: &str, least: u64, read: &dyn Fn(&CubeOptions) -> Result<usize>) {
    let with = |run: &CubeRun| CubeOptions { run: run.clone(), ..CubeOptions::default() };
    let run = CubeRun::default();
    assert!(read(&with(&run)).unwrap() >= 1 << 20, "{name}");
    let made = run.polls();
    assert!(made >= least, "{name}: {made} looks at the flag, not {least}");
    for at in [1, 2, made / 2, made - 1, made].into_iter().filter(|at| (1..=made).contains(at)) {
        let stopped = read(&with(&CubeRun::raised_at(at))).map(drop);
        assert!(
            stopped.as_ref().is_err_and(|error| matches!(error.problem(), CubeProblem::Cancelled)),
            "{name}, look {at} of {made}: {stopped:?}"
        );
    }
}

#[test]
fn a_flag_raised_at_any_time_stops_every_reader() {
    let folder = Folder::new();
    let pieces = (1 << 20) / PIECE_BYTES as u64;
    for (name, bytes, beside) in large_files() {
        if let Some(beside) = &beside {
            folder.write("x", beside);
        }
        let path = folder.write("x.hdr", &bytes);
        stops(&format!("peek {name}"), 1, &|options| peek(&path, options).map(|info| info.array_bytes as usize));
        stops(&format!("load {name}"), pieces, &|options| load(&path, options).map(|cube| cube.array.bytes().len()));
        stops(&format!("open {name}"), pieces, &|options| {
            let OpenCube { values, .. } = open(&path, options, Vec::new())?;
            let mut bytes = vec![0; values.dtype().array_bytes(values.shape()).unwrap() as usize];
            // An encoder that reads the values later sees only the text of this error.
            values.read_at(0, &mut bytes).map(|()| bytes.len()).map_err(|error| {
                assert!(error.to_string().contains("interrupted while reading the file"), "{name}: {error}");
                CubeError::cancelled(&path)
            })
        });
    }
    let pixels = ordered(Dtype::U8, false, [1024, 1024, 1], |at| at);
    let mask = png(::png::ColorType::Grayscale, ::png::BitDepth::Eight, 1024, 1024, &pixels);
    // A PNG is read in pieces of 8 KiB, each of which inflates to at most 8 MiB.
    let png_pieces = mask.len() as u64 / (8 << 10);
    let array = npy(1, "'|u1'", false, "(1024, 1024)", &pixels);
    for (name, bytes, least) in [("png", mask, png_pieces), ("npy", array, pieces)] {
        let path = folder.write("x.hdr", bytes);
        stops(&format!("mask {name}"), least, &|options| {
            load_mask(&path, options).map(|mask| mask.array.bytes().len())
        });
    }
}

#[test]
fn a_flag_raised_during_enumeration_is_no_bad_input() {
    let folder = Folder::new();
    folder.write("a.npy", crate::testing::npy());
    let cancel = Some(Arc::new(AtomicBool::new(true)));
    let options = SourceOptions { cancel, ..SourceOptions::default() };
    assert!(matches!(enumerate(folder.path(), &options), Err(SourceError::Cancelled)));
}

#[test]
fn pipes_and_devices_are_refused() {
    bounded::run(concat!(module_path!(), "::pipes_and_devices_are_refused"), || {
        let folder = Folder::new();
        let pipe = folder.path().join("x.img");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let header = "ENVI\nsamples = 2\nlines = 1\nbands = 1\ndata type = 1\ninterleave = bip\n";
        let path = folder.write("x.hdr", header);
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            for error in [
                probe(path).map(drop).unwrap_err(),
                peek(path, &CubeOptions::default()).map(drop).unwrap_err(),
                load(path, &CubeOptions::default()).map(drop).unwrap_err(),
                load_mask(path, &CubeOptions::default()).map(drop).unwrap_err(),
            ] {
                assert!(
                    error.to_string().ends_with("`: expected a regular file, found a pipe, socket or device"),
                    "{error}"
                );
            }
        }
        let error = message(load(&path, &CubeOptions::default()));
        assert!(error.contains("found no data file for this ENVI header"), "{error}");
        let error = enumerate(folder.path(), &SourceOptions::default()).unwrap_err().to_string();
        assert!(error.contains("`x.img`: expected a regular file, found a pipe, socket or device"), "{error}");
        let labels = SourceOptions { labels: Some(pipe), ..SourceOptions::default() };
        std::fs::remove_file(path).unwrap();
        folder.write("a.npy", crate::testing::npy());
        let error = enumerate(folder.path(), &labels).unwrap_err().to_string();
        assert!(error.ends_with("x.img`: expected a regular file, found a pipe, socket or device"), "{error}");
    });
}

#[test]
fn a_mask_of_a_gibibyte_in_a_hundred_bytes() {
    bounded::run(concat!(module_path!(), "::a_mask_of_a_gibibyte_in_a_hundred_bytes"), || {
        let small = super::writers::png(::png::ColorType::Grayscale, ::png::BitDepth::Eight, 1, 1, &[0]);
        let mut file = small.clone();
        file[16..24].copy_from_slice(&[0, 0, 0x7f, 0, 0, 0, 0x7f, 0]);
        let crc = crc32fast::hash(&file[12..29]);
        file[29..33].copy_from_slice(&crc.to_be_bytes());
        let folder = Folder::new();
        let found = message(load_mask(&folder.write("a.png", file), &CubeOptions::default()));
        assert!(found.contains("bytes cannot contain "), "{found}");
        assert!(load_mask(&folder.write("b.png", small), &CubeOptions::default()).is_ok());
    });
}

#[test]
fn headers_of_any_number_of_axes() {
    bounded::run(concat!(module_path!(), "::headers_of_any_number_of_axes"), || {
        let shape = |axes: usize| format!("({})", "1,".repeat(axes));
        let most = npy(1, "'|u1'", false, &shape(32), &[0]);
        let found = refused("a.npy", &most);
        assert!(found.contains("has 32 axes ([1, 1, 1, 1, 1, 1, 1, 1] and 24 more axes), but must have"), "{found}");
        let found = refused("a.npy", &npy(1, "'|u1'", false, &shape(32_000), &[0]));
        assert!(found.contains("npy header: expected a tuple of at most 32 integers, found"), "{found}");
    });
}

#[test]
fn headers_that_many_entries_share() {
    bounded::within(concat!(module_path!(), "::headers_that_many_entries_share"), 1 << 20, 20, || {
        let header = npy_header(2, &format!("{{'descr': '|u1', {}", " ".repeat(60 << 10)), &[]);
        let names: Vec<_> = (0..5000).map(|number| format!("{number}.npy")).collect();
        let members: Vec<_> = names.iter().map(|name| (name.as_str(), header.clone())).collect();
        let found = refused("a.npz", &npz(true, &members));
        assert!(
            found.contains("the npy headers in the zip archive are too large: more than 16777216 bytes in total"),
            "{found}"
        );
    });
}

#[test]
fn vectors_of_an_archive_after_the_first_of_a_name_are_not_read() {
    let folder = Folder::new();
    let vector = |first: u8| npy(1, "'|u1'", false, "(3,)", &[first, 5, 6]);
    let mut file = npz(
        false,
        &[("c.npy", npy(1, "'|u1'", false, "(2, 2, 3)", &[7; 12])), ("wl.npy", vector(4)), ("WL.npy", vector(77))],
    );
    // The CRC-32 of the second vector is now wrong, so reading it would fail.
    let at = file.iter().rposition(|&byte| byte == 77).unwrap();
    file[at] = 78;
    let loaded = load(&folder.write("a.npz", file), &CubeOptions::default()).unwrap();
    assert_eq!(loaded.meta["wavelengths"], serde_json::json!([4.0, 5.0, 6.0]));
}

#[test]
fn errors_name_some_of_many_arrays() {
    let names: Vec<_> = (0..3000).map(|number| format!("{number}{}.npy", "x".repeat(1000))).collect();
    let members: Vec<_> = names.iter().map(|name| (name.as_str(), npy(1, "'|u1'", false, "(2, 2)", &[0; 4]))).collect();
    let found = refused("a.npz", &npz(false, &members));
    assert!(found.contains("and 2980 more\nhint: choose an array with `--variable NAME`"), "{found}");
    assert!(found.len() < 4000, "{}", found.len());
}
