//! The fence around libjpeg-turbo: every line of `unsafe` that concerns JPEG stands here.
//!
//! The TurboJPEG interface keeps libjpeg's `longjmp` inside C, reports warnings as errors, and since 3.0 writes restart markers when it
//! transcodes. Handles belong to one thread at a time. After an error a handle is thrown away: libjpeg may hold half of a marker, which it
//! would go on with in the next picture.
#![allow(unsafe_code)]

use super::Rect;
use shardpack_format::{Error, Limits, Result};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};
use turbojpeg_sys as sys;

/// Bytes that a decoded pixel takes at most.
const PIXEL_BYTES: u64 = 4;

/// What one picture may ask of the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Most pixels.
    pub(crate) max_pixels: u64,
    /// Most scans of a progressive picture: one of ten thousand scans is an attack (a usual one has about ten).
    pub(crate) max_scans: u32,
    /// Most memory that libjpeg may take for itself, in MiB: a progressive picture needs all of its coefficients, 2 bytes each.
    pub(crate) max_memory_mib: u32,
}

impl Bounds {
    /// What `limits` leave to one picture.
    pub(crate) fn of(limits: &Limits) -> Self {
        let max_pixels = limits.max_decoded_bytes / PIXEL_BYTES;
        // Coefficients of three components without subsampling: 6 bytes for each pixel, and libjpeg's own buffers.
        let max_memory_mib = u32::try_from((max_pixels.saturating_mul(6) >> 20) + 64).unwrap_or(u32::MAX);
        Self { max_pixels, max_scans: 500, max_memory_mib }
    }
}

/// What to do about damage that libjpeg decodes past, with a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warnings {
    /// It is an error.
    Refuse,
    /// The pixels are taken as they come.
    Accept,
}

/// Order of the bytes of one pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PixelFormat {
    /// One byte.
    Gray,
    /// Red, green, blue.
    Rgb,
    /// Cyan, magenta, yellow, black, as stored (Adobe: inverted).
    Cmyk,
}

impl PixelFormat {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Rgb => 3,
            Self::Cmyk => 4,
        }
    }

    const fn number(self) -> c_int {
        match self {
            Self::Gray => sys::TJPF_TJPF_GRAY,
            Self::Rgb => sys::TJPF_TJPF_RGB,
            Self::Cmyk => sys::TJPF_TJPF_CMYK,
        }
    }
}

/// DCT scaling: the picture is decoded at 1/n of its width and height.
///
/// ```
/// use shardpack_codec::jpeg::Scale;
/// assert_eq!(Scale::Quarter.denominator(), 4);
/// assert_eq!(Scale::Quarter.of(501), 126);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// As it is.
    Full,
    /// 1/2.
    Half,
    /// 1/4.
    Quarter,
    /// 1/8: one pixel of each DCT block.
    Eighth,
}

impl Scale {
    /// n of 1/n.
    #[must_use]
    pub const fn denominator(self) -> u32 {
        match self {
            Self::Full => 1,
            Self::Half => 2,
            Self::Quarter => 4,
            Self::Eighth => 8,
        }
    }

    /// An axis after scaling, rounded up as libjpeg does.
    #[must_use]
    pub const fn of(self, pixels: u32) -> u32 {
        pixels.div_ceil(self.denominator())
    }
}

/// What libjpeg-turbo reads from a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Colour space of the stored components.
    pub(crate) color: Color,
    /// The lossless process, which cannot be scaled.
    pub(crate) lossless: bool,
}

/// Colour space of the stored components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    Gray,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
}

impl Color {
    /// What it is decoded to without loss of channels.
    pub(crate) const fn format(self) -> PixelFormat {
        match self {
            Self::Gray => PixelFormat::Gray,
            Self::YCbCr | Self::Rgb => PixelFormat::Rgb,
            Self::Cmyk | Self::Ycck => PixelFormat::Cmyk,
        }
    }
}

/// A lossless rotation or reflection of the DCT coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Operation {
    None = sys::TJXOP_TJXOP_NONE.cast_signed(),
    FlipHorizontal = sys::TJXOP_TJXOP_HFLIP.cast_signed(),
    FlipVertical = sys::TJXOP_TJXOP_VFLIP.cast_signed(),
    Transpose = sys::TJXOP_TJXOP_TRANSPOSE.cast_signed(),
    Transverse = sys::TJXOP_TJXOP_TRANSVERSE.cast_signed(),
    Rotate90 = sys::TJXOP_TJXOP_ROT90.cast_signed(),
    Rotate180 = sys::TJXOP_TJXOP_ROT180.cast_signed(),
    Rotate270 = sys::TJXOP_TJXOP_ROT270.cast_signed(),
}

