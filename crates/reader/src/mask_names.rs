//! Names of fields and folders that suggest masks. Masks contain class indexes, which must not be interpolated.

const MASKS: &[&str] = &[
    "mask",
    "masks",
    "annotation",
    "annotations",
    "ground truth",
    "groundtruth",
    "label map",
    "label maps",
    "labelmap",
    "labelmaps",
    "seg",
    "segs",
    "segmap",
    "segmaps",
    "segmask",
    "segmasks",
    "segmentation",
    "segmentations",
];

/// Names that suggest masks only if the field or folder has no other words. For example, `label_text`, `bottle_label`
/// and `semantic_features` are not masks.
const ALONE: &[&str] = &["label", "labels", "semantic"];

/// Folder names that suggest masks. A field with such a name may contain photos: `gt` is also the target of
/// super-resolution.
const FOLDERS: &[&str] = &["gt"];

const MOST_WORDS: usize = 2;

/// Returns true if the field name suggests masks, such as `mask`, `mask_2`, `cloud.masks` or `label_map`.
#[must_use]
pub fn is_mask(field: &str) -> bool {
    let words = words(field);
    let has = |count| words.windows(count).any(|run| MASKS.contains(&run.join(" ").as_str()));
    (1..=MOST_WORDS).any(has) || ALONE.contains(&words.join(" ").as_str())
}

/// Returns true if `name` suggests masks and contains no other word. Folders may have class names such as `with_mask`,
/// so other words are not accepted.
#[must_use]
pub fn is_whole(name: &str) -> bool {
    let name = words(name).join(" ");
    [MASKS, ALONE, FOLDERS].into_iter().any(|names| names.contains(&name.as_str()))
}

fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_ascii_alphabetic());
    words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_mask, is_whole};

    #[test]
    fn masks_are_recognised_by_their_names() {
        let whole = [
            "mask",
            "Masks",
            "mask_2",
            "mask2",
            "label_map",
            "label",
            "Labels",
            "segmentation",
            "ground-truth",
            "seg",
            "seg_2",
            "SegMask",
            "semantic",
        ];
        for name in whole {
            assert!(is_mask(name) && is_whole(name), "{name}");
        }
        for name in ["cloud.mask", "left.label_map", "with mask", "semantic_seg", "left_segmask"] {
            assert!(is_mask(name) && !is_whole(name), "{name}");
        }
        assert!(is_whole("gt") && !is_mask("gt") && !is_mask("gt_fine"));
        for name in [
            "image",
            "masked",
            "unmask",
            "damask",
            "",
            "label_text",
            "bottle label",
            "map",
            "truth",
            "ground",
            "segment",
            "semantic_features",
        ] {
            assert!(!is_mask(name) && !is_whole(name), "{name}");
        }
    }
}
