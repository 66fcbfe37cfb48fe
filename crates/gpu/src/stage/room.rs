//! Reserves staging memory for a large array, which several threads read directly into it.

use super::staging::Staging;
use crate::driver::{Block, Loan, LoanPart};
use shardpack_array::ZstdDecoder;
use shardpack_loader::stage::{Prepared, RecordValue, Spot, StagedPart, StagedParts, StagedRoom};
use std::fmt;
use std::sync::Arc;

pub(super) trait Filled: Send + Sync + fmt::Debug + 'static {
    type Memory: Block + fmt::Debug + 'static;

    fn fill(&self) -> &Staging<Self::Memory>;
}

/// Implements [`StageSlot::room_for`](shardpack_loader::stage::StageSlot::room_for).
pub(super) fn room_for<S: Filled>(slot: Arc<S>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
    let (loan, parts) = slot.fill().lend(spot, bytes, step)?;
    let parts = parts.into_iter().map(|part| Box::new(part) as Box<dyn StagedPart>).collect();
    Some(StagedParts { room: Box::new(ArrayRoom { loan, spot: spot.clone(), slot }), parts })
}

#[derive(Debug)]
struct ArrayRoom<S: Filled> {
    loan: Loan<S::Memory>,
    spot: Spot,
    slot: Arc<S>,
}

impl<S: Filled> StagedRoom for ArrayRoom<S> {
    fn bytes(&self) -> Option<&[u8]> {
        self.loan.bytes()
    }

    fn prepare(&self, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        self.slot.fill().prepare_there(&self.spot, value, &self.loan, zstd)
    }
}

impl<M: Block + fmt::Debug> StagedPart for LoanPart<M> {
    fn bytes(&mut self) -> &mut [u8] {
        Self::bytes(self)
    }
}
