//! Reads `.npz` files, which are zip archives of stored or deflated `.npy` members.

use super::npy;
use super::npy::{Header, read_header};
use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::{CubeError, Result};
use crate::cubes::format::CubeFormat;
use crate::cubes::meta;
use crate::cubes::select::{Candidate, ChosenArray, Purpose, others, select};
use crate::cubes::source::{CubeFile, CubeStream, MAX_DEFLATE_RATIO};
use shardpack_array::floats_of;
use std::io::{BufReader, Read};
use zip::ZipArchive;
use zip::result::ZipError;

/// Maximum number of members. NumPy archives only have a few arrays.
const MAX_MEMBERS: usize = 10_000;

/// Limit on the total size of all headers. Many directory entries may share one deflated header.
const MAX_HEADERS: u64 = 16 << 20;

type Archive<'a> = ZipArchive<BufReader<CubeStream<'a>>>;

struct Member {
    index: usize,
    name: String,
    header: Header,
}

fn is_npz(source: &CubeFile, head: &[u8]) -> Result<bool> {
    // The name of the first member is enough to recognise a NumPy archive, even a damaged one.
    let length =
        head.get(26..28).map_or(0, |field| field.iter().rev().fold(0, |acc, &byte| acc << 8 | usize::from(byte)));
    if head.get(30..).and_then(|rest| rest.get(..length)).is_some_and(|name| name.ends_with(b".npy")) {
        return Ok(true);
    }
    match ZipArchive::new(BufReader::new(source.whole())) {
        Ok(archive) => Ok(archive.file_names_raw().take(MAX_MEMBERS).any(|name| name.ends_with(b".npy"))),
        Err(ZipError::Io(error)) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(source.io("cannot read the zip directory", error))
        }
        Err(_) => Ok(false),
    }
}

fn zip_error(source: &CubeFile, error: &ZipError) -> CubeError {
    source.damaged(format_args!("cannot read the zip archive: {error}"))
}

/// Lists the arrays that can be read as cubes. Strings and objects cannot.
fn members(source: &CubeFile) -> Result<(Archive<'_>, Vec<Member>)> {
    source.stream(0, 0)?;
    let mut archive = ZipArchive::new(BufReader::new(source.whole())).map_err(|error| zip_error(source, &error))?;
    if archive.len() > MAX_MEMBERS {
        return Err(source.damaged(format_args!(
            "the zip archive has {} members, but at most {MAX_MEMBERS} are allowed",
            archive.len()
        )));
    }
    let mut members = Vec::new();
    let mut refused = None;
    let mut left = MAX_HEADERS;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| zip_error(source, &error))?;
        let raw = entry.name_raw().to_vec();
        let Some(name) = raw.strip_suffix(b".npy") else { continue };
        let name = String::from_utf8_lossy(name).into_owned();
        let mut header = entry.by_ref().take(left);
        let read = read_header(source, &mut header);
        left = header.limit();
        if left == 0 {
            return Err(source.damaged(format_args!(
                "the npy headers in the zip archive are too large: more than {MAX_HEADERS} bytes in total"
            )));
        }
        match read {
            Ok(header) => members.push(Member { index, name, header }),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        // If no other array can be read, report why this array failed.
        Some(error) if members.is_empty() => Err(error),
        _ => Ok((archive, members)),
    }
}

fn choose<'m>(source: &CubeFile, want: &Purpose, members: &'m [Member]) -> Result<ChosenArray<'m, Member>> {
    let candidates: Vec<_> = members
        .iter()
        .map(|member| Candidate {
            name: &member.name,
            dtype: member.header.dtype.to_string(),
            dims: &member.header.dims,
        })
        .collect();
    let chosen = select(source, want, &candidates)?;
    let member = members.get(chosen).ok_or_else(|| source.damaged("the file has no arrays"))?;
    let layout = member.header.layout(source)?;
    Ok(ChosenArray { array: member, layout, others: others(want, &candidates, chosen) })
}

fn elements(source: &CubeFile, archive: &mut Archive, member: &Member, bytes: u64) -> Result<Vec<u8>> {
    let mut entry = archive.by_index(member.index).map_err(|error| zip_error(source, &error))?;
    let expected = bytes.saturating_add(member.header.data_offset);
    if entry.size() != expected {
        let (name, found) = (&member.name, entry.size());
        let text = format!(
            "array `{name}` takes {found} bytes in the archive, but should take {expected} according to its header"
        );
        return Err(source.damaged(text));
    }
    if entry.size() / MAX_DEFLATE_RATIO > entry.compressed_size() {
        let (name, packed, size) = (&member.name, entry.compressed_size(), entry.size());
        let text = format!("array `{name}`: {packed} compressed bytes cannot decompress to {size} bytes");
        return Err(source.damaged(text));
    }
    read_header(source, &mut entry)?;
    let mut stored = source.alloc("array in the zip archive", bytes)?;
    // Read to the end of the member, because its CRC-32 is checked only there.
    let read = source.append(&mut entry, bytes.saturating_add(1), &mut stored);
    read.map_err(|error| source.damaged(format_args!("cannot read array `{}` in the archive: {error}", member.name)))?;
    Ok(stored)
}

fn vector(source: &CubeFile, archive: &mut Archive, member: &Member) -> Result<Option<Vec<f64>>> {
    let npy::Header { dtype, big_endian, .. } = member.header;
    let bytes = dtype.array_bytes(&member.header.dims).ok().filter(|bytes| *bytes <= 1 << 20);
    let Some(bytes) = bytes else { return Ok(None) };
    let mut stored = elements(source, archive, member, bytes)?;
    if big_endian {
        crate::cubes::gather::swap_in_place(&mut stored, dtype.bytes());
    }
    Ok(Some(floats_of(dtype, &stored)))
}

pub(super) struct Npz;

impl CubeFormat for Npz {
    fn recognises(&self, source: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(head.starts_with(b"PK\x03\x04") && is_npz(source, head)?)
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        let (_, members) = members(source)?;
        let ChosenArray { array, layout, others } = choose(source, want, &members)?;
        Ok(CubeHeader::new(&layout, source, want.max_bytes())?.of_array(&array.name, others))
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        let (mut archive, members) = members(source)?;
        let ChosenArray { array: member, layout, .. } = choose(source, want, &members)?;
        let bytes = layout.bytes(source, want.max_bytes())?;
        let stored = elements(source, &mut archive, member, bytes)?;
        let mut cube = LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)?;
        cube.meta.insert("variable".into(), member.name.clone().into());
        let [_, _, channels] = layout.shape;
        for beside in &members {
            let Some(key) = meta::per_channel_key(&beside.name) else { continue };
            if meta::is_vector(&beside.header.dims, channels)
                // The first occurrence of a key takes precedence, so skip later ones.
                && !cube.meta.contains_key(key)
                && let Some(values) = vector(source, &mut archive, beside)?
            {
                meta::insert_new(&mut cube.meta, key, meta::floats(&values));
            }
        }
        Ok(cube)
    }
}
