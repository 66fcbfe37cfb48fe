//! The picture formats, with their names, media types and file extensions.

/// A picture format that can be packed and decoded.
///
/// ```
/// use shardpack_jpeg::PictureFormat;
/// assert_eq!(PictureFormat::of_media_type("image/webp"), Some(PictureFormat::WebP));
/// assert_eq!(PictureFormat::WebP.name(), "WebP");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureFormat {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// WebP.
    WebP,
    /// Windows bitmap.
    Bmp,
    /// TIFF or BigTIFF.
    Tiff,
}

impl PictureFormat {
    /// All formats, in the order of their detection.
    pub const ALL: [Self; 5] = [Self::Jpeg, Self::Png, Self::WebP, Self::Bmp, Self::Tiff];

    /// Returns the name, the media type, and the usual extensions in lower case.
    const fn facts(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::Jpeg => ("JPEG", "image/jpeg", &["jpg", "jpeg"]),
            Self::Png => ("PNG", "image/png", &["png"]),
            Self::WebP => ("WebP", "image/webp", &["webp"]),
            Self::Bmp => ("BMP", "image/bmp", &["bmp"]),
            Self::Tiff => ("TIFF", "image/tiff", &["tif", "tiff"]),
        }
    }

    /// Returns the name for messages, such as `WebP`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// Returns the media type, such as `image/webp`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        self.facts().1
    }

    /// Returns the usual extensions in lower case, such as `webp`.
    #[must_use]
    pub const fn extensions(self) -> &'static [&'static str] {
        self.facts().2
    }

    /// Returns the format of a media type.
    #[must_use]
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.media_type() == media_type)
    }
}
