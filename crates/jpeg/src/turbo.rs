//! A safe interface to libjpeg-turbo. This module contains all `unsafe` code for JPEG.
//!
//! The TurboJPEG interface keeps libjpeg's `longjmp` inside C, and since version 3.0 it can add restart markers when
//! transcoding. Three of its properties shape this module:
//!
//! - After an error, libjpeg may be in the middle of a marker and continue there in the *next* picture. It also uses
//!   its old quantisation and Huffman tables for pictures that have none. Therefore each instance is used for only one
//!   picture, and the pixels depend only on the picture's own bytes. Creating an instance takes 0.2 µs. No instance
//!   leaves the function, or the [`OpenedJpeg`], that created it.
//! - A call that fails after a warning still reports only a warning. [`Handle::outcome`] distinguishes the two.
//! - The library takes the size of the rows from the JPEG itself and does not check the buffer. Therefore bytes are
//!   decoded only after libjpeg (on the same instance) and [`JpegHeader::parse`] have both read the same header from
//!   them.
#![allow(unsafe_code)]

mod kinds;

pub(crate) use crate::kinds::{Bounds, Color, Frame, PixelFormat, Scale, Warnings};
#[cfg(test)]
pub(crate) use kinds::Process;
#[cfg(any(test, feature = "encode"))]
pub(crate) use kinds::{Encoding, Subsampling};
pub(crate) use kinds::{Operation, Transcoding};

use super::{JpegHeader, Rect, end_of_image};
use crate::kinds::checked_header;
use kinds::number_of;
use shardpack_format::{Error, Result, to_usize};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};
use turbojpeg_sys as sys;

/// Beginnings of libjpeg's warnings about a source, up to the first number in each. libjpeg's errors begin
/// differently.
const WARNINGS: [&str; 6] = [
    "Corrupt JPEG data: ",
    "Premature end of JPEG file",
    "Inconsistent progression sequence for component ",
    "Invalid SOS parameters for sequential JPEG",
    "Unknown Adobe color transform code ",
    "Warning: unknown JFIF revision number ",
];

/// End of the warning about bytes between the data of the last scan and the end of the image.
const AT_THE_END: &str = " extraneous bytes before marker 0xd9";

/// A TurboJPEG instance for one picture. Dropping it destroys the instance.
struct Handle(NonNull<c_void>);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the pointer is from `tj3Init`. `self` owns it, and it is not used after this.
        unsafe { sys::tj3Destroy(self.0.as_ptr()) }
    }
}

enum TurboFailure {
    /// The call finished, although the picture is damaged.
    Warning(String),
    Fatal(String),
}

impl TurboFailure {
    /// Returns true if the warning is only about padding (zeros before the end of the image). The library keeps the
    /// text of a picture's first warning, so all pixels were decoded without a warning before this one. Bytes other
    /// than zeros do not count as padding, because they may be the only sign of damage elsewhere.
    fn is_padding(&self, jpeg: &[u8]) -> bool {
        let Self::Warning(text) = self else { return false };
        let count = text.strip_prefix("Corrupt JPEG data: ").and_then(|text| text.strip_suffix(AT_THE_END));
        let Some(count) = count.and_then(|count| count.parse::<usize>().ok()) else { return false };
        let Ok(header) = JpegHeader::parse(jpeg) else { return false };
        let end = end_of_image(jpeg, header.scan_offset).and_then(|end| usize::try_from(end).ok());
        let bytes = end.and_then(|end| jpeg.get(end.checked_sub(2 + count)?..end - 2));
        bytes.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0))
    }

    /// Returns true if the picture has a coefficient that libjpeg can decode but not write.
    fn is_unwritable(&self) -> bool {
        matches!(self, Self::Fatal(text) if text.starts_with("DCT coefficient") && text.ends_with("out of range"))
    }

    fn damaged(self) -> Error {
        let (Self::Warning(text) | Self::Fatal(text)) = self;
        let text = text.strip_prefix("Corrupt JPEG data: ").unwrap_or(&text);
        Error::malformed(format!("the JPEG is damaged: {text}"))
    }
}

impl Handle {
    fn new(role: u32) -> Result<Self> {
        // SAFETY: no preconditions.
        let handle = unsafe { sys::tj3Init(role.cast_signed()) };
        NonNull::new(handle).map(Self).ok_or_else(|| Error::usage("cannot allocate a libjpeg-turbo handle"))
    }

