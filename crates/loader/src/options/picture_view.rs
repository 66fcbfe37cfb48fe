//! Parses picture views such as `rrc224`, `center224x160,short=256` and `rrc96,scale=0.2..1,flip=0`. The command and
//! the Python package accept the same strings.

use super::ImageMode;
use super::parse::number;
use shardpack_jpeg::{Framing, IouCrop, Rescaled, ShortestSide, View};
use shardpack_reader::{Error, Result};
use std::str::FromStr;

/// Largest side of a view in pixels, which is the JPEG limit.
const SIDE_MAX: u32 = 65_535;
/// Default side to which pictures are resized for evaluation, relative to the crop: 8/7, for example 256 for 224.
const CENTER: (u32, u32) = (8, 7);
/// Default probability that a random crop is mirrored, as usual in training.
const FLIP: f64 = 0.5;

/// Parses the name of a view, followed by its size if it has one (N × N, or H rows and W columns). Settings
/// that differ from the defaults may follow, separated by commas:
///
/// - `full`: the whole picture at its own size
/// - `raw`: the encoded bytes
/// - `rrcN`, `rrcHxW`: a random part, resized. `scale=LOW..HIGH` is the share of the picture's area, by
///   default 0.08..1; `ratio=LOW..HIGH` is width divided by height, by default 3/4 to 4/3
/// - `centerN`, `centerHxW`: the centre of the picture after its shorter side is resized to `short=S`, by
///   default 8/7 of the larger side of the crop
/// - `resizeN`, `resizeHxW`: the whole picture, stretched to this size regardless of its proportions
/// - `padN`, `padHxW`: the whole picture in its own proportions, as large as fits, centred on a background of
///   one colour. `fill=RED:GREEN:BLUE` sets the colour, or one level for all three, by default 114
/// - `jitterN`, `jitterHxW`: the picture at a random multiple of the size that just fits, `scale=LOW..HIGH`, by default
///   0.1..2, cropped at random where it is larger, with a border like that of `pad` where it is smaller
/// - `randcropN`, `randcropHxW`: a random crop after the shorter side was resized to `short=LOW..HIGH` pixels, or
///   `short=S`, with a border like that of `pad` around smaller pictures
/// - `shortLOW..HIGH`, `shortS`: the whole picture in its own proportions. Its shorter side gets a random length from
///   LOW to HIGH, in steps of `step=PIXELS`, by default 1. Its longer side is at most `max=PIXELS`, by default 65535
/// - `ioucropN`, `ioucropHxW`: a random part, chosen by its overlap with the boxes that are aligned with the picture,
///   resized. `scale=LOW..HIGH` is the range of its width and height as fractions of the picture's, by default 0.3..1,
///   and `ratio=LOW..HIGH` is width divided by height, by default 0.5..2. With `zoom=LOW..HIGH`, half of the pictures
///   are first placed on a canvas of LOW to HIGH times their height and width, whose colour is `fill`
///
/// `flip=P` mirrors with probability P, by default 0 for `full`, `center`, `resize` and `pad` and 0.5 for all others.
/// All views that resize accept `interpolation=nearest`, `bilinear` (the default) or `bicubic`.
///
/// ```
/// use shardpack_loader::{ImageMode, View};
/// let mode: ImageMode = "center224".parse()?;
/// assert_eq!(mode, ImageMode::View(View::center_crop(256, 224)));
/// let mode: ImageMode = "rrc96x128,flip=0".parse()?;
/// assert_eq!(mode, ImageMode::View(View::random_resized_crop((96, 128))));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
impl FromStr for ImageMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let mut given = GivenOptions { text, options: parts.collect() };
        if name == "raw" && given.options.is_empty() {
            return Ok(Self::Raw);
        }
        // Take the longest name that fits, because a name may begin with another one.
        let named = NAMED_VIEWS.iter().filter(|view| name.starts_with(view.name)).max_by_key(|view| view.name.len());
        let named = named.ok_or_else(|| given.fail(NAMES))?;
        let framing = (named.framing)(&name[named.name.len()..], &mut given)?;
        let mut view = View { framing, ..View::whole() };
        if let Framing::Pad { fill, .. }
        | Framing::Rescaled { fill, .. }
        | Framing::IouCrop { crop: IouCrop { zoom_out: Some(_), .. }, fill, .. } = &mut view.framing
        {
            let expected = "fill=RED:GREEN:BLUE, each from 0 to 255, such as fill=114:114:114";
            *fill = given.take("fill", color, expected)?.unwrap_or(*fill);
        }
        if framing != Framing::Whole {
            let expected = "`interpolation` to be nearest, bilinear or bicubic";
            let interpolation = given.take("interpolation", |text| text.parse().ok(), expected)?;
            view.interpolation = interpolation.unwrap_or(view.interpolation);
        }
        let flip = given.take("flip", |text| text.parse().ok(), "flip=PROBABILITY, such as flip=0.5")?;
        given.finish()?;
        let view = view.with_flip(flip.unwrap_or(named.flip));
        view.check()?;
        Ok(Self::View(view))
    }
}