/// Chroma subsampling of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Subsampling {
    S444 = sys::TJSAMP_TJSAMP_444,
    S422 = sys::TJSAMP_TJSAMP_422,
    S420 = sys::TJSAMP_TJSAMP_420,
    S440 = sys::TJSAMP_TJSAMP_440,
    S411 = sys::TJSAMP_TJSAMP_411,
    Gray = sys::TJSAMP_TJSAMP_GRAY,
}

/// A TurboJPEG instance that this value alone owns.
struct Handle(NonNull<c_void>);

// SAFETY: an instance has no thread-local state apart from the text of the last error of instance-less calls, which is not read here; it may
// be used by one thread at a time, which `&mut self` on every use of it guarantees.
unsafe impl Send for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `tj3Init`, is owned by `self`, and is not used after this.
        unsafe { sys::tj3Destroy(self.0.as_ptr()) }
    }
}

/// How a call ended that did not succeed.
enum Failure {
    /// The picture was decoded, past damage.
    Warning(String),
    /// It was not.
    Fatal(String),
}

impl Handle {
    fn new(role: u32) -> Result<Self> {
        // SAFETY: no preconditions.
        let handle = unsafe { sys::tj3Init(role.cast_signed()) };
        NonNull::new(handle).map(Self).ok_or_else(|| Error::usage("JPEG codec", "memory for one", "none"))
    }

    fn set(&mut self, parameter: u32, value: impl TryInto<c_int>) -> Result<()> {
        let value = value.try_into().unwrap_or(c_int::MAX);
        // SAFETY: the instance is alive; parameter and value are checked by the library.
        match unsafe { sys::tj3Set(self.0.as_ptr(), parameter.cast_signed(), value) } {
            0 => Ok(()),
            _ => Err(Error::usage(format!("JPEG parameter {parameter}"), "a value that it takes", value)),
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

    fn outcome(&self, status: c_int) -> Result<(), Failure> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the instance is alive; the text is zero-terminated and stays until the next call on this instance.
        let text = unsafe { CStr::from_ptr(sys::tj3GetErrorStr(self.0.as_ptr())) }.to_string_lossy().into_owned();
        // SAFETY: the instance is alive.
        match unsafe { sys::tj3GetErrorCode(self.0.as_ptr()) }.cast_unsigned() {
            sys::TJERR_TJERR_WARNING => Err(Failure::Warning(text)),
            _ => Err(Failure::Fatal(text)),
        }
    }

    /// Reads the header of `jpeg`. A warning here is damage before the first scan: left to the decoding.
    fn frame(&mut self, jpeg: &[u8]) -> Result<Frame> {
        // SAFETY: the pointer and the length are those of a live slice, which the library only reads.
        let status = unsafe { sys::tj3DecompressHeader(self.0.as_ptr(), jpeg.as_ptr(), jpeg.len() as _) };
        match self.outcome(status) {
            Ok(()) | Err(Failure::Warning(_)) => {}
            Err(Failure::Fatal(text)) => return Err(damaged(text)),
        }
        let side = |value: c_int| u32::try_from(value).ok().filter(|&n| n > 0);
        let (Some(width), Some(height)) =
            (side(self.get(sys::TJPARAM_TJPARAM_JPEGWIDTH)), side(self.get(sys::TJPARAM_TJPARAM_JPEGHEIGHT)))
        else {
            return Err(damaged("a picture without pixels".into()));
        };
        let color = match self.get(sys::TJPARAM_TJPARAM_COLORSPACE).cast_unsigned() {
            sys::TJCS_TJCS_GRAY => Color::Gray,
            sys::TJCS_TJCS_YCbCr => Color::YCbCr,
            sys::TJCS_TJCS_RGB => Color::Rgb,
            sys::TJCS_TJCS_CMYK => Color::Cmyk,
            sys::TJCS_TJCS_YCCK => Color::Ycck,
            other => return Err(Error::format("JPEG colour space", "grey, YCbCr, RGB, CMYK or YCCK", other)),
        };
        Ok(Frame { width, height, color, lossless: self.get(sys::TJPARAM_TJPARAM_LOSSLESS) != 0 })
    }
}

fn damaged(found: String) -> Error {
    Error::format("JPEG", "a picture that decodes", found)
}

fn check_pixels(frame: &Frame, bounds: Bounds) -> Result<()> {
    let pixels = u64::from(frame.width) * u64::from(frame.height);
    if pixels > bounds.max_pixels {
        let bytes = |pixels: u64| pixels.saturating_mul(PIXEL_BYTES);
        return Err(Error::limit("decoded JPEG", "max_decoded_bytes", bytes(bounds.max_pixels), bytes(pixels)));
    }
    Ok(())
}

/// A decoder for one thread.
pub(crate) struct Decompressor {
    handle: Option<Handle>,
    bounds: Bounds,
    warnings: Warnings,
}

impl Decompressor {
    pub(crate) fn new(bounds: Bounds, warnings: Warnings) -> Self {
        Self { handle: None, bounds, warnings }
    }

