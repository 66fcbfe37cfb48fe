//! Option to load several crops of each picture.

use shardpack_augment::Augmentation;
use shardpack_jpeg::View;

/// One of several crops of each picture. Each crop is a separate field.
///
/// ```
/// use shardpack_loader::{LoaderOptions, PictureCrop, View};
/// // Two views of each picture, as for contrastive learning.
/// let crop = PictureCrop::from(View::random_resized_crop(96).with_flip(0.5));
/// let options = LoaderOptions::default().crops([crop.clone(), crop.named("positive")]);
/// assert_eq!(options.view.crops.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PictureCrop {
    /// Part of the picture that the crop shows, and the size of the crop.
    pub view: View,
    /// Augmentations of this crop alone, applied after the shared ones
    /// ([`augment_pictures`](super::LoaderOptions::augment_pictures)).
    pub augment: Vec<Augmentation>,
    /// Name of the field. Default: the name of the picture field and the number of the crop, such as `image_0`.
    pub name: Option<String>,
}

impl PictureCrop {
    /// Sets the name of the field.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Sets the augmentations of this crop alone.
    #[must_use]
    pub fn augmented(self, augment: impl IntoIterator<Item = Augmentation>) -> Self {
        Self { augment: augment.into_iter().collect(), ..self }
    }
}

impl From<View> for PictureCrop {
    fn from(view: View) -> Self {
        Self { view, augment: Vec::new(), name: None }
    }
}