/// A view that can be called by a name.
struct NamedView {
    /// Beginning of the text. A size follows, except for `full`.
    name: &'static str,
    /// Default probability that the picture is mirrored.
    flip: f64,
    /// Parses the text after the name, and takes the options of this view.
    framing: fn(&str, &mut GivenOptions<'_>) -> Result<Framing>,
}

const NAMED_VIEWS: [NamedView; 9] = [
    NamedView { name: "full", flip: 0.0, framing: full },
    NamedView { name: "rrc", flip: FLIP, framing: random_resized_crop },
    NamedView { name: "center", flip: 0.0, framing: center },
    NamedView { name: "resize", flip: 0.0, framing: resize },
    NamedView { name: "pad", flip: 0.0, framing: pad },
    NamedView { name: "jitter", flip: FLIP, framing: jitter },
    NamedView { name: "randcrop", flip: FLIP, framing: random_crop },
    NamedView { name: "ioucrop", flip: FLIP, framing: iou_crop },
    NamedView { name: "short", flip: FLIP, framing: shortest },
];

const NAMES: &str = "full, raw, shortN, or rrcN, centerN, resizeN, padN, jitterN, randcropN or ioucropN with N or HxW, \
                     each from 1 to 65535, such as rrc224 or center224x160";

fn full(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    if size.is_empty() { Ok(Framing::Whole) } else { Err(given.fail(NAMES)) }
}

fn random_resized_crop(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    let size = given.size(size)?.into();
    let scale = given.take("scale", range, "scale=LOW..HIGH, such as scale=0.25..1")?.unwrap_or(Framing::SCALE);
    let ratio = given.take("ratio", range, "ratio=LOW..HIGH, such as ratio=0.75..1.3333")?.unwrap_or(Framing::RATIO);
    Ok(Framing::RandomResizedCrop { size, scale, ratio })
}

fn center(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    let size @ (height, width) = given.size(size)?;
    let short_side = given.take("short", side, "short=PIXELS, such as short=256")?;
    let short_side = short_side.unwrap_or_else(|| (height.max(width) * CENTER.0).div_ceil(CENTER.1));
    Ok(View::center_crop(short_side, size).framing)
}

fn resize(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    Ok(View::resize(given.size(size)?).framing)
}

fn pad(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    Ok(View::pad(given.size(size)?).framing)
}

fn jitter(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    let mut framing = View::scale_jitter(given.size(size)?).framing;
    let scale = given.take("scale", range, "scale=LOW..HIGH, such as scale=0.1..2")?;
    if let (Framing::Rescaled { rescaled, .. }, Some(scale)) = (&mut framing, scale) {
        *rescaled = Rescaled::Fit { scale };
    }
    Ok(framing)
}

fn random_crop(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    let expected = "short=LOW..HIGH in pixels, such as short=260..1040";
    let size = given.size(size)?;
    let short_side = given.take("short", sides, expected)?.ok_or_else(|| given.fail(expected))?;
    Ok(View::random_crop(size, short_side).framing)
}

fn iou_crop(size: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    let mut framing = View::iou_crop(given.size(size)?).framing;
    if let Framing::IouCrop { crop, .. } = &mut framing {
        crop.scale = given.take("scale", range, "scale=LOW..HIGH, such as scale=0.5..1")?.unwrap_or(crop.scale);
        crop.ratio = given.take("ratio", range, "ratio=LOW..HIGH, such as ratio=0.5..1")?.unwrap_or(crop.ratio);
        crop.zoom_out = given.take("zoom", range, "zoom=LOW..HIGH, such as zoom=1..4")?;
    }
    Ok(framing)
}

fn shortest(lengths: &str, given: &mut GivenOptions<'_>) -> Result<Framing> {
    let expected = "the shorter side in pixels, such as short600 or short480..800";
    let range = sides(lengths).ok_or_else(|| given.fail(expected))?;
    let step = given.take("step", side, "step=PIXELS, as in step=32,max=1333")?.unwrap_or(1);
    let longest = given.take("max", side, "max=PIXELS, as in step=32,max=1333")?.unwrap_or(SIDE_MAX);
    Ok(Framing::Shortest(ShortestSide { range, step, longest }))
}

/// The options of a view that have not been taken yet, such as `scale=0.2..1`.
struct GivenOptions<'a> {
    /// The whole text, for messages.
    text: &'a str,
    options: Vec<&'a str>,
}

