//! Small JPEGs for tests, generated on demand. The tests of the root package include this file too.

/// The parts of a JPEG. A test may change them before they are joined into a file.
#[derive(Debug, Clone)]
pub(crate) struct Jpeg {
    pub(crate) sof: u8,
    pub(crate) precision: u8,
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Identifier and sampling factors of each component: (id, h, v).
    pub(crate) components: Vec<(u8, u8, u8)>,
    /// Number of components in the first scan.
    pub(crate) scan: usize,
    /// Segments between SOI and the frame header: marker and content.
    pub(crate) segments: Vec<(u8, Vec<u8>)>,
    pub(crate) tail: Vec<u8>,
}

impl Default for Jpeg {
    fn default() -> Self {
        Self {
            sof: 0,
            precision: 8,
            width: 33,
            height: 17,
            components: vec![(1, 2, 2), (2, 1, 1), (3, 1, 1)],
            scan: 3,
            segments: vec![(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec())],
            tail: b"\x12\x34\xFF\x00\x56\xFF\xD9".to_vec(),
        }
    }
}

fn segment(out: &mut Vec<u8>, marker: u8, body: &[u8]) {
    out.extend([0xFF, marker]);
    out.extend(u16::try_from(body.len() + 2).unwrap().to_be_bytes());
    out.extend(body);
}

impl Jpeg {
    /// Returns everything up to the first entropy-coded byte.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut out = vec![0xFF, 0xD8];
        for (marker, body) in &self.segments {
            segment(&mut out, *marker, body);
        }
        let mut frame = vec![self.precision];
        frame.extend(self.height.to_be_bytes());
        frame.extend(self.width.to_be_bytes());
        frame.push(u8::try_from(self.components.len()).unwrap());
        frame.extend(self.components.iter().flat_map(|&(id, h, v)| [id, h << 4 | v, 0]));
        segment(&mut out, 0xC0 | self.sof, &frame);
        let mut scan = vec![u8::try_from(self.scan).unwrap()];
        scan.extend(self.components.iter().take(self.scan).flat_map(|&(id, ..)| [id, 0]));
        scan.extend([0, 63, 0]);
        segment(&mut out, 0xDA, &scan);
        out
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head(), self.tail.clone()].concat()
    }
}

pub(crate) fn exif(orientation: u16, little: bool) -> Vec<u8> {
    let mut out = b"Exif\0\0".to_vec();
    let u16_of = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let u32_of = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    out.extend(if little { b"II" } else { b"MM" });
    out.extend(u16_of(42));
    out.extend(u32_of(8));
    out.extend(u16_of(1));
    out.extend(u16_of(0x0112));
    out.extend(u16_of(3));
    out.extend(u32_of(1));
    out.extend(u16_of(orientation));
    out.extend([0; 6]);
    out
}

/// Returns the folder of shared test data, if it is next to this checkout or further up. Otherwise prints
/// that the test is skipped.
#[allow(clippy::print_stderr, reason = "a test that did not run must not look like one that did")]
pub(crate) fn shared_data() -> Option<std::path::PathBuf> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().skip(1).map(|folder| folder.join("shared/data")).find(|path| path.is_dir());
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        eprintln!("skipped: `{test}` needs the files of `shared/data` next to the repository");
    }
    found
}
