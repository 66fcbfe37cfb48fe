//! Erasing: fills a rectangle with one colour.

use super::picture::Picture;

pub(crate) fn erase(picture: &mut Picture<'_>, [top, left]: [usize; 2], [height, width]: [usize; 2], value: [u8; 3]) {
    let stride = picture.stride();
    for row in picture.levels().chunks_exact_mut(stride).skip(top).take(height) {
        row.as_chunks_mut().0.iter_mut().skip(left).take(width).for_each(|pixel| *pixel = value);
    }
}
