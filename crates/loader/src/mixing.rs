//! Mixup and CutMix: a batch is mixed when it is handed out, by the caller's thread or on the device.

use super::batch::Lent;
use super::fields::{FieldPlan, From, Size};
use super::options::LoaderOptions;
use super::rows::Rows;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use shardpack_augment::{Mix, Mixed};
use shardpack_base::vectorised;
use shardpack_format::{Dtype, ElementType};
use shardpack_jpeg::PixelLayout;
use shardpack_reader::{Error, Result};
use std::ops::Range;

/// Field whose classes become soft labels.
const LABEL: &str = "label";

/// How pictures and labels of a batch are mixed. The field `label` comes as float32
/// `[rows, classes]`: the weight of each class. Rows that hold no sample are left out.
///
/// The draws are those of the first sample of the batch in this epoch: so they depend on no thread,
/// and a resumed loader of the same batch size and number of ranks goes on with them.
///
/// ```
/// use shardpack_loader::{BatchMix, LoaderOptions};
/// let choices = vec!["mixup(alpha=0.2)".parse()?, "cutmix".parse()?];
/// let options = LoaderOptions { mix: Some(BatchMix { choices, classes: 1000 }), ..Default::default() };
/// assert!(options.mix.is_some());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BatchMix {
    /// One of these for each batch, all equally likely.
    pub choices: Vec<Mix>,
    /// Number of classes: labels are below it.
    pub classes: u32,
}

/// Makes room for soft labels in place of numbers of classes.
///
/// # Errors
/// `Usage` if there are no labels, no pictures of one size, or something that would not be mixed.
pub(super) fn plan(plans: &mut [FieldPlan], options: &LoaderOptions) -> Result<()> {
    let Some(mix) = &options.mix else { return Ok(()) };
    mix.choices.iter().try_for_each(Mix::check)?;
    let refuse = |expected: &str, found: String| Err(Error::usage("mixed batches", expected, found));
    let leave_out = |error: Error| error.with_hint("leave it out of the fields");
    if mix.choices.is_empty() || mix.classes == 0 {
        let found = format!("{} of {} classes", mix.choices.len(), mix.classes);
        return refuse("a way to mix, and at least one class", found);
    }
    let is_dense = |plan: &FieldPlan| matches!(plan.size, Size::Dense { .. });
    if let Some((name, _)) = options.align.first() {
        let found = format!("`{}`, which would follow one of two", name.escape_debug());
        return refuse("pictures that no other field follows", found).map_err(leave_out);
    }
    if !plans.iter().any(|plan| matches!(plan.from, From::Picture { clip: None, .. }) && is_dense(plan)) {
        return refuse("decoded pictures of one size", "none".into())
            .map_err(|error| error.with_hint("choose a view such as `rrc224`"));
    }
    let is_other = |plan: &&FieldPlan| {
        let is_picture = matches!(plan.from, From::Picture { clip: None, .. });
        let is_number = matches!(plan.from, From::Scalar(_) | From::OneHot { .. });
        !(is_picture || is_number) || !is_dense(plan)
    };
    if let Some(other) = plans.iter().find(is_other) {
        let found = format!("`{}`, which is neither", other.name.escape_debug());
        return refuse("pictures of one size, and scalars", found).map_err(leave_out);
    }
    for plan in plans {
        let From::Scalar(column) = plan.from else { continue };
        let is_integer = matches!(plan.dtype, ElementType::Dtype(dtype) if !dtype.is_float());
        if plan.name != LABEL || !is_integer {
            continue;
        }
        plan.from = From::OneHot { column, classes: mix.classes };
        plan.dtype = Dtype::F32.into();
        plan.shape = vec![mix.classes.into()];
        plan.size = Size::Dense { bytes: mix.classes as usize * 4 };
        return Ok(());
    }
    refuse("a field `label` of integers among the fields", "none".into())
}

