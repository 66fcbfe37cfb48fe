//! Distributes the positions of an epoch to ranks. All batches are known in advance.
//!
//! All ranks together take consecutive *global batches* of `world_size × batch_size` positions. The positions
//! of a global batch depend only on its start and size. So if the world size or the batch size changes, the
//! rest of the epoch is exactly the part that has not been consumed yet.

use super::positions::{Dealing, Own, Positions};
use super::state::OrderState;
use shardpack_reader::{Error, Result};

/// A rank, the number of ranks, and the batch size.
///
/// ```
/// use shardpack_loader::order::World;
/// assert_eq!(World::new(3, 8, 32)?.global_batch(), 256);
/// assert_eq!(World::new(8, 8, 32).unwrap_err().to_string(), "the rank must be below the world size (8), but is 8");
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    rank: u64,
    world_size: u64,
    batch_size: u64,
}

impl World {
    /// Returns rank `rank` of `world_size`. Each rank takes `batch_size` samples at a time.
    ///
    /// # Errors
    /// `Usage` if the rank is not below the world size, or the batch size is 0.
    pub fn new(rank: u32, world_size: u32, batch_size: u32) -> Result<Self> {
        if rank >= world_size {
            return Err(Error::usage(format!("the rank must be below the world size ({world_size}), but is {rank}")));
        }
        if batch_size == 0 {
            return Err(Error::usage(format!("the batch size must be at least 1, but is {batch_size}")));
        }
        Ok(Self { rank: rank.into(), world_size: world_size.into(), batch_size: batch_size.into() })
    }

    /// Returns the number of samples that all ranks together take at a time.
    #[must_use]
    pub const fn global_batch(&self) -> u64 {
        self.world_size * self.batch_size
    }

    /// Returns the number of ranks.
    #[must_use]
    pub const fn world_size(&self) -> u64 {
        self.world_size
    }

    /// Returns the number of rows in a whole batch.
    #[must_use]
    pub const fn batch_size(&self) -> u64 {
        self.batch_size
    }
}

/// Policy for the samples at the end of an epoch that do not fill a global batch.
///
/// ```
/// assert_eq!(shardpack_loader::order::End::default(), shardpack_loader::order::End::Drop);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum End {
    /// The samples are left out. Every rank gets the same number of whole batches.
    #[default]
    Drop,
    /// The last batch is padded. Every rank gets the same number of batches of the same size. Rows past the
    /// last sample are padding, and their mask is false.
    Pad,
    /// The samples are delivered as they are. Batches may be short, and some ranks may get one batch fewer.
    Uneven,
}

/// One rank's share of the rest of an epoch. All numbers are exact before the first batch, and ranks need not
/// communicate.
///
/// ```
/// use shardpack_loader::order::{End, Order, Runs, Sampling, Share, OrderState, World};
/// let order = Order::new(Runs::new(1000, 38), 42);
/// let state = OrderState::start(&order);
/// let share = |end| Share::new(World::new(1, 8, 32).unwrap(), end, &*Sampling::epoch(&order, 0), &state);
/// assert_eq!((share(End::Drop).batches(), share(End::Drop).samples()), (3, 96));
/// assert_eq!((share(End::Pad).batches(), share(End::Pad).samples()), (4, 125));
/// assert_eq!((share(End::Pad).rows(3), share(End::Pad).filled(3)), (32, 29));
/// assert_eq!((share(End::Uneven).rows(3), share(End::Uneven).filled(3)), (29, 29));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    world: World,
    end: End,
    dealing: Dealing,
    positions: u64,
    /// First position of the share: the first one that has not been consumed.
    start: u64,
}

impl Share {
    /// Returns a rank's share of the part of `epoch` after `state`.
    #[must_use]
    pub fn new(world: World, end: End, epoch: &dyn Positions, state: &OrderState) -> Self {
        let positions = epoch.len();
        Self { world, end, dealing: epoch.dealing(), positions, start: state.samples_consumed.min(positions) }
    }

    /// Returns the number of positions in the epoch, over all ranks.
    #[must_use]
    pub const fn positions(&self) -> u64 {
        self.positions
    }

    /// Returns this rank's number of batches, which is the `len()` of a loader.
    #[must_use]
    pub fn batches(&self) -> u64 {
        match self.end {
            End::Drop => self.whole_steps(),
            End::Pad => self.steps(),
            End::Uneven => self.whole_steps() + u64::from(self.tail_filled() > 0),
        }
    }