    fn set(&mut self, parameter: u32, value: impl TryInto<c_int>) -> Result<()> {
        // Values that are too large are clamped, because an even larger limit would have no effect.
        let value = value.try_into().unwrap_or(c_int::MAX);
        // SAFETY: the instance is alive. The library checks the parameter and the value.
        match unsafe { sys::tj3Set(self.0.as_ptr(), parameter.cast_signed(), value) } {
            0 => Ok(()),
            _ => Err(Error::usage(format!("libjpeg-turbo does not accept {value} for its parameter {parameter}"))),
        }
    }

    fn get(&self, parameter: u32) -> c_int {
        // SAFETY: the instance is alive.
        unsafe { sys::tj3Get(self.0.as_ptr(), parameter.cast_signed()) }
    }

    fn bound(&mut self, bounds: Bounds) -> Result<()> {
        self.set(sys::TJPARAM_TJPARAM_SCANLIMIT, bounds.max_scans)?;
        self.set(sys::TJPARAM_TJPARAM_MAXMEMORY, bounds.max_memory_mib)?;
        self.set(sys::TJPARAM_TJPARAM_MAXPIXELS, bounds.max_pixels)
    }

    /// Returns the result of the call that returned `status`.
    ///
    /// The library's error code is "warning" even if an error followed the warning. But the library keeps only the text
    /// of a picture's first warning, and an error always replaces this text. Therefore a call has ended with only a
    /// warning if the text is a known warning. An unknown text counts as an error.
    fn outcome(&self, status: c_int) -> Result<(), TurboFailure> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the instance is alive. The text is zero-terminated. It lies in the instance or, if libjpeg
        // wrote it, in this thread's own buffer. The failed call ran on this thread, and the text is copied before any
        // other call.
        let text = unsafe { CStr::from_ptr(sys::tj3GetErrorStr(self.0.as_ptr())) }.to_string_lossy().into_owned();
        // SAFETY: the instance is alive.
        let code = unsafe { sys::tj3GetErrorCode(self.0.as_ptr()) }.cast_unsigned();
        let warned = code == sys::TJERR_TJERR_WARNING && WARNINGS.iter().any(|warning| text.starts_with(warning));
        Err(if warned { TurboFailure::Warning(text) } else { TurboFailure::Fatal(text) })
    }

    fn color(&self) -> Result<Color> {
        match self.get(sys::TJPARAM_TJPARAM_COLORSPACE).cast_unsigned() {
            sys::TJCS_TJCS_GRAY => Ok(Color::Gray),
            sys::TJCS_TJCS_YCbCr => Ok(Color::YCbCr),
            sys::TJCS_TJCS_RGB => Ok(Color::Rgb),
            sys::TJCS_TJCS_CMYK => Ok(Color::Cmyk),
            sys::TJCS_TJCS_YCCK => Ok(Color::Ycck),
            other => Err(Error::format("JPEG colour space", "grey, YCbCr, RGB, CMYK or YCCK", other.cast_signed())),
        }
    }
}

/// Settings for decoding pictures. This type contains no picture data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decompressor {
    bounds: Bounds,
    warnings: Warnings,
}

impl Decompressor {
    pub(crate) const fn new(bounds: Bounds, warnings: Warnings) -> Self {
        Self { bounds, warnings }
    }