/// Mixes a batch that nobody has seen yet, where it is.
///
/// # Errors
/// `Internal` if somebody still uses its memory; `Io` if the device does not mix it.
pub(super) fn mix(choices: &[Mix], layout: PixelLayout, lent: &mut Lent) -> Result<()> {
    let plan = &lent.plan;
    let rows = plan.indices.len();
    let is_whole = |row: &usize| {
        let missing = |&(at, _): &(u32, u32)| usize::try_from(at) == Ok(*row);
        plan.mask.get(*row) == Some(&true) && !plan.missing.iter().any(missing)
    };
    let whole: Vec<usize> = (0..rows).filter(is_whole).collect();
    let first = whole.first().and_then(|&row| Some((*plan.indices.get(row)?, plan.rows.get(row)?)));
    let (Some((sample, row)), true) = (first, whole.len() > 1) else { return Ok(()) };
    let draws = lent.draw_key(sample, row).draws();
    let Lent { slot: Some(slot), plan, fields, .. } = lent else { return Ok(()) };
    for (number, field) in fields.plans.iter().enumerate() {
        let mixed = |height: u64, width: u64| {
            let side = |side: u64| usize::try_from(side).unwrap_or(0);
            Mix::resolve(choices, &draws, side(height), side(width))
        };
        let picture = fields.plans.iter().find(|plan| matches!(plan.from, From::Picture { .. }));
        let shape = match (&field.from, picture) {
            (From::Picture { .. }, _) => &field.shape,
            // A label follows the first picture: rectangles of others are rounded otherwise.
            (From::OneHot { .. }, Some(picture)) => &picture.shape,
            _ => continue,
        };
        let &[a, b, c] = &**shape else { continue };
        let [height, width] = if layout == PixelLayout::HeightWidthChannels { [a, b] } else { [b, c] };
        let Some(mixed) = mixed(height, width) else { continue };
        let how = match field.from {
            From::Picture { .. } => mixed,
            _ => Mixed::Sum { share: mixed.share() },
        };
        let parts = plan.parts.get(number * rows..(number + 1) * rows).unwrap_or_default();
        let parts: Vec<_> = whole.iter().filter_map(|&row| parts.get(row).cloned()).collect();
        let columns = usize::try_from(width).unwrap_or(0);
        let mix = RowMix { how, dtype: field.dtype, layout, columns };
        match slot.stage() {
            Some(stage) => stage
                .mix(&parts, &mix)
                .map_err(|error| Error::io(format!("batch {}", plan.number), "mix it on the device", error))?,
            None => Rows::bytes_mut(slot)
                .map(|memory| mix.apply(&parts, memory))
                .ok_or_else(|| Error::internal("memory of a batch", "nobody else's", "in use"))?,
        }
    }
    Ok(())
}

/// How the rows of a field of a batch are mixed, and how their elements lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowMix {
    /// What each row takes of the one before it.
    pub how: Mixed,
    /// Type of the elements.
    pub dtype: ElementType,
    /// Order of the axes of a picture.
    pub layout: PixelLayout,
    /// Columns of a picture.
    pub columns: usize,
}

impl RowMix {
    /// Weights of a row and of the one before it in a sum. An element is `own × share + other × rest`
    /// in float32, every operation rounded by itself, and then rounded to its type, to nearest; a
    /// level by adding one half and cutting off.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest")]
    pub const fn shares(share: f64) -> [f32; 2] {
        [share as f32, (1.0 - share) as f32]
    }

    /// Mixes rows of `memory`, all of one length, ascending. Each is mixed with the one before it as it
    /// was, the first with the last.
    pub fn apply(&self, rows: &[Range<usize>], memory: &mut [u8]) {
        let Some(last) = rows.last().and_then(|row| memory.get(row.clone())) else { return };
        // From the last to the first.
        let last = last.to_vec();
        for (n, row) in rows.iter().enumerate().rev() {
            let both = memory.get_mut(..row.end).and_then(|all| all.split_at_mut_checked(row.start));
            let Some((before, own)) = both else { continue };
            let other = match n.checked_sub(1).and_then(|n| rows.get(n)) {
                Some(other) => before.get(other.clone()).unwrap_or_default(),
                None => &*last,
            };
            self.mix(own, other);
        }
    }