    /// Changes what the next picture may ask for.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        if bounds != self.bounds {
            self.handle = None;
            self.bounds = bounds;
        }
    }

    fn handle(&mut self) -> Result<&mut Handle> {
        if self.handle.is_none() {
            let mut handle = Handle::new(sys::TJINIT_TJINIT_DECOMPRESS)?;
            handle.bound(self.bounds)?;
            self.handle = Some(handle);
        }
        self.handle.as_mut().ok_or_else(|| Error::usage("JPEG decoder", "one", "none"))
    }

    /// Reads the header.
    ///
    /// # Errors
    /// `Format` if there is none, `Limit` if it asks for too many pixels.
    pub(crate) fn frame(&mut self, jpeg: &[u8]) -> Result<Frame> {
        let bounds = self.bounds;
        let frame = self.handle()?.frame(jpeg).inspect_err(|_| self.handle = None)?;
        check_pixels(&frame, bounds)?;
        Ok(frame)
    }

    /// Decodes `jpeg` at `scale` into `out`, rows of `pitch` bytes. Returns the frame at full size.
    ///
    /// # Errors
    /// `Format` if it does not decode, and, under [`Warnings::Refuse`], if libjpeg warns; `Limit` if it asks for too much; `Usage` if `out` is too small.
    pub(crate) fn decode(
        &mut self,
        jpeg: &[u8],
        scale: Scale,
        format: PixelFormat,
        out: &mut [u8],
        pitch: usize,
    ) -> Result<Frame> {
        self.decode_region(jpeg, scale, None, format, out, pitch)
    }

    /// Decodes `region` of the scaled picture, or all of it. Entropy-coded data above it and beside it are read, below it they are not; pixels are
    /// made of the region alone. Its left edge must be one of an MCU. libjpeg interpolates chroma within the region: where that
    /// matters, it must be a pixel larger on each side than what is used of it.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); `Format` too if libjpeg cannot decode such a region.
    pub(crate) fn decode_region(
        &mut self,
        jpeg: &[u8],
        scale: Scale,
        region: Option<Rect>,
        format: PixelFormat,
        out: &mut [u8],
        pitch: usize,
    ) -> Result<Frame> {
        let frame = self.frame(jpeg)?;
        let whole = Rect::whole(scale.of(frame.width), scale.of(frame.height));
        let region = region.unwrap_or(whole);
        region.check(whole.width, whole.height)?;
        let (width, height) = (region.width as usize, region.height as usize);
        let row = width * format.bytes();
        let needed = pitch.checked_mul(height - 1).and_then(|n| n.checked_add(row));
        let pitch = match needed {
            Some(needed) if row <= pitch && needed <= out.len() => pitch,
            _ => {
                let found = format!("{} bytes in rows of {pitch}", out.len());
                return Err(Error::usage(
                    "pixels of a JPEG",
                    format!("room for {width} × {height} pixels of {} bytes", format.bytes()),
                    found,
                ));
            }
        };
        let pitch = c_int::try_from(pitch).map_err(|_| Error::usage("row of pixels", "below 2³¹ bytes", pitch))?;
        let warnings = self.warnings;
        let handle = self.handle()?;
        let factor = sys::tjscalingfactor { num: 1, denom: scale.denominator().cast_signed() };
        // SAFETY: the instance is alive.
        let status = unsafe { sys::tj3SetScalingFactor(handle.0.as_ptr(), factor) };
        let mut result = handle.outcome(status);
        if result.is_ok() {
            // All zero is the library's word for the whole picture; a region stays set until the next.
            let [x, y, w, h] = if region == whole { [0; 4] } else { [region.x, region.y, region.width, region.height] };
            let [x, y, w, h] = [x, y, w, h].map(u32::cast_signed);
            // SAFETY: the instance is alive; the library compares the region with the scaled picture whose header was read last, this one.
            let status = unsafe { sys::tj3SetCroppingRegion(handle.0.as_ptr(), sys::tjregion { x, y, w, h }) };
            result = handle.outcome(status);
        }
        if result.is_ok() {
            // SAFETY: `jpeg` is a live slice that the library only reads. It writes rows of `row` bytes, `pitch` apart: `height` of them, those of the
            // region (or it fails, if it cannot decode just that), which lies in the picture and whose rows fit in `out` as compared above
            // with the header of these same bytes, which nobody can change while they are borrowed.
            let status = unsafe {
                sys::tj3Decompress8(
                    handle.0.as_ptr(),
                    jpeg.as_ptr(),
                    jpeg.len() as _,
                    out.as_mut_ptr(),
                    pitch,
                    format.number(),
                )
            };
            result = handle.outcome(status);
        }
        match result {
            Ok(()) => Ok(frame),
            Err(failure) => {
                self.handle = None;
                match failure {
                    Failure::Warning(_) if warnings == Warnings::Accept => Ok(frame),
                    Failure::Warning(text) | Failure::Fatal(text) => Err(damaged(text)),
                }
            }
        }
    }
}

