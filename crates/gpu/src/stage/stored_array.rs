//! Prepares stored arrays for the kernels, wherever their bytes are.

use crate::cubes::{AfterDecoding, KeptPayload, PreparedArray};
use crate::driver::{Block, Loan};
use shardpack_format::Error;
use shardpack_loader::stage::{ArrayValue, Spot};
use std::borrow::Cow;

pub(super) type Refusal = Cow<'static, str>;

pub(super) enum ValueBytes<'a, M> {
    /// The bytes are in the record.
    Here,
    /// The bytes are in a loan of the staging memory.
    There(&'a Loan<M>),
    /// The bytes are on the device, as a kept value.
    Kept(KeptValue<'a>),
}

#[derive(Clone, Copy)]
pub(super) struct KeptValue<'a> {
    pub(super) number: u64,
    pub(super) tables: &'a [u8],
}

/// Prepares an array for the kernels. Also returns the offset of its bytes if they are in the staging memory.
pub(super) fn prepared<'a, M: Block>(
    array: ArrayValue<'a>,
    steps: impl Into<AfterDecoding<'a>>,
    stored: &ValueBytes<'a, M>,
) -> Result<(PreparedArray<'a>, Option<usize>), Refusal> {
    let at = match stored {
        ValueBytes::Kept(kept) => {
            let needs = PreparedArray::of_kept(kept.tables, KeptPayload::Device(0), array, steps);
            return Ok((needs.map_err(refusal)?, None));
        }
        // Places are relative to the start of the loan, so the loan must contain exactly the bytes of the value.
        ValueBytes::There(loan) if !loan.bytes().is_some_and(|there| std::ptr::eq(there, array.bytes)) => {
            return Err("value is not in the staging memory reserved for it".into());
        }
        ValueBytes::There(loan) => Some(loan.at()),
        ValueBytes::Here => None,
    };
    Ok((PreparedArray::of(array, steps).map_err(refusal)?, at))
}

/// Fails unless the values exactly fill the row.
pub(super) fn check_fits(needs: &PreparedArray<'_>, spot: &Spot) -> Result<(), Refusal> {
    match needs.out_bytes() == spot.bytes.len() as u64 {
        true => Ok(()),
        false => Err("value has another size than its row in the batch".into()),
    }
}

/// Converts an error to a refusal. If the array is damaged, the host will return the exact error.
pub(super) fn refusal(error: Error) -> Refusal {
    match error {
        Error::Limit { .. } => "array exceeds a limit, or the device's maximum size".into(),
        Error::Usage { .. } => "requested region or conversion is not possible for this array".into(),
        _ => "array is damaged, or the device does not support its codec".into(),
    }
}