    pub(crate) const fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Reads the header of `jpeg`.
    ///
    /// # Errors
    /// `Format` if there is no header, or libjpeg warns about it and warnings are refused
    /// ([`Warnings::Refuse`]); `Limit` if the picture has too many pixels.
    pub(crate) fn open<'a>(&self, jpeg: &'a [u8]) -> Result<OpenedJpeg<'a>> {
        let header = checked_header(jpeg, self.bounds)?;
        let mut handle = Handle::new(sys::TJINIT_TJINIT_DECOMPRESS)?;
        handle.bound(self.bounds)?;
        // Avoid a copy of the ICC profile each time libjpeg reads a header.
        handle.set(sys::TJPARAM_TJPARAM_SAVEMARKERS, 0)?;
        // SAFETY: the pointer and the length describe a live slice, and the library only reads it.
        let status = unsafe { sys::tj3DecompressHeader(handle.0.as_ptr(), jpeg.as_ptr(), jpeg.len() as _) };
        self.accepted(handle.outcome(status), jpeg)?;
        let color = handle.color()?;
        let found = (
            handle.get(sys::TJPARAM_TJPARAM_JPEGWIDTH),
            handle.get(sys::TJPARAM_TJPARAM_JPEGHEIGHT),
            color.components(),
        );
        let expected = (c_int::from(header.width), c_int::from(header.height), header.components().len());
        if found != expected {
            let text = |(width, height, components)| format!("{width} × {height} pixels of {components} components");
            return Err(Error::malformed(format!(
                "libjpeg-turbo reads the JPEG header differently: expected {}, found {}",
                text(expected),
                text(found)
            )));
        }
        let frame = Frame {
            width: header.width.into(),
            height: header.height.into(),
            color,
            lossless: handle.get(sys::TJPARAM_TJPARAM_LOSSLESS) != 0,
        };
        Ok(OpenedJpeg { handle, jpeg, header, frame, decompressor: *self })
    }

    /// Converts an outcome to a result. The settings decide whether a warning is an error.
    fn accepted(&self, outcome: Result<(), TurboFailure>, jpeg: &[u8]) -> Result<()> {
        match outcome {
            Ok(()) => Ok(()),
            Err(TurboFailure::Warning(_)) if self.warnings == Warnings::Accept => Ok(()),
            Err(failure) if failure.is_padding(jpeg) => Ok(()),
            Err(failure) => Err(failure.damaged()),
        }
    }
}

/// A picture whose header has been read. It can be decoded once.
pub(crate) struct OpenedJpeg<'a> {
    /// An instance that was created for this picture. The only call on it so far has read the header of
    /// `jpeg` to the end.
    handle: Handle,
    jpeg: &'a [u8],
    header: JpegHeader,
    frame: Frame,
    decompressor: Decompressor,
}

impl OpenedJpeg<'_> {
    pub(crate) const fn frame(&self) -> Frame {
        self.frame
    }

    pub(crate) const fn header(&self) -> &JpegHeader {
        &self.header
    }

    /// Decodes the whole picture at `scale` into `out`, in rows of `pitch` bytes.
    ///
    /// # Errors
    /// `Format` if the picture does not decode, or libjpeg warns and warnings are refused
    /// ([`Warnings::Refuse`]); `Limit` if it exceeds the limits; `Usage` if `out` is too small.
    pub(crate) fn decode(self, scale: Scale, format: PixelFormat, out: &mut [u8], pitch: usize) -> Result<()> {
        let whole = Rect::whole(scale.of(self.frame.width), scale.of(self.frame.height));
        self.decode_at(scale, whole, format, out, pitch)
    }

    /// Decodes a region of the picture. Its left edge must be on an MCU boundary. Reads the entropy-coded
    /// data above and next to the region, but not below it, and computes pixels only for the region. libjpeg
    /// does not interpolate chroma across the region's edges. If you need exact pixels, make the region one
    /// pixel larger on each side.
    ///
    /// # Errors
    /// Same as [`decode`](Self::decode); also `Format` if libjpeg cannot decode this region.
    pub(crate) fn decode_region(self, region: Rect, format: PixelFormat, out: &mut [u8], pitch: usize) -> Result<()> {
        self.decode_at(Scale::Full, region, format, out, pitch)
    }

    fn decode_at(
        mut self,
        scale: Scale,
        region: Rect,
        format: PixelFormat,
        out: &mut [u8],
        pitch: usize,
    ) -> Result<()> {
        let whole = Rect::whole(scale.of(self.frame.width), scale.of(self.frame.height));
        region.check(whole.width, whole.height)?;
        let (width, height) = (region.width as usize, region.height as usize);
        let row = width * format.bytes();
        let needed = pitch.checked_mul(height - 1).and_then(|n| n.checked_add(row));
        if row > pitch || needed.is_none_or(|needed| needed > out.len()) {
            return Err(Error::usage(format!(
                "the buffer is too small for {width} × {height} pixels of {} bytes each: it has {} bytes, in rows of \
                 {pitch} bytes",
                format.bytes(),
                out.len()
            )));
        }
        let pitch = c_int::try_from(pitch)
            .map_err(|_| Error::usage(format!("a row of pixels must have fewer than 2³¹ bytes, but has {pitch}")))?;
        self.aim(scale, (region != whole).then_some(region)).map_err(TurboFailure::damaged)?;
        // SAFETY: `jpeg` is a live slice, and the library only reads it. The library writes `height` rows of `row`
        // bytes, `pitch` apart. `out` has room for them, as compared above, provided that the picture is
        // `frame.width` × `frame.height`: with a region, the library writes the rows of the region or fails, and
        // without a region it writes the rows of the whole picture. It reads the size from the header of `jpeg`
        // again, and finds the same size as in `Decompressor::open`, because it starts from the same state. The bytes
        // are the same, because they have been borrowed since then. The instance was new then, and its only reading
        // ended without an error. Therefore the instance was not left in the middle of a marker, but aborted as a
        // whole (`jpeg_abort_decompress`), after which libjpeg starts again at SOI.
        let status = unsafe {
            sys::tj3Decompress8(
                self.handle.0.as_ptr(),
                self.jpeg.as_ptr(),
                self.jpeg.len() as _,
                out.as_mut_ptr(),
                pitch,
                number_of(format),
            )
        };
        self.decompressor.accepted(self.handle.outcome(status), self.jpeg)
    }

    fn aim(&mut self, scale: Scale, region: Option<Rect>) -> Result<(), TurboFailure> {
        let factor = sys::tjscalingfactor { num: 1, denom: scale.denominator().cast_signed() };
        // SAFETY: the instance is alive.
        let status = unsafe { sys::tj3SetScalingFactor(self.handle.0.as_ptr(), factor) };
        self.handle.outcome(status)?;
        let Some(region) = region else { return Ok(()) };
        let [x, y, w, h] = [region.x, region.y, region.width, region.height].map(u32::cast_signed);
        // SAFETY: the instance is alive. The library compares the region with the scaled size of this
        // picture, whose header it has read.
        let status = unsafe { sys::tj3SetCroppingRegion(self.handle.0.as_ptr(), sys::tjregion { x, y, w, h }) };
        self.handle.outcome(status)
    }
}