/// A buffer that the library allocated.
struct Output {
    bytes: *mut u8,
    len: sys::size_t,
}

impl Output {
    const fn none() -> Self {
        Self { bytes: ptr::null_mut(), len: 0 }
    }

    /// Appends what the library wrote.
    fn append_to(&self, out: &mut Vec<u8>) {
        if !self.bytes.is_null() {
            // What lies in memory has a length that fits.
            let len = usize::try_from(self.len).unwrap_or_default();
            // SAFETY: after a call that succeeded, the library has written `len` bytes at `bytes`, which it allocated and nobody else holds.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(self.bytes, len) });
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: null, or allocated by the library and not freed yet.
        unsafe { sys::tj3Free(self.bytes.cast()) }
    }
}

/// What a transcoder makes of a picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transcoding {
    /// Rotation or reflection; must be possible without a partial block, else an error.
    pub(crate) operation: Operation,
    /// MCUs between restart markers; 0 = none.
    pub(crate) restart_interval: u16,
    /// Whether to copy metadata segments (APPn, COM); what colours need is always written.
    pub(crate) keep_metadata: bool,
}

/// Rewrites pictures on their DCT coefficients: baseline, one scan, optimised Huffman tables. For one thread.
pub(crate) struct Transcoder {
    handle: Option<Handle>,
    bounds: Bounds,
}

impl Transcoder {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { handle: None, bounds }
    }

    /// Changes what the next picture may ask for.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        if bounds != self.bounds {
            self.handle = None;
            self.bounds = bounds;
        }
    }

    fn handle(&mut self) -> Result<&mut Handle> {
        if self.handle.is_none() {
            let mut handle = Handle::new(sys::TJINIT_TJINIT_TRANSFORM)?;
            // A rotation holds the coefficients twice.
            let max_memory_mib = self.bounds.max_memory_mib.saturating_mul(2);
            handle.bound(Bounds { max_memory_mib, ..self.bounds })?;
            self.handle = Some(handle);
        }
        self.handle.as_mut().ok_or_else(|| Error::usage("JPEG transcoder", "one", "none"))
    }

    /// Appends the transcoded picture to `out`.
    ///
    /// # Errors
    /// `Format` if `jpeg` is damaged (warnings included) or the operation is not possible without loss; `Limit` if it asks for too much.
    pub(crate) fn transcode(&mut self, jpeg: &[u8], how: Transcoding, out: &mut Vec<u8>) -> Result<()> {
        self.try_transcode(jpeg, how, out).inspect_err(|_| self.handle = None)
    }

    fn try_transcode(&mut self, jpeg: &[u8], how: Transcoding, out: &mut Vec<u8>) -> Result<()> {
        let bounds = self.bounds;
        let handle = self.handle()?;
        check_pixels(&handle.frame(jpeg)?, bounds)?;
        // Reading the header has set the instance to the source's own process, which the output would follow.
        handle.set(sys::TJPARAM_TJPARAM_PROGRESSIVE, 0)?;
        handle.set(sys::TJPARAM_TJPARAM_ARITHMETIC, 0)?;
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
        // SAFETY: the instance is alive, `jpeg` is a live slice that the library only reads; there is one transform, one pointer and one length,
        // all of them live; the pointer is null, so that the library allocates.
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
            Ok(()) => {
                output.append_to(out);
                Ok(())
            }
            Err(Failure::Warning(text) | Failure::Fatal(text)) => Err(damaged(text)),
        }
    }
}

