//! The requests that the schedule creates, and the possible states of an object in the schedule.

use super::opening::Opening;
use super::pin::Pin;
use super::transfer::Transfer;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum ObjectStatus {
    Queued(Arc<Opening>),
    Opening(Arc<Opening>),
    Open(Arc<Pin>),
}

#[derive(Debug)]
pub(crate) enum Request {
    Transfer(Arc<Pin>, Arc<Transfer>),
    Open(String, Arc<Opening>),
}

impl Request {
    pub(crate) const fn requests(&self) -> usize {
        match self {
            Self::Transfer(..) => 1,
            Self::Open(..) => 2,
        }
    }
}