/// A buffer that the library has allocated.
struct Output {
    bytes: *mut u8,
    len: sys::size_t,
}

impl Output {
    const fn none() -> Self {
        Self { bytes: ptr::null_mut(), len: 0 }
    }

    /// Appends the library's output.
    ///
    /// # Safety
    /// The call that filled this buffer must have succeeded.
    unsafe fn append_to(&self, out: &mut Vec<u8>) {
        if !self.bytes.is_null() {
            let len = to_usize(self.len);
            // SAFETY: the call has succeeded, so the library has written `len` bytes at `bytes`. It allocated
            // them, and no other code refers to them.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(self.bytes, len) });
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: the pointer is null, or the library allocated it, keeps no copy of it, and has not freed it
        // yet.
        unsafe { sys::tj3Free(self.bytes.cast()) }
    }
}

/// Rewrites the DCT coefficients of pictures as baseline JPEGs with one scan and optimised Huffman tables.
/// This type contains no picture data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transcoder {
    bounds: Bounds,
}

impl Transcoder {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self { bounds }
    }

    pub(crate) const fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Appends the transcoded picture to `out`. Returns false and appends nothing if the picture has a
    /// coefficient that libjpeg can decode but not write.
    ///
    /// # Errors
    /// `Format` if `jpeg` is damaged (which includes warnings) or the operation is impossible without loss;
    /// `Limit` if it exceeds the limits.
    pub(crate) fn transcode(&self, jpeg: &[u8], how: Transcoding, out: &mut Vec<u8>) -> Result<bool> {
        checked_header(jpeg, self.bounds)?;
        let mut handle = Handle::new(sys::TJINIT_TJINIT_TRANSFORM)?;
        // Rotation needs memory for two copies of the coefficients.
        let max_memory_mib = self.bounds.max_memory_mib.saturating_mul(2);
        handle.bound(Bounds { max_memory_mib, ..self.bounds })?;
        handle.set(sys::TJPARAM_TJPARAM_RESTARTBLOCKS, how.restart_interval)?;
        let mut options = sys::TJXOPT_OPTIMIZE | sys::TJXOPT_PERFECT;
        if !how.keep_metadata {
            options |= sys::TJXOPT_COPYNONE;
        }
        let transform = sys::tjtransform {
            r: sys::tjregion { x: 0, y: 0, w: 0, h: 0 },
            op: how.operation as c_int,
            options: options.cast_signed(),
            data: ptr::null_mut(),
            customFilter: None,
        };
        let mut output = Output::none();
        // SAFETY: the instance is alive. `jpeg` is a live slice, and the library only reads it. There is one
        // transform, one pointer and one length, all of them live. The pointer is null, so the library
        // allocates the output.
        let status = unsafe {
            sys::tj3Transform(
                handle.0.as_ptr(),
                jpeg.as_ptr(),
                jpeg.len() as _,
                1,
                &raw mut output.bytes,
                &raw mut output.len,
                &raw const transform,
            )
        };
        match handle.outcome(status) {
            Err(failure) if failure.is_unwritable() => return Ok(false),
            Err(failure) if !failure.is_padding(jpeg) => return Err(failure.damaged()),
            // The only warning was about padding, so the output is complete.
            _ => {}
        }
        // SAFETY: the call has succeeded, possibly with a warning.
        unsafe { output.append_to(out) };
        Ok(true)
    }
}

