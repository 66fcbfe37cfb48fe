//! Tests that no input makes a reader panic, and that no truncated file is accepted as complete.

use super::blosc2_writer::{Blosc2Spec, Coded, ZEROS, smooth, smooth_spec};
use super::tiff_writer::TiffSpec;
use super::writers::{MatArray, mat, npy, npz, png, tivita, v4};
use super::*;
use crate::bounded;

/// Name of a file, its bytes, and the bytes of its side file.
pub(super) type Sample = (&'static str, Vec<u8>, Option<Vec<u8>>);

pub(super) fn files() -> Vec<Sample> {
    let shape = [3, 5, 4];
    let elements = cube(Dtype::F32, shape);
    let array = || npy(2, "'<f4'", true, "(3, 5, 4)", &elements);
    let wl = npy(1, "'<f8'", false, "(4,)", &[0; 32]);
    let mat_arrays = || {
        [
            MatArray { name: "wl", class: 6, dims: &[1, 4], stored: (2, vec![1, 2, 3, 4]) },
            MatArray { name: "cube", class: 7, dims: &[3, 5, 4], stored: (7, elements.clone()) },
        ]
    };
    let header =
        "ENVI\nsamples = 5\nlines = 3\nbands = 4\ndata type = 4\ninterleave = bil\nwavelength = {1, 2,\n3, 4}\n";
    let tiff = TiffSpec::new(Dtype::F32, shape);
    let blosc2 = Blosc2Spec::default();
    let xml = "<GDALMetadata><Item name=\"wavelength\" sample=\"3\">4</Item></GDALMetadata>".to_owned();
    vec![
        ("npy", array(), None),
        ("npz stored", npz(false, &[("c.npy", array()), ("wl.npy", wl.clone())]), None),
        ("npz deflated", npz(true, &[("c.npy", array()), ("wl.npy", wl)]), None),
        ("blosc2", smooth_spec().file(&smooth()), None),
        (
            "blosc2 zstd",
            Blosc2Spec { coded: Coded::Zstd, special: &[(1, ZEROS)], ..smooth_spec() }.file(&smooth()),
            None,
        ),
        ("blosc2 stored", Blosc2Spec { coded: Coded::Chunk, ..blosc2 }.file(&elements), None),
        ("envi header", header.into(), Some(elements.clone())),
        ("mat", mat(false, false, &mat_arrays()), None),
        ("mat compressed", mat(true, true, &mat_arrays()), None),
        ("mat 4", v4(true, "cube", 10, [3, 5], elements.get(..60).unwrap()), None),
        ("tiff", TiffSpec { texts: vec![(42112, xml), (42113, "-1".into())], ..tiff.clone() }.file(), None),
        ("tiff pages lzw", TiffSpec { pages: true, compression: 5, ..tiff.clone() }.file(), None),
        (
            "tiff tiles deflate",
            TiffSpec { tile: Some((16, 16)), compression: 8, predictor: 3, planar: true, ..tiff.clone() }.file(),
            None,
        ),
        ("tiff packbits", TiffSpec { compression: 32773, rows: 2, big_endian: true, ..tiff.clone() }.file(), None),
        ("tiff zstd", TiffSpec { compression: 50000, predictor: 2, big_tiff: true, ..tiff }.file(), None),
        ("tivita", tivita(5, 3, 4, &elements), None),
        ("png", png(::png::ColorType::Indexed, ::png::BitDepth::Two, 5, 3, &[0x1b; 6]), None),
    ]
}

fn read(path: &Path) -> bool {
    let options = CubeOptions { max_bytes: 1 << 20, ..Default::default() };
    let _ = probe(path);
    let _ = companion(path, &options);
    let peeked = peek(path, &options);
    let loaded = load(path, &options);
    if let (Ok(info), Ok(cube)) = (&peeked, &loaded) {
        assert_eq!(cube.array.shape(), info.shape);
    }
    assert!(loaded.is_err() || peeked.is_ok(), "load gave what peek refused");
    let spatial = CubeOptions { variable: vec!["cube".into()], spatial: Some((3, 5)), ..options.clone() };
    let _ = load(path, &spatial);
    let mask = load_mask(path, &options);
    loaded.is_ok() || mask.is_ok()
}

#[test]
fn truncated_files_are_errors() {
    bounded::run(concat!(module_path!(), "::truncated_files_are_errors"), || {
        let folder = Folder::new();
        for (name, bytes, beside) in files() {
            if let Some(beside) = &beside {
                folder.write("x", beside);
            }
            assert!(read(&folder.write("x.hdr", &bytes)), "{name}");
            for length in 0..bytes.len() {
                let whole = read(&folder.write("x.hdr", &bytes[..length]));
                // A text header may end at any byte, and the last bytes of a PNG contain no pixels, so both may
                // be accepted when truncated.
                assert!(
                    !whole || name == "envi header" || name == "png",
                    "{name} cut to {length} of {} bytes",
                    bytes.len()
                );
            }
            if let Some(beside) = &beside {
                let header = folder.write("x.hdr", &bytes);
                for length in 0..beside.len() {
                    folder.write("x", &beside[..length]);
                    assert!(!read(&header), "{name} with {length} bytes of data");
                }
            }
        }
    });
}

#[test]
fn flipped_bytes_do_not_panic() {
    bounded::run(concat!(module_path!(), "::flipped_bytes_do_not_panic"), || {
        let folder = Folder::new();
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize % below
        };
        for (_, bytes, beside) in files() {
            if let Some(beside) = &beside {
                folder.write("x", beside);
            }
            for round in 0..600 {
                let mut damaged = bytes.clone();
                for _ in 0..=random(4) {
                    // In every other round, damage one of the first 200 bytes, which contain the
                    // headers.
                    let at = if round % 2 == 0 { random(bytes.len()) } else { random(bytes.len().min(200)) };
                    damaged[at] = match random(4) {
                        0 => 0,
                        1 => 0xff,
                        2 => damaged[at] ^ 1 << random(8),
                        _ => random(256) as u8,
                    };
                }
                read(&folder.write("x.hdr", damaged));
            }
        }
    });
}