/// What an encoder makes of pixels: always baseline, one scan, optimised Huffman tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    /// libjpeg's quality, 1..=100.
    pub(crate) quality: u8,
    pub(crate) subsampling: Subsampling,
    /// MCUs between restart markers; 0 = none.
    pub(crate) restart_interval: u16,
}

/// Processes and colour spaces that only tests write.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Process {
    Progressive,
    Arithmetic,
    Lossless,
    Rgb,
    Cmyk,
}

/// An encoder for one thread.
pub(crate) struct Compressor {
    handle: Handle,
}

impl Compressor {
    pub(crate) fn new() -> Result<Self> {
        let mut handle = Handle::new(sys::TJINIT_TJINIT_COMPRESS)?;
        handle.set(sys::TJPARAM_TJPARAM_OPTIMIZE, 1)?;
        Ok(Self { handle })
    }

    /// Writes from now on what [`Encoding`] does not offer: sources for tests.
    #[cfg(test)]
    pub(crate) fn write(&mut self, process: Process) -> Result<()> {
        let (parameter, value) = match process {
            Process::Progressive => (sys::TJPARAM_TJPARAM_PROGRESSIVE, 1),
            Process::Arithmetic => (sys::TJPARAM_TJPARAM_ARITHMETIC, 1),
            Process::Lossless => (sys::TJPARAM_TJPARAM_LOSSLESS, 1),
            Process::Rgb => (sys::TJPARAM_TJPARAM_COLORSPACE, sys::TJCS_TJCS_RGB),
            Process::Cmyk => (sys::TJPARAM_TJPARAM_COLORSPACE, sys::TJCS_TJCS_CMYK),
        };
        self.handle.set(parameter, value)
    }

    /// Appends `pixels`, tightly packed rows of `width` pixels, to `out` as a JPEG.
    ///
    /// # Errors
    /// `Usage` if the number of bytes does not fit the dimensions, or the encoder refuses them.
    pub(crate) fn encode(
        &mut self,
        pixels: &[u8],
        (width, height): (u32, u32),
        format: PixelFormat,
        how: Encoding,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let refused = |found: String| {
            Error::usage("pixels for a JPEG", format!("{width} × {height} of {} bytes", format.bytes()), found)
        };
        let expected = (width as usize).checked_mul(height as usize).and_then(|n| n.checked_mul(format.bytes()));
        if expected != Some(pixels.len()) || pixels.is_empty() {
            return Err(refused(format!("{} bytes", pixels.len())));
        }
        let (Ok(width), Ok(height)) = (c_int::try_from(width), c_int::try_from(height)) else {
            return Err(refused("sides of 2³¹".into()));
        };
        self.handle.set(sys::TJPARAM_TJPARAM_QUALITY, how.quality)?;
        self.handle.set(sys::TJPARAM_TJPARAM_SUBSAMP, how.subsampling as c_int)?;
        self.handle.set(sys::TJPARAM_TJPARAM_RESTARTBLOCKS, how.restart_interval)?;
        let mut output = Output::none();
        // SAFETY: the instance is alive; `pixels` holds exactly `height` rows of `width` pixels as compared above (pitch 0 = tightly packed), which the
        // library only reads; pointer and length are live, the pointer null, so that the library allocates.
        let status = unsafe {
            sys::tj3Compress8(
                self.handle.0.as_ptr(),
                pixels.as_ptr(),
                width,
                0,
                height,
                format.number(),
                &raw mut output.bytes,
                &raw mut output.len,
            )
        };
        match self.handle.outcome(status) {
            Ok(()) => {
                output.append_to(out);
                Ok(())
            }
            Err(Failure::Warning(text) | Failure::Fatal(text)) => Err(refused(text)),
        }
    }
}