impl GivenOptions<'_> {
    fn fail(&self, expected: &str) -> Error {
        Error::usage(format!("invalid picture view `{}`: expected {expected}", self.text))
    }

    fn size(&self, text: &str) -> Result<(u32, u32)> {
        size_of(text).ok_or_else(|| self.fail(NAMES))
    }

    /// Takes the option `name` and parses its value. Returns `None` if the option is not given.
    fn take<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>, expected: &str) -> Result<Option<T>> {
        let value = |option: &&str| option.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        let Some(at) = self.options.iter().position(value) else { return Ok(None) };
        let option = self.options.remove(at);
        parse(&option[name.len() + 1..]).map(Some).ok_or_else(|| self.fail(expected))
    }

    /// Fails if an option is left.
    fn finish(&self) -> Result<()> {
        let Some(unknown) = self.options.first() else { return Ok(()) };
        Err(Error::usage(format!(
            "invalid picture view `{}`: the option `{unknown}` is repeated or does not apply to this view; the options \
             are flip=PROBABILITY (all views), interpolation=NAME (all but full), scale=LOW..HIGH (rrc, jitter, \
             ioucrop), ratio=LOW..HIGH (rrc, ioucrop), short=PIXELS (center), short=LOW..HIGH (randcrop), step=PIXELS \
             and max=PIXELS (short), zoom=LOW..HIGH (ioucrop), fill=RED:GREEN:BLUE (pad, jitter, randcrop, ioucrop with \
             zoom)",
            self.text
        )))
    }
}

fn size_of(text: &str) -> Option<(u32, u32)> {
    match text.split_once('x') {
        Some((height, width)) => side(height).zip(side(width)),
        None => side(text).map(|side| (side, side)),
    }
}

fn side(digits: &str) -> Option<u32> {
    number(digits).filter(|side| (1..=SIDE_MAX).contains(side))
}

/// Parses a range of lengths, or one length for both ends.
fn sides(text: &str) -> Option<(u32, u32)> {
    match text.split_once("..") {
        Some((low, high)) => side(low).zip(side(high)),
        None => side(text).map(|side| (side, side)),
    }
}

fn color(text: &str) -> Option<[u8; 3]> {
    let level = |digits| number(digits).and_then(|level| u8::try_from(level).ok());
    match *text.split(':').map(level).collect::<Option<Vec<_>>>()? {
        [one] => Some([one; 3]),
        [red, green, blue] => Some([red, green, blue]),
        _ => None,
    }
}

