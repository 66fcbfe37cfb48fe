//! What the schedule asks for, and what it knows of the objects.

use super::opening::Opening;
use super::pin::Pin;
use super::transfer::Transfer;
use std::sync::Arc;

/// How far an object is.
#[derive(Debug)]
pub(crate) enum ObjectStatus {
    /// Announced, and not asked for.
    Queued(Arc<Opening>),
    Opening(Arc<Opening>),
    Open(Arc<Pin>),
}

/// A request to be made now.
#[derive(Debug)]
pub(crate) enum Request {
    Transfer(Arc<Pin>, Arc<Transfer>),
    Open(String, Arc<Opening>),
}

impl Request {
    /// Requests that it takes.
    pub(crate) const fn requests(&self) -> usize {
        match self {
            Self::Transfer(..) => 1,
            Self::Open(..) => 2,
        }
    }
}
