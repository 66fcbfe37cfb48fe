//! Renders several crops of one picture, which is decoded only once.

use super::{DrawKey, Placement, Rect, Rendering, View};
use shardpack_format::Result;

/// Several crops of a picture. Each crop has its own view and its own random numbers.
///
/// ```
/// use shardpack_jpeg::{Crops, DrawKey, Rendering, View};
/// let views = [View::random_resized_crop(224), View::random_resized_crop(96)];
/// let crops = Crops { views: &views, key: DrawKey { seed: 1, epoch: 0, sample: 9 } };
/// let [large, small] = [0, 1].map(|number| crops.rendering(number, &Rendering::default()).unwrap());
/// assert_eq!((large.view, small.view), (views[0], views[1]));
/// assert_ne!(large.key, small.key);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Crops<'a> {
    /// Views of the crops, in order.
    pub views: &'a [View],
    /// Key of the sample. Crop n uses [`DrawKey::of_crop`] with n.
    pub key: DrawKey,
}

impl Crops<'_> {
    /// Returns the rendering of one crop: `how` with the crop's own view and draws. Returns `None` if there is no crop
    /// with this number.
    #[must_use]
    pub fn rendering(&self, number: u32, how: &Rendering) -> Option<Rendering> {
        let view = *self.views.get(usize::try_from(number).ok()?)?;
        Some(Rendering { view, key: self.key.of_crop(number), ..*how })
    }

    /// Computes the source pixels of each crop, for a picture with `width` × `height` stored pixels.
    pub fn placements(&self, how: &Rendering, width: u32, height: u32) -> impl Iterator<Item = Result<Placement>> {
        let all = (0..).map_while(|number| self.rendering(number, how));
        all.map(move |how| Placement::new(&how, width, height))
    }

    /// Returns the smallest rectangle of stored pixels that contains all crops. Returns `None` if it has more
    /// pixels than all crops together, because then decoding each crop separately is less work.
    ///
    /// # Errors
    /// Same as [`Placement::new`].
    pub fn shared_window(&self, how: &Rendering, width: u32, height: u32) -> Result<Option<Rect>> {
        let mut windows = Vec::with_capacity(self.views.len());
        for place in self.placements(how, width, height) {
            windows.push(place?.window);
        }
        let area = |rect: &Rect| u64::from(rect.width) * u64::from(rect.height);
        let each = windows.iter().map(area).sum::<u64>();
        let all = windows.into_iter().reduce(|a, b| {
            let (x, y) = (a.x.min(b.x), a.y.min(b.y));
            Rect { x, y, width: a.right().max(b.right()) - x, height: a.bottom().max(b.bottom()) - y }
        });
        Ok(all.filter(|all| area(all) <= each))
    }
}
