//! Maps each pixel of a picture's view to a pixel of the picture's mask.

use shardpack_augment::PixelMap;

/// Maps each pixel of a view to its source in a mask. Nothing is interpolated: each pixel gets one element of the
/// mask, or a fixed value where the view shows nothing of the picture.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MaskView {
    /// Row of the mask's region that each row of the view shows, or `None` if that row is part of the border.
    pub rows: Vec<Option<u32>>,
    /// Column of the mask's region that each column of the view shows, or `None` if that column is part of the
    /// border.
    pub columns: Vec<Option<u32>>,
    /// Maps that move the pixels of the view, in the order of application. All maps have the view's size.
    pub moves: Vec<MaskMove>,
    /// Value of the border, as the little-endian bits of an element.
    pub border: u64,
}

/// A map that moves the pixels of a view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskMove {
    /// Source of each pixel of the view.
    pub map: PixelMap,
    /// Value of pixels whose source is outside the view, as the little-endian bits of an element.
    pub outside: u64,
}

/// Value of one pixel of a view: a pixel of the mask, or a fixed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewElement {
    /// The pixel of the mask's region in this row and column.
    Pixel([u32; 2]),
    /// A fixed value, as the little-endian bits of an element.
    Fixed(u64),
}

impl MaskView {
    /// Returns the element that the view shows in this row and column.
    ///
    /// ```
    /// use shardpack_augment::Affine;
    /// use shardpack_loader::stage::{MaskMove, MaskView, ViewElement};
    /// // The view has a border at its left, and is moved to the right by one pixel.
    /// let map = Affine { translate: [1.0, 0.0], ..Affine::default() }.of_size(1, 3);
    /// let view = MaskView {
    ///     rows: vec![Some(0)],
    ///     columns: vec![None, Some(4), Some(5)],
    ///     moves: vec![MaskMove { map, outside: 7 }],
    ///     border: 255,
    /// };
    /// let shown = [0, 1, 2].map(|column| view.shown([0, column]));
    /// assert_eq!(shown, [ViewElement::Fixed(7), ViewElement::Fixed(255), ViewElement::Pixel([0, 4])]);
    /// ```
    #[must_use]
    pub fn shown(&self, mut at: [u32; 2]) -> ViewElement {
        for MaskMove { map, outside } in self.moves.iter().rev() {
            let Some(source) = map.source(at) else { return ViewElement::Fixed(*outside) };
            at = source;
        }
        let [row, column] = at.map(|number| number as usize);
        let row = self.rows.get(row).copied().flatten();
        let column = self.columns.get(column).copied().flatten();
        row.zip(column).map_or(ViewElement::Fixed(self.border), |(row, column)| ViewElement::Pixel([row, column]))
    }
}
