//! Detects a file's format from its first bytes.

use super::cube::CubeKind;
use super::error::{CubeError, Result};
use super::source::Source;
use super::{mat, npz, tivita};
use crate::tiff_words::is_tiff;

/// Enough for every signature except that of an HDF5 file behind a long user block.
const PREFIX: u64 = 520;

/// Signature of HDF5, at offset 0, 512, 1024, 2048, ….
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Signature of PNG.
pub(super) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

pub(super) fn sniff(source: &Source) -> Result<Option<CubeKind>> {
    let head = source.prefix(PREFIX)?;
    Ok(if head.starts_with(b"\x93NUMPY") {
        Some(CubeKind::Npy)
    } else if head.starts_with(b"PK\x03\x04") {
        npz::is_npz(source, &head)?.then_some(CubeKind::Npz)
    } else if is_envi(&head) {
        Some(CubeKind::EnviHeader)
    } else if is_tiff(&head) {
        Some(CubeKind::Tiff)
    } else if head.starts_with(PNG) {
        Some(CubeKind::Png)
    } else if is_hdf5(source, &head)? {
        Some(CubeKind::Hdf5)
    } else if is_mat5(&head) {
        Some(CubeKind::Mat5)
    } else if tivita::header(&head, source.len()).is_some() {
        Some(CubeKind::Tivita)
    } else {
        mat::is_v4(&head, source.len()).then_some(CubeKind::Mat4)
    })
}

/// The error for a file of an unknown kind.
pub(super) fn unknown(source: &Source) -> CubeError {
    let found = match source.prefix(8) {
        Ok(head) if head.is_empty() => "an empty file".to_owned(),
        Ok(head) => format!("a file that begins with `{}`", head.escape_ascii()),
        Err(error) => return error,
    };
    source.unsupported("file type", "NumPy, ENVI header, MATLAB, TIFF, PNG, Tivita or HDF5", found)
}

/// The first line of an ENVI header is exactly `ENVI`.
fn is_envi(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let line = head.split(|&byte| byte == b'\n' || byte == b'\r').next().unwrap_or_default();
    line.trim_ascii() == b"ENVI" && line.len() < head.len()
}

fn is_mat5(head: &[u8]) -> bool {
    head.starts_with(b"MATLAB") && matches!(head.get(124..128), Some([0, 1, b'I', b'M'] | [1, 0, b'M', b'I']))
}

fn is_hdf5(source: &Source, head: &[u8]) -> Result<bool> {
    if head.starts_with(HDF5) || head.get(512..520) == Some(HDF5) {
        return Ok(true);
    }
    // Longer user blocks are rare: four more reads of eight bytes find those up to 16 KiB.
    for offset in [1024, 2048, 4096, 8192, 16384] {
        if offset + 8 <= source.len() && source.read_at("signature", offset, 8)? == HDF5 {
            return Ok(true);
        }
    }
    Ok(false)
}
