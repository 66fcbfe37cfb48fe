//! Several JPEGs in one value: the frames of a clip, or the views of a scene (spec §5.4).
//!
//! The value consists of the number of JPEGs, their lengths, and then the JPEGs themselves without gaps. All
//! numbers are little-endian u32.

use shardpack_format::{Error, Result};

/// Media type of a value that is a list of JPEGs.
pub const FRAMES: &str = "image/x-jpeg-frames";
const JPEG: &str = "image/jpeg";
const WORD: usize = 4;

/// Pictures of a value in order: all frames of a list of JPEGs, or the only picture of any other type.
///
/// ```
/// use shardpack_jpeg::{FRAMES, Frames};
/// let list = Frames::join(&[b"first", b"other"])?;
/// let frames = Frames::of(FRAMES, &list)?;
/// assert_eq!((frames.len(), frames.get(1)), (2, Some(&b"other"[..])));
/// assert_eq!(frames.media_type(), "image/jpeg");
/// assert_eq!(Frames::of("image/png", b"a picture")?.get(0), Some(&b"a picture"[..]));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    media_type: &'a str,
    lengths: Option<&'a [[u8; WORD]]>,
    pictures: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Finds the pictures in `bytes` without inspecting them.
    ///
    /// # Errors
    /// `Format` if a list has no frames or contains an empty one, or if its frames do not fill it exactly.
    pub fn of(media_type: &'a str, bytes: &'a [u8]) -> Result<Self> {
        if media_type != FRAMES {
            return Ok(Self { media_type, lengths: None, pictures: bytes });
        }
        let wrong = |text: String| Error::malformed(format!("the list of JPEGs is damaged: {text}"));
        let (count, rest) = bytes
            .split_first_chunk::<WORD>()
            .ok_or_else(|| wrong(format!("it has {} bytes, but needs at least 4", bytes.len())))?;
        let count = u32::from_le_bytes(*count);
        let table = usize::try_from(u64::from(count) * WORD as u64).ok().and_then(|table| rest.split_at_checked(table));
        let (lengths, pictures) = table.filter(|_| count > 0).ok_or_else(|| {
            wrong(format!("it declares {count} frames, but its size allows 1 to {}", rest.len() / WORD))
        })?;
        let lengths = lengths.as_chunks::<WORD>().0;
        if let Some(empty) = lengths.iter().position(|length| *length == [0; WORD]) {
            return Err(wrong(format!("frame {empty} is empty")));
        }
        // The sum cannot overflow, because there are fewer than 2^32 lengths and each is below 2^32.
        let total: u64 = lengths.iter().map(|length| u64::from(u32::from_le_bytes(*length))).sum();
        if total != pictures.len() as u64 {
            return Err(wrong(format!("it declares {total} bytes of frames, but has {}", pictures.len())));
        }
        Ok(Self { media_type: JPEG, lengths: Some(lengths), pictures })
    }

    /// Joins JPEGs into a list in its stored form.
    ///
    /// # Errors
    /// `Usage` if there are no frames, a frame is empty, or a frame has 4 GiB or more.
    pub fn join(frames: &[impl AsRef<[u8]>]) -> Result<Vec<u8>> {
        let count = u32::try_from(frames.len()).ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| {
            Error::usage(format!("a list of JPEGs must have 1 to 4,294,967,295 frames, not {}", frames.len()))
        })?;
        let bytes: usize = frames.iter().map(|frame| frame.as_ref().len() + WORD).sum();
        let mut out = Vec::with_capacity(bytes + WORD);
        out.extend(count.to_le_bytes());
        for frame in frames {
            let length = frame.as_ref().len();
            let stored = u32::try_from(length).ok().filter(|length| *length > 0);
            let stored = stored
                .ok_or_else(|| Error::usage(format!("a frame must have 1 to 4,294,967,295 bytes, not {length}")))?;
            out.extend(stored.to_le_bytes());
        }
        frames.iter().for_each(|frame| out.extend(frame.as_ref()));
        Ok(out)
    }

    /// Returns the media type of each picture.
    #[must_use]
    pub const fn media_type(&self) -> &'a str {
        self.media_type
    }

    /// Returns true if the value is a list of JPEGs, even a list with a single frame.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        self.lengths.is_some()
    }

    /// Returns the number of pictures, which is at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.lengths.map_or(1, <[_]>::len)
    }

    /// Iterates over all frames, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (mut rest, pictures) = (self.pictures, self.pictures);
        let listed = self.lengths.unwrap_or_default().iter().map_while(move |length| {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (frame, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(frame)
        });
        listed.chain(self.lengths.is_none().then_some(pictures))
    }

    /// Returns frame `number`, counted from 0.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&'a [u8]> {
        self.iter().nth(number)
    }

    /// Returns the first frame, which is used wherever only one picture can be shown.
    #[must_use]
    pub fn first(&self) -> &'a [u8] {
        self.iter().next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Result<Vec<&[u8]>> {
        Frames::of(FRAMES, bytes).map(|frames| frames.iter().collect())
    }

    #[test]
    fn a_list_gives_back_its_frames() {
        let frames: [&[u8]; 3] = [b"a", b"longer than that", b"b"];
        let list = Frames::join(&frames).unwrap();
        assert_eq!(list.len(), 16 + 18);
        assert_eq!(of(&list).unwrap(), frames);
        let parsed = Frames::of(FRAMES, &list).unwrap();
        assert!(parsed.is_list() && parsed.first() == b"a" && parsed.get(3).is_none());
        let other = Frames::of("image/png", &list).unwrap();
        assert_eq!((other.len(), other.first(), other.media_type()), (1, &list[..], "image/png"));
        assert!(!other.is_list());
    }

    #[test]
    fn other_bytes_than_lists_are_refused() {
        let list = Frames::join(&[b"abc", b"def"]).unwrap();
        let mut empty = list.clone();
        empty[4..8].copy_from_slice(&0_u32.to_le_bytes());
        for (bytes, said) in [
            (&list[..3], "it has 3 bytes, but needs at least 4"),
            (&list[..9], "it declares 2 frames, but its size allows 1 to 1"),
            (&[0; 4][..], "it declares 0 frames, but its size allows 1 to 0"),
            (&[0xff; 64], "it declares 4294967295 frames, but its size allows 1 to 15"),
            (&list[..17], "it declares 6 bytes of frames, but has 5"),
            (&[&list[..], b"x"].concat(), "it declares 6 bytes of frames, but has 7"),
            (&empty, "frame 0 is empty"),
        ] {
            let error = of(bytes).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let none: [&[u8]; 0] = [];
        assert!(Frames::join(&none).is_err());
        assert!(Frames::join(&[&b""[..]]).is_err());
    }
}