/// Encodes pictures. This type contains no picture data.
#[cfg(any(test, feature = "encode"))]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Compressor {
    #[cfg(test)]
    process: Option<Process>,
}

#[cfg(any(test, feature = "encode"))]
impl Compressor {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Makes later calls write a kind of JPEG that [`Encoding`] does not offer. Tests use these JPEGs as sources.
    #[cfg(test)]
    pub(crate) const fn write(&mut self, process: Process) {
        self.process = Some(process);
    }

    fn handle(&self, how: Encoding) -> Result<Handle> {
        let mut handle = Handle::new(sys::TJINIT_TJINIT_COMPRESS)?;
        handle.set(sys::TJPARAM_TJPARAM_OPTIMIZE, 1)?;
        handle.set(sys::TJPARAM_TJPARAM_QUALITY, how.quality)?;
        handle.set(sys::TJPARAM_TJPARAM_SUBSAMP, how.subsampling as c_int)?;
        handle.set(sys::TJPARAM_TJPARAM_RESTARTBLOCKS, how.restart_interval)?;
        #[cfg(test)]
        if let Some(process) = self.process {
            let (parameter, value) = process.parameter();
            handle.set(parameter, value)?;
        }
        Ok(handle)
    }

    /// Appends `pixels` (rows of `width` pixels without gaps) to `out` as a JPEG.
    ///
    /// # Errors
    /// `Usage` if the number of bytes does not match the dimensions, or the encoder rejects them.
    pub(crate) fn encode(
        &self,
        pixels: &[u8],
        width: u32,
        height: u32,
        format: PixelFormat,
        how: Encoding,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let expected = (width as usize).checked_mul(height as usize).and_then(|n| n.checked_mul(format.bytes()));
        if expected != Some(pixels.len()) || pixels.is_empty() {
            return Err(Error::usage(format!(
                "a JPEG of {width} × {height} pixels of {} bytes cannot be made from {} bytes",
                format.bytes(),
                pixels.len()
            )));
        }
        let (Ok(columns), Ok(rows)) = (c_int::try_from(width), c_int::try_from(height)) else {
            let text = format!("a JPEG of {width} × {height} pixels is too large: both sides must be below 2³¹");
            return Err(Error::usage(text));
        };
        let handle = self.handle(how)?;
        let mut output = Output::none();
        // SAFETY: the instance is alive. `pixels` consists of exactly `height` rows of `width` pixels, as
        // compared above (pitch 0 = no gaps), and the library only reads it. Pointer and length are live. The
        // pointer is null, so the library allocates the output.
        let status = unsafe {
            sys::tj3Compress8(
                handle.0.as_ptr(),
                pixels.as_ptr(),
                columns,
                0,
                rows,
                number_of(format),
                &raw mut output.bytes,
                &raw mut output.len,
            )
        };
        handle.outcome(status).map_err(|(TurboFailure::Warning(text) | TurboFailure::Fatal(text))| {
            Error::usage(format!("cannot encode a picture of {width} × {height} pixels as JPEG: {text}"))
        })?;
        // SAFETY: the call has succeeded.
        unsafe { output.append_to(out) };
        Ok(())
    }
}

#[cfg(test)]
#[path = "turbo_tests.rs"]
mod tests;
