use super::*;
use crate::PictureCheck;
use crate::sources::{encode, plain};
use crate::turbo::Process;
use crate::{Encoding, PixelFormat, Subsampling};
use proptest::prelude::*;
use shardpack_format::Limits;

const ALL: [Subsampling; 5] =
    [Subsampling::S444, Subsampling::S422, Subsampling::S420, Subsampling::S440, Subsampling::S411];

fn jpeg(size: (u32, u32), subsampling: Subsampling, interval: u16, process: Option<Process>) -> Vec<u8> {
    encode(size, PixelFormat::Rgb, Encoding { restart_interval: interval, ..plain(subsampling) }, process)
}

fn scan_of(jpeg: &[u8]) -> usize {
    usize::try_from(JpegHeader::parse(jpeg).unwrap().scan_offset).unwrap()
}

fn restarts(jpeg: &[u8]) -> Vec<usize> {
    let scan = scan_of(jpeg);
    (scan..jpeg.len() - 1).filter(|&at| jpeg[at] == 0xFF && matches!(jpeg[at + 1], 0xD0..=0xD7)).collect()
}

#[test]
fn whole_pictures_pass() {
    let sizes = [((90, 70), 0), ((90, 70), 1), ((33, 17), 2), ((8, 8), 5), ((91, 71), 3)];
    for subsampling in ALL {
        for process in [None, Some(Process::Progressive), Some(Process::Arithmetic)] {
            for (size, interval) in sizes {
                let jpeg = jpeg(size, subsampling, interval, process);
                assert_eq!(check_markers(&jpeg), Ok(()), "{subsampling:?} {process:?} {size:?} {interval}");
            }
        }
    }
    let rare = [
        (PixelFormat::Rgb, Process::Rgb),
        (PixelFormat::Rgb, Process::Lossless),
        (PixelFormat::Cmyk, Process::Cmyk),
        (PixelFormat::Gray, Process::Progressive),
    ];
    for (format, process) in rare {
        let subsampling = if format == PixelFormat::Gray { Subsampling::Gray } else { Subsampling::S444 };
        for (size, interval) in sizes {
            // An MCU of a lossless picture is a pixel, and its segments must consist of whole rows.
            let row = if matches!(process, Process::Lossless) { u16::try_from(size.0).unwrap() } else { 1 };
            let restart_interval = interval * row;
            let jpeg = encode(size, format, Encoding { restart_interval, ..plain(subsampling) }, Some(process));
            assert_eq!(check_markers(&jpeg), Ok(()), "{process:?} {size:?} {restart_interval}");
        }
    }
}

#[test]
fn damage_is_named() {
    let jpeg = jpeg((90, 70), Subsampling::S420, 2, None);
    let all = restarts(&jpeg);
    assert!(all.len() > 8, "{all:?}");
    let says = |jpeg: &[u8], what: &str| {
        let error = check_markers(jpeg).unwrap_err().to_string();
        assert!(error.contains(what), "{error}, expected {what}");
    };
    let third = all[2];
    says(&jpeg[..third], "no end-of-image marker (FF D9)");
    says(&[&jpeg[..third], b"\xFF\xD9"].concat(), "(from the headers), found 2");
    says(&[&jpeg[..third], &jpeg[third + 2..]].concat(), "expected RST2, found RST3");
    says(&[&jpeg[..third], &jpeg[all[3]..]].concat(), "expected RST2, found RST3");
    let end = jpeg.len() - 2;
    says(&jpeg[..end], "no end-of-image marker (FF D9)");
    says(&[&jpeg[..end], b"\xFF\xD7abc\xFF\xD9"].concat(), "3 stray bytes between two segments");
    says(&[&jpeg[..end], b"\xFF\xC0\0\x04ab\xFF\xD9"].concat(), "found FF C0");
    says(&[&jpeg[..2], b"x", &jpeg[2..]].concat(), "JPEG");
    // Bytes after the end of the image are ignored, and so is an extra marker just before the end.
    assert_eq!(check_markers(&[&jpeg[..], b"\xFF\xD0\xFF"].concat()), Ok(()));
    assert_eq!(check_markers(&[&jpeg[..end], b"\xFF\xD0\xFF\xD9"].concat()), Ok(()));
}

#[test]
fn markers_where_there_should_be_none() {
    let jpeg = jpeg((90, 70), Subsampling::S420, 0, None);
    let scan = scan_of(&jpeg);
    let at = scan + (jpeg.len() - scan) / 2;
    assert!(check_markers(&[&jpeg[..at], b"\xFF\xD0", &jpeg[at..]].concat()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Checks that there are no false alarms: in every picture that fails this check, libjpeg-turbo must report
    /// damage too. Pictures with only zeros before their end are an exception. So are arithmetic-coded pictures whose
    /// last segment is missing: libjpeg-turbo reports this, but not always if the segment before it is damaged.
    #[test]
    fn pictures_that_fail_do_not_decode(
        size in (1..90_u32, 1..70_u32),
        subsampling in prop::sample::select(ALL.to_vec()),
        interval in 0..5_u16,
        process in prop::sample::select(vec![None, Some(Process::Progressive), Some(Process::Arithmetic)]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..6_u8), 1..3),
    ) {
        let is_arithmetic = matches!(process, Some(Process::Arithmetic));
        let mut jpeg = jpeg(size, subsampling, interval, process);
        let scan = scan_of(&jpeg);
        for (at, byte, change) in changes {
            let at = scan + at.index(jpeg.len() - scan);
            match change {
                0 => jpeg.truncate(at + 1),
                1 => jpeg.insert(at, byte),
                2 if jpeg.len() > scan + 1 => drop(jpeg.remove(at)),
                3 => drop(jpeg.splice(at..at, [0xFF, byte])),
                4 => drop(jpeg.splice(at.., [0xFF, 0xD9])),
                _ => jpeg[at] = byte,
            }
        }
        let decodes = PictureCheck::new().check("image/jpeg", &jpeg, &Limits::default());
        if let (Err(error), Ok(_)) = (check_markers(&jpeg), decodes) {
            let text = error.to_string();
            let is_known = text.contains("stray bytes") || is_arithmetic && text.contains("number of JPEG restart markers");
            prop_assert!(is_known, "{error}");
        }
    }
}
