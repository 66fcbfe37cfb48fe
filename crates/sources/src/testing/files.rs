//! Creates small files for tests.

#[path = "../../../jpeg/src/testing.rs"]
mod jpeg;
pub(crate) use jpeg::{Jpeg, exif, shared_data};

/// Returns a PNG with only the parts needed to recognise it: signature, IHDR, an empty IDAT, and IEND.
pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let mut head = b"IHDR".to_vec();
    head.extend(width.to_be_bytes());
    head.extend(height.to_be_bytes());
    head.extend([8, 2, 0, 0, 0]);
    let rows = vec![0; height as usize * (width as usize * 3 + 1)];
    let mut pixels = flate2::write::ZlibEncoder::new(b"IDAT".to_vec(), flate2::Compression::fast());
    std::io::Write::write_all(&mut pixels, &rows).unwrap();
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    for chunk in [head, pixels.finish().unwrap(), b"IEND".to_vec()] {
        out.extend(u32::try_from(chunk.len() - 4).unwrap().to_be_bytes());
        out.extend(&chunk);
        out.extend(crc32fast::hash(&chunk).to_be_bytes());
    }
    out
}

pub(crate) fn bmp(width: i32, height: i32) -> Vec<u8> {
    let row = (width.unsigned_abs() * 3).next_multiple_of(4);
    let pixels = row * height.unsigned_abs();
    let mut out = b"BM".to_vec();
    out.extend((54 + pixels).to_le_bytes());
    out.extend([0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0]);
    out.extend(width.to_le_bytes());
    out.extend(height.to_le_bytes());
    out.extend([1, 0, 24, 0]);
    out.resize(54 + pixels as usize, 0);
    out
}

pub(crate) fn webp(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut out = b"RIFF".to_vec();
    out.extend(u32::try_from(12 + body.len()).unwrap().to_le_bytes());
    out.extend(b"WEBP");
    out.extend(kind);
    out.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    out.extend(body);
    out
}

/// Returns a little-endian TIFF of 4 × 3 pixels, with one strip per page. Format 1 is unsigned, format 3 is float.
pub(crate) fn tiff(samples: u16, bits: u16, format: u16, pages: u32) -> Vec<u8> {
    let strip = 12 * u32::from(samples) * u32::from(bits) / 8;
    let mut out = b"II\x2a\0\x08\0\0\0".to_vec();
    for page in 0..pages {
        let entries: [(u16, u16, u32, u32); 9] = [
            (256, 3, 1, 4),
            (257, 3, 1, 3),
            (258, 3, 1, u32::from(bits)),
            (259, 3, 1, 1),
            (262, 3, 1, if samples >= 3 { 2 } else { 1 }),
            (273, 4, 1, u32::try_from(out.len()).unwrap() + 2 + 9 * 12 + 4),
            (277, 3, 1, u32::from(samples)),
            (279, 4, 1, strip),
            (339, 3, 1, u32::from(format)),
        ];
        out.extend(9u16.to_le_bytes());
        for (tag, kind, count, value) in entries {
            out.extend(tag.to_le_bytes());
            out.extend(kind.to_le_bytes());
            out.extend(count.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        let next = if page + 1 == pages { 0 } else { u32::try_from(out.len()).unwrap() + 4 + strip };
        out.extend(next.to_le_bytes());
        out.resize(out.len() + strip as usize, 0);
    }
    out
}

pub(crate) fn npy() -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1), }".to_vec();
    out.resize(127, b' ');
    out.extend(b"\n\0\0\x80\x3f");
    out
}

/// Returns a uint8 NumPy array of zeros with this shape.
pub(crate) fn npy_of(shape: &[usize]) -> Vec<u8> {
    npy_with("|u1", shape, &vec![0; shape.iter().product()])
}

pub(crate) fn npy_with(descr: &str, shape: &[usize], elements: &[u8]) -> Vec<u8> {
    let axes: String = shape.iter().map(|axis| format!("{axis},")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    let mut out = b"\x93NUMPY\x01\0\x76\0".to_vec();
    out.extend(format!("{header:<117}\n").bytes());
    out.extend(elements);
    out
}

pub(crate) fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub(crate) fn put(root: &std::path::Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