/// Writes the seeds of the fuzz targets:
/// `cargo test -p shardpack-sources --features hdf5 --lib write_seeds -- --ignored`.
#[cfg(feature = "hdf5")]
#[test]
#[ignore = "writes into the repository"]
fn write_seeds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let put = |target: &str, name: &str, bytes: &[u8]| {
        crate::testing::put(&root.join(target), &name.replace(' ', "-"), bytes);
    };
    for (name, bytes, _) in files() {
        let target = match name.split(' ').next().unwrap() {
            "npy" | "npz" => "npz",
            "blosc2" => "b2nd",
            "envi" => "envi",
            "mat" => "matlab",
            "tiff" => "tiff",
            _ => continue,
        };
        put(target, name, &bytes);
    }
    let header = "ENVI\nsamples = 2\nlines = 3\nbands = 4\ndata type = 12\ninterleave = bip\nbyte order = 1\n\
                  wavelength = {1,\n2, 3, 4}\nfwhm = {1, 1, 1, 1}\ndata ignore value = 9\ndescription = {a, b}\n";
    put("envi", "bip", header.as_bytes());
    super::attacks::seeds().iter().for_each(|(name, bytes)| put("tiff", name, bytes));
    super::hdf5_attacks::seeds().iter().for_each(|(name, bytes)| put("hdf5", name, bytes));
    put("labels", "csv", b"key,label,n,x,ok\na.npy,dog,1,0.5,true\nb.npy,cat,2,nan,false\nc.npy,dog,3,inf,true\n");
    let rows =
        ["a", "b", "c"].map(|key| format!("{{\"key\": \"{key}.npy\", \"n\": 1, \"x\": \"NaN\", \"t\": \"u\"}}\n"));
    put("labels", "jsonl", rows.concat().as_bytes());
    let wide: String = (0..2000).map(|column| format!(",c{column}")).collect();
    put("labels", "bad-columns", format!("key{wide}\n").as_bytes());
    put("matlab", "bad-empty", &mat(false, false, &[]));
    put("npz", "bad-empty", &npz(false, &[]));
}