    fn mix(&self, own: &mut [u8], other: &[u8]) {
        let (origin, size) = match self.how {
            Mixed::Sum { share } => return self.sum(share, own, other),
            Mixed::Rectangle { origin, size, .. } => (origin, size),
        };
        let element = usize::try_from(self.dtype.bytes()).unwrap_or(1);
        let ([top, left], [rows, columns]) = (origin, size);
        let (pixel, planes) = match self.layout {
            PixelLayout::HeightWidthChannels => (3 * element, 1),
            PixelLayout::ChannelsHeightWidth => (element, 3),
        };
        let (stride, plane) = ((pixel * self.columns).max(1), (own.len() / planes).max(1));
        for (own, other) in own.chunks_exact_mut(plane).zip(other.chunks_exact(plane)) {
            let lines = own.chunks_exact_mut(stride).zip(other.chunks_exact(stride)).skip(top).take(rows);
            for (own, other) in lines {
                let range = pixel * left..pixel * (left + columns);
                if let (Some(own), Some(other)) = (own.get_mut(range.clone()), other.get(range)) {
                    own.copy_from_slice(other);
                }
            }
        }
    }

    /// Each element rounded once, to nearest.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two levels")]
    fn sum(&self, share: f64, own: &mut [u8], other: &[u8]) {
        let [share, rest] = Self::shares(share);
        match self.dtype {
            ElementType::Bf16 => each(own, other, |a, b| {
                let [a, b] = [a, b].map(|x| bf16::from_le_bytes(x).to_f32());
                bf16::from_f32(a * share + b * rest).to_le_bytes()
            }),
            ElementType::Dtype(Dtype::F16) => halves(own, other, |a, b| a * share + b * rest),
            ElementType::Dtype(Dtype::F32) => {
                each(own, other, |a, b| (f32::from_le_bytes(a) * share + f32::from_le_bytes(b) * rest).to_le_bytes())
            }
            ElementType::Dtype(_) => {
                each(own, other, |[a], [b]| [(f32::from(a) * share + f32::from(b) * rest + 0.5) as u8]);
            }
        }
    }
}

fn each<const N: usize>(own: &mut [u8], other: &[u8], mixed: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    vectorised(
        #[inline(always)]
        || {
            let (own, other) = (own.as_chunks_mut().0, other.as_chunks().0);
            own.iter_mut().zip(other).for_each(|(own, other)| *own = mixed(*own, *other));
        },
    );
}

/// The same of float16, many at a time: processors convert them so.
fn halves(own: &mut [u8], other: &[u8], mixed: impl Fn(f32, f32) -> f32) {
    const AT_A_TIME: usize = 256;
    let load = |bytes: &[u8], to: &mut [f32]| {
        let mut elements = [f16::ZERO; AT_A_TIME];
        elements.iter_mut().zip(bytes.as_chunks().0).for_each(|(to, x)| *to = f16::from_le_bytes(*x));
        if let Some(elements) = elements.get(..to.len()) {
            elements.convert_to_f32_slice(to);
        }
    };
    let (mut a, mut b, mut out) = ([0.0; AT_A_TIME], [0.0; AT_A_TIME], [f16::ZERO; AT_A_TIME]);
    for (own, other) in own.chunks_mut(2 * AT_A_TIME).zip(other.chunks(2 * AT_A_TIME)) {
        let count = own.len() / 2;
        let (Some(a), Some(b), Some(out)) = (a.get_mut(..count), b.get_mut(..count), out.get_mut(..count)) else {
            return;
        };
        load(own, a);
        load(other, b);
        a.iter_mut().zip(&*b).for_each(|(a, &b)| *a = mixed(*a, b));
        out.convert_from_f32_slice(a);
        own.as_chunks_mut().0.iter_mut().zip(&*out).for_each(|(to, x)| *to = x.to_le_bytes());
    }
}