fn range(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once("..")?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_jpeg::Interpolation;

    fn view(text: &str) -> View {
        match text.parse::<ImageMode>() {
            Ok(ImageMode::View(view)) => view,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn views_are_called_by_their_names() {
        assert_eq!(view("full"), View::whole());
        assert_eq!("raw".parse::<ImageMode>().unwrap(), ImageMode::Raw);
        assert_eq!(view("rrc176"), View::random_resized_crop(176).with_flip(0.5));
        assert_eq!(view("center224"), View::center_crop(256, 224));
        assert_eq!(view("center1"), View::center_crop(2, 1));
        assert!(view("center65535").check().is_ok());
        assert_eq!(view("resize32x64"), View::resize((32, 64)));
        assert_eq!(view("pad640"), View::pad(640));
        assert_eq!(view("pad480x640"), View::pad((480, 640)));
        assert_eq!(view("jitter640"), View::scale_jitter(640).with_flip(0.5));
        assert_eq!(view("randcrop480x400,short=260"), View::random_crop((480, 400), (260, 260)).with_flip(0.5));
        assert_eq!(view("ioucrop300"), View::iou_crop(300).with_flip(0.5));
        let short = ShortestSide { range: (800, 800), step: 1, longest: 65_535 };
        assert_eq!(view("short800"), View::shortest(short).with_flip(0.5));
    }

    #[test]
    fn what_differs_from_the_defaults_follows() {
        let given = view("rrc224x160,ratio=1..1,scale=0.25..0.5,flip=0.1");
        let framing = Framing::RandomResizedCrop { size: (224, 160).into(), scale: (0.25, 0.5), ratio: (1.0, 1.0) };
        assert_eq!(given, View { framing, ..View::whole() }.with_flip(0.1));
        assert_eq!(view("center224x160"), View::center_crop(256, (224, 160)));
        assert_eq!(view("center224,short=224,flip=1"), View::center_crop(224, 224).with_flip(1.0));
        assert_eq!(view("full,flip=0.5"), View::whole().with_flip(0.5));
        let framing = |fill| Framing::Pad { size: (8, 9).into(), fill };
        assert_eq!(
            view("pad8x9,flip=0.5,fill=1:20:255"),
            View { framing: framing([1, 20, 255]), flip: 0.5, ..View::whole() }
        );
        for name in ["rrc8", "center8", "resize8x9", "pad8"] {
            for (given, expected) in [
                ("nearest", Interpolation::Nearest),
                ("bilinear", Interpolation::Bilinear),
                ("bicubic", Interpolation::Bicubic),
            ] {
                assert_eq!(view(&format!("{name},interpolation={given}")), view(name).with_interpolation(expected));
            }
        }
        assert_eq!(view("pad8x9,fill=0").framing, framing([0; 3]));
        let framing = |rescaled, fill| Framing::Rescaled { size: (8, 9).into(), rescaled, fill };
        let rescaled = Rescaled::Fit { scale: (0.5, 1.5) };
        assert_eq!(view("jitter8x9,fill=7,scale=0.5..1.5").framing, framing(rescaled, [7; 3]));
        let rescaled = Rescaled::ShortSide { range: (260, 1040) };
        let interpolated = view("randcrop8x9,short=260..1040,flip=0,interpolation=bicubic");
        assert_eq!(
            interpolated,
            View { framing: framing(rescaled, [114; 3]), ..View::whole() }.with_interpolation(Interpolation::Bicubic)
        );
        assert_eq!(view("resize8,flip=1e-3"), View::resize(8).with_flip(0.001));
        let short = ShortestSide { range: (480, 800), step: 32, longest: 1333 };
        assert_eq!(view("short480..800,max=1333,step=32,flip=0"), View::shortest(short));
        let crop = IouCrop { scale: (0.5, 1.0), ratio: (1.0, 1.0), zoom_out: Some((1.0, 4.0)) };
        let framing = Framing::IouCrop { size: (8, 9).into(), crop, fill: [1, 2, 3] };
        let given = view("ioucrop8x9,zoom=1..4,scale=0.5..1,ratio=1..1,fill=1:2:3,flip=0,interpolation=nearest");
        assert_eq!(given, View { framing, ..View::whole() }.with_interpolation(Interpolation::Nearest));
    }

    #[test]
    fn unknown_views_are_refused_by_name() {
        for (bad, said) in [
            ("", "such as rrc224"),
            ("rrc", "such as rrc224"),
            ("rrc0", "such as rrc224"),
            ("rrc-224", "such as rrc224"),
            ("rrc+224", "such as rrc224"),
            ("rrc65536", "such as rrc224"),
            ("rrc8x", "such as rrc224"),
            ("rrc8x8x8", "such as rrc224"),
            ("center", "such as rrc224"),
            ("center2.5", "such as rrc224"),
            ("Full", "such as rrc224"),
            ("crop224", "such as rrc224"),
            ("raw,flip=1", "such as rrc224"),
            ("rrc8,", "is repeated or does not apply"),
            ("rrc8,flip=0,flip=1", "is repeated or does not apply"),
            ("rrc8, flip=0", "is repeated or does not apply"),
            ("center8,scale=0.1..1", "is repeated or does not apply"),
            ("rrc8,short=9", "is repeated or does not apply"),
            ("rrc8,scale=0.5", "scale=LOW..HIGH"),
            ("rrc8,ratio=a..b", "ratio=LOW..HIGH"),
            ("center8,short=x", "short=PIXELS"),
            ("pad", "such as rrc224"),
            ("pad8,scale=0.1..1", "is repeated or does not apply"),
            ("resize8,fill=0", "is repeated or does not apply"),
            ("jitter8,short=9", "is repeated or does not apply"),
            ("jitter8,scale=2", "scale=LOW..HIGH"),
            ("randcrop8", "short=LOW..HIGH"),
            ("randcrop8,short=0..9", "short=LOW..HIGH"),
            ("short", "short480..800"),
            ("short0", "short480..800"),
            ("short8x8", "short480..800"),
            ("short8,step=0", "step=32,max=1333"),
            ("short8,max=x", "step=32,max=1333"),
            ("short8,scale=0.5..1", "is repeated or does not apply"),
            ("ioucrop", "such as rrc224"),
            ("ioucrop8,scale=1", "scale=0.5..1"),
            ("ioucrop8,zoom=4", "zoom=1..4"),
            ("ioucrop8,fill=0", "is repeated or does not apply"),
            ("pad8,fill=256", "fill=RED:GREEN:BLUE"),
            ("pad8,fill=1:2", "fill=RED:GREEN:BLUE"),
            ("pad8,fill=", "fill=RED:GREEN:BLUE"),
            ("pad8,interpolation=lanczos", "`interpolation` to be nearest, bilinear or bicubic"),
            ("full,interpolation=nearest", "is repeated or does not apply"),
            ("rrc8,flip=half", "flip=PROBABILITY"),
        ] {
            let error = bad.parse::<ImageMode>().unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(&format!("`{bad}`")), "{error}");
        }
        for (bad, said) in [
            ("rrc8,flip=1.5", "probability of a flip"),
            ("rrc8,scale=0.5..0.2", "scale of a random crop"),
            ("rrc8,scale=0.5..NaN", "scale of a random crop"),
            ("rrc8,ratio=0..1", "ratio of a random crop"),
            ("center8,short=4", "centre crop"),
            ("jitter8,scale=0..1", "scale of a jittered view"),
            ("randcrop8,short=9..8", "shorter side for a random crop"),
            ("short9..8", "lengths of a shorter side"),
            ("ioucrop8,scale=0.5..2", "scale of an IoU crop"),
            ("ioucrop8,zoom=0.5..2", "zoom of an IoU crop"),
        ] {
            let error = bad.parse::<ImageMode>().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
