//! Small writers for each format that share no code with the readers.

use std::io::Write;

pub(super) fn npy(version: u8, descr: &str, fortran: bool, shape: &str, elements: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    npy_header(version, &format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"), elements)
}

pub(super) fn npy_header(version: u8, header: &str, elements: &[u8]) -> Vec<u8> {
    let mut out = vec![0x93];
    out.extend(b"NUMPY");
    out.extend([version, 0]);
    let padded = format!("{header:<117}\n");
    match version {
        1 => out.extend((padded.len() as u16).to_le_bytes()),
        _ => out.extend((padded.len() as u32).to_le_bytes()),
    }
    out.extend(padded.bytes());
    out.extend(elements);
    out
}

pub(super) fn npz(deflate: bool, members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let method = if deflate { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub(super) fn tivita(w: i32, h: i32, c: i32, elements: &[u8]) -> Vec<u8> {
    [w, h, c].iter().flat_map(|axis| axis.to_be_bytes()).chain(elements.iter().copied()).collect()
}

pub(super) struct MatArray<'a> {
    pub(super) name: &'a str,
    /// mxCLASS of the array. The flags are in the second byte.
    pub(super) class: u32,
    pub(super) dims: &'a [u32],
    /// Type number of the stored elements, and their bytes in the byte order of the file.
    pub(super) stored: (u32, Vec<u8>),
}

pub(super) fn mat(big_endian: bool, compressed: bool, arrays: &[MatArray]) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let tag = |kind: u32, bytes: usize| [word(kind), word(bytes as u32)].concat();
    let padded = |kind: u32, content: &[u8]| {
        let mut out = if (1..=4).contains(&content.len()) {
            let mut out = word(kind | (content.len() as u32) << 16).to_vec();
            out.extend(content);
            out
        } else {
            [tag(kind, content.len()), content.to_vec()].concat()
        };
        out.resize(out.len().next_multiple_of(8), 0);
        out
    };
    let mut out = b"MATLAB 5.0 MAT-file, made by a test".to_vec();
    out.resize(124, b' ');
    out.extend(if big_endian { *b"\x01\x00MI" } else { *b"\x00\x01IM" });
    for array in arrays {
        let dims: Vec<u8> = array.dims.iter().flat_map(|&axis| word(axis)).collect();
        let content = [
            padded(6, &[word(array.class), word(0)].concat()),
            padded(5, &dims),
            padded(1, array.name.as_bytes()),
            padded(array.stored.0, &array.stored.1),
        ]
        .concat();
        let matrix = [tag(14, content.len()), content].concat();
        if compressed {
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            zlib.write_all(&matrix).unwrap();
            let packed = zlib.finish().unwrap();
            out.extend(tag(15, packed.len()));
            out.extend(packed);
        } else {
            out.extend(matrix);
        }
    }
    out
}

pub(super) fn png(color: png::ColorType, depth: png::BitDepth, width: u32, height: u32, rows: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        encoder.set_palette(vec![9; 3 * 16]);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(rows).unwrap();
    writer.finish().unwrap();
    out
}

/// Returns a version 4 matrix with this name and these elements. `mopt` is MOPT without the byte order.
pub(super) fn v4(big_endian: bool, name: &str, mopt: u32, [rows, columns]: [u32; 2], elements: &[u8]) -> Vec<u8> {
    let mopt = mopt + if big_endian { 1000 } else { 0 };
    let words = [mopt, rows, columns, 0, name.len() as u32 + 1];
    let word = |word: u32| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
    [words.map(word).concat(), name.as_bytes().to_vec(), vec![0], elements.to_vec()].concat()
}
