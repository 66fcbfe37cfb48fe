//! Returns the values of a field as slices and arrays of their element type.

use super::{Batch, Tensor};
use bytemuck::checked::try_cast_slice;
use ndarray::{ArrayView, Dimension, IxDyn};
use shardpack_format::{Dtype, ElementType, to_usize};
use shardpack_reader::{Error, Result};

/// A Rust type for the elements of a batch, such as `f32` or `u8`.
pub trait Element: bytemuck::CheckedBitPattern + sealed::Sealed {
    /// Element type in the dataset.
    const TYPE: ElementType;
}

mod sealed {
    /// Prevents other crates from implementing [`Element`](super::Element).
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty: $element:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const TYPE: ElementType = $element;
            }
        )*
    };
}

elements! {
    bool: ElementType::Dtype(Dtype::Bool);
    u8: ElementType::Dtype(Dtype::U8);
    i8: ElementType::Dtype(Dtype::I8);
    u16: ElementType::Dtype(Dtype::U16);
    i16: ElementType::Dtype(Dtype::I16);
    u32: ElementType::Dtype(Dtype::U32);
    i32: ElementType::Dtype(Dtype::I32);
    u64: ElementType::Dtype(Dtype::U64);
    i64: ElementType::Dtype(Dtype::I64);
    half::f16: ElementType::Dtype(Dtype::F16);
    half::bf16: ElementType::Bf16;
    f32: ElementType::Dtype(Dtype::F32);
    f64: ElementType::Dtype(Dtype::F64);
}

impl Batch {
    /// Returns the values of a field, row after row. All rows must have the same shape.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, LoaderOptions};
    /// # let dataset = Dataset::open("train")?;
    /// # let mut loader = LoaderOptions::default().of(&dataset).open()?;
    /// # let batch = loader.next_batch().unwrap()?;
    /// let labels: &[i64] = batch.slice("label")?;
    /// assert_eq!(labels.len(), batch.len());
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Usage`, with a description of the field, if the batch has no such field, its element type is not `T`,
    /// its rows differ in shape, or it is on a device.
    pub fn slice<T: Element>(&self, field: &str) -> Result<&[T]> {
        self.known(field)?.slice()
    }

    /// Returns the values of a field as an array of shape `[samples, …]`.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, LoaderOptions};
    /// # let dataset = Dataset::open("train")?;
    /// # let mut loader = LoaderOptions::default().of(&dataset).open()?;
    /// # let batch = loader.next_batch().unwrap()?;
    /// let images: ndarray::ArrayView4<u8> = batch.array("image")?;
    /// assert_eq!(images.shape(), [256, 224, 224, 3]);
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Batch::slice`], and `Usage` if the field does not have as many axes as `D`.
    pub fn array<T: Element, D: Dimension>(&self, field: &str) -> Result<ArrayView<'_, T, D>> {
        self.known(field)?.array()
    }

    fn known(&self, name: &str) -> Result<Tensor<'_>> {
        self.field(name).ok_or_else(|| {
            let names: Vec<_> = self.names().map(|name| format!("`{}`", name.escape_debug())).collect();
            Error::usage(format!(
                "there is no field `{}`: the fields of the batch are {}",
                name.escape_debug(),
                names.join(", ")
            ))
        })
    }
}

impl<'a> Tensor<'a> {
    /// Returns the values of all rows. See [`Batch::slice`].
    ///
    /// # Errors
    /// Same as [`Batch::slice`].
    pub fn slice<T: Element>(&self) -> Result<&'a [T]> {
        if self.shape().is_none() {
            let error = Error::usage(format!("the {} differ in shape", self.titled("rows")));
            return Err(error.with_hint("choose a view with a fixed size, or read row by row with `Tensor::row_array`"));
        }
        self.cast(self.bytes())
    }

    /// Returns the values of all rows as an array of shape `[samples, …]`. See [`Batch::array`].
    ///
    /// # Errors
    /// Same as [`Batch::array`].
    pub fn array<T: Element, D: Dimension>(&self) -> Result<ArrayView<'a, T, D>> {
        let values = self.slice()?;
        self.shaped(values, &self.shape().unwrap_or_default())
    }

    /// Returns the values of row `i`, even if other rows differ in shape. The array is empty if the row has no value.
    ///
    /// # Errors
    /// Same as [`Batch::array`], and `Usage` if row `i` does not exist.
    pub fn row_array<T: Element, D: Dimension>(&self, i: usize) -> Result<ArrayView<'a, T, D>> {
        let row = self.row(i).zip(self.row_shape(i));
        let (bytes, shape) = row.ok_or_else(|| {
            let name = self.name().escape_debug();
            Error::usage(format!("there is no row {i}: field `{name}` has {} rows", self.rows()))
        })?;
        self.shaped(self.cast(bytes)?, shape)
    }

    fn titled(&self, what: &str) -> String {
        format!("{what} of field `{}`", self.name().escape_debug())
    }

    fn cast<T: Element>(&self, bytes: &'a [u8]) -> Result<&'a [T]> {
        if self.dtype() != T::TYPE {
            return Err(Error::usage(format!(
                "field `{}` has elements of type {}, not {}",
                self.name().escape_debug(),
                self.dtype(),
                T::TYPE
            )));
        }
        if self.on_device().is_some() && bytes.is_empty() {
            let error = Error::usage(format!("the {} are in device memory", self.titled("rows")));
            return Err(error.with_hint("copy the values with `Tensor::to_host`"));
        }
        try_cast_slice(bytes)
            .map_err(|error| Error::usage(format!("cannot read the {} as {}: {error}", self.titled("values"), T::TYPE)))
    }

    fn shaped<T, D: Dimension>(&self, values: &'a [T], shape: &[u64]) -> Result<ArrayView<'a, T, D>> {
        let axes: Vec<usize> = shape.iter().map(|&axis| to_usize(axis)).collect();
        let view = ArrayView::from_shape(IxDyn(&axes), values).map_err(|error| {
            Error::usage(format!("cannot arrange the {} in the shape {shape:?}: {error}", self.titled("values")))
        })?;
        view.into_dimensionality().map_err(|_| {
            Error::usage(format!(
                "field `{}` has the shape {shape:?}, but an array with {} axes was requested",
                self.name().escape_debug(),
                D::NDIM.map_or_else(|| "any number of".into(), |n| n.to_string())
            ))
        })
    }
}
