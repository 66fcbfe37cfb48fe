//! The thread that waits for batches on the device and passes them to the loader.

use crate::driver::GpuError;
use shardpack_loader::stage::{RowFault, StageFailure, Ticket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::{mem, process};

/// A batch that has been submitted to the stream of its slot. This is a trait because a slot holds a sender of
/// [`Message`], so this file cannot use the type of the slot.
pub(super) trait Submitted: Send + Sync {
    /// Waits until the batch is decoded, and returns the rows that failed.
    fn finish(&self) -> Result<Vec<RowFault>, GpuError>;
}

pub(super) enum Message {
    Submitted(Arc<dyn Submitted>, Ticket),
    /// There are no more batches. Closing the channel cannot signal this, because slots hold senders, and a consumer
    /// may keep a batch and its slot after the loader has been dropped.
    End,
}

#[derive(Debug)]
pub(super) struct Completions {
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
    /// Process that started the thread. The thread does not exist in a fork.
    pid: u32,
}

impl Completions {
    pub(super) fn start() -> Result<Self, GpuError> {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new().name("shardpack-cuda".to_owned()).spawn(move || run(&receiver));
        let thread = thread.map_err(|error| GpuError::Driver {
            call: "cannot start the thread that waits for the device",
            name: error.kind().to_string(),
            text: error.to_string(),
        })?;
        Ok(Self { sender, thread: Some(thread), pid: process::id() })
    }

    pub(super) fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }
}

fn run(receiver: &Receiver<Message>) {
    while let Ok(Message::Submitted(slot, ticket)) = receiver.recv() {
        let result = slot.finish().map_err(|error| StageFailure::Device(error.to_string().into()));
        // Drop the slot before the loader looks for a free slot.
        drop(slot);
        ticket.done(result);
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if process::id() != self.pid {
            return mem::forget(thread);
        }
        _ = self.sender.send(Message::End);
        // This may run in the thread itself, because the last batch may have kept the loader, and with it the stage,
        // alive. A thread cannot join itself.
        if thread.thread().id() != thread::current().id() {
            _ = thread.join();
        }
    }
}