    /// Returns the rank's share of the whole epoch.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self { start: 0, ..self.clone() }
    }

    /// Returns the largest number of batches that any rank gets. With [`End::Uneven`], ranks count these steps and
    /// therefore agree on [`Share::consumed_after`].
    #[must_use]
    pub const fn steps(&self) -> u64 {
        match self.end {
            End::Drop => self.whole_steps(),
            End::Pad | End::Uneven => self.remaining().div_ceil(self.world.global_batch()),
        }
    }

    /// Returns this rank's number of samples, without padding.
    #[must_use]
    pub fn samples(&self) -> u64 {
        let tail = if matches!(self.end, End::Drop) { 0 } else { self.tail_filled() };
        self.whole_steps() * self.world.batch_size + tail
    }

    /// Returns the number of rows in batch `batch`, including padding, or 0 past the last batch.
    #[must_use]
    pub fn rows(&self, batch: u64) -> u64 {
        match self.end {
            End::Pad if batch < self.batches() => self.world.batch_size,
            _ => self.filled(batch),
        }
    }

    /// Returns the number of rows in batch `batch` that hold a sample. These rows come first. The others are padding,
    /// which only [`End::Pad`] adds.
    #[must_use]
    pub fn filled(&self, batch: u64) -> u64 {
        let whole = self.whole_steps();
        match self.end {
            _ if batch < whole => self.world.batch_size,
            End::Pad | End::Uneven if batch == whole => self.tail_filled(),
            _ => 0,
        }
    }

    /// Returns the position of row `row` in batch `batch`, or `None` for padding and past the end.
    #[must_use]
    pub fn position(&self, batch: u64, row: u64) -> Option<u64> {
        if row >= self.filled(batch) {
            return None;
        }
        Some(match self.dealing {
            Dealing::Interleaved => {
                let World { rank, world_size, batch_size } = self.world;
                let ahead = (rank + world_size - self.start % world_size) % world_size;
                self.start + ahead + (batch * batch_size + row) * world_size
            }
            Dealing::Sliced => self.slice(batch).start + row,
        })
    }

    pub(super) fn own(&self, batch: u64) -> Own {
        match self.dealing {
            Dealing::Interleaved => Own::Every { world_size: self.world.world_size },
            Dealing::Sliced if self.world.world_size == 1 => Own::Range(self.start..self.positions),
            Dealing::Sliced => Own::Range(self.slice(batch)),
        }
    }

    /// Returns the number of samples of the epoch that are consumed after every rank has received `batches`
    /// batches, for [`OrderState::samples_consumed`].
    #[must_use]
    pub fn consumed_after(&self, batches: u64) -> u64 {
        let whole = batches.saturating_mul(self.world.global_batch());
        match self.end {
            End::Drop => self.start + whole.min(self.whole_steps() * self.world.global_batch()),
            End::Pad | End::Uneven => self.start.saturating_add(whole).min(self.positions),
        }
    }

    const fn remaining(&self) -> u64 {
        self.positions - self.start
    }

    const fn whole_steps(&self) -> u64 {
        self.remaining() / self.world.global_batch()
    }

    fn tail_filled(&self) -> u64 {
        match self.dealing {
            Dealing::Sliced => {
                let slice = self.slice(self.whole_steps());
                slice.end - slice.start
            }
            Dealing::Interleaved => {
                let World { rank, world_size, .. } = self.world;
                let below = |end: u64| (end + world_size - 1 - rank) / world_size;
                below(self.positions) - below(self.positions - self.remaining() % self.world.global_batch())
            }
        }
    }

    /// Returns the positions of this rank in a batch. If the last batch is smaller, the sizes of the ranks' slices
    /// differ by at most one sample.
    fn slice(&self, batch: u64) -> std::ops::Range<u64> {
        let World { rank, world_size, .. } = self.world;
        let start = self.start + batch * self.world.global_batch();
        let len = self.positions.saturating_sub(start).min(self.world.global_batch());
        let (whole, more) = (len / world_size, len % world_size);
        let first = |rank: u64| start + whole * rank + rank.min(more);
        first(rank)..first(rank + 1)
    }
}
