//! Decodes BloscLZ, the coder of the first version of Blosc. Its streams consist of literals and matches, as in
//! FastLZ.

use shardpack_format::{Error, Result};

/// Largest distance that fits in the match itself. Larger distances take two more bytes.
const NEAR: usize = 8191;

/// Decodes `stream` into `out`, whose length must be the decoded length.
pub(super) fn decode(stream: &[u8], out: &mut [u8]) -> Result<()> {
    let mut at = 0;
    let is_complete = steps(stream, out, &mut at).is_some();
    let length = out.len();
    match (is_complete, at == length) {
        (true, true) => Ok(()),
        (true, false) => Err(Error::malformed(format!(
            "the blosclz stream is damaged: it decodes to {at} bytes, but should decode to {length}"
        ))),
        // A step failed, perhaps after the last byte of the output.
        (false, _) => {
            Err(Error::malformed(format!("the blosclz stream is damaged: it does not decode to {length} bytes")))
        }
    }
}

/// Executes the steps of a stream. Returns `None` if a step would leave the bounds of the stream or of the output.
fn steps(mut stream: &[u8], out: &mut [u8], at: &mut usize) -> Option<()> {
    // Ignore the three high bits of the first byte. They would be the length of a match, but a stream begins with
    // literals.
    let mut control = take(&mut stream)? & 31;
    loop {
        if control < 32 {
            let (literals, after) = stream.split_at_checked(usize::from(control) + 1)?;
            out.get_mut(*at..*at + literals.len())?.copy_from_slice(literals);
            *at += literals.len();
            stream = after;
        } else {
            let (length, distance) = a_match(control, &mut stream)?;
            copy(out, *at, distance, length)?;
            *at += length;
        }
        match stream.split_first() {
            Some((&next, after)) => (control, stream) = (next, after),
            None => return Some(()),
        }
    }
}

/// Returns the length and distance of a match.
fn a_match(control: u8, stream: &mut &[u8]) -> Option<(usize, usize)> {
    let mut length = usize::from(control >> 5) + 2;
    if length == 9 {
        loop {
            let more = take(stream)?;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    let high = usize::from(control & 31) << 8;
    let low = take(stream)?;
    let mut distance = high + usize::from(low) + 1;
    if low == 255 && high == 31 << 8 {
        distance = (usize::from(take(stream)?) << 8) + usize::from(take(stream)?) + NEAR + 1;
    }
    Some((length, distance))
}

/// Copies `length` bytes to `at`, starting `distance` bytes before `at`. If the two ranges overlap, the bytes repeat.
fn copy(out: &mut [u8], at: usize, distance: usize, length: usize) -> Option<()> {
    let start = at.checked_sub(distance)?;
    let end = at.checked_add(length).filter(|&end| end <= out.len())?;
    let mut done = at;
    while done < end {
        // The bytes from `start` to `done` are whole repetitions of the pattern.
        let step = (done - start).min(end - done);
        out.copy_within(start..start + step, done);
        done += step;
    }
    Some(())
}

fn take(stream: &mut &[u8]) -> Option<u8> {
    let (&first, after) = stream.split_first()?;
    *stream = after;
    Some(first)
}
