//! The state from which a run resumes, and the trait that all samplings implement.

use super::positions::Positions;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use shardpack_format::{Hint, Setting};
use shardpack_reader::{Error, Result};
use std::fmt;

/// Version of the order. Within a version, the order is the same for the same seed and dataset.
const VERSION: u64 = 1;

/// Decides which samples each epoch visits, and in which order. Implemented by [`Order`](super::Order) and the other
/// orders of this module.
pub trait Sampling: fmt::Debug + Send + Sync {
    /// Returns the seed.
    fn seed(&self) -> u64;

    /// Returns the unit in which the positions of an epoch are counted.
    fn unit(&self) -> Unit {
        Unit::Samples
    }

    /// Returns 128 bits that depend on all inputs of the order except seed and epoch.
    fn fingerprint(&self) -> Fingerprint;

    /// Describes how the order with fingerprint `other` differs from this one, if only one known setting
    /// differs; otherwise returns `None`.
    fn difference(&self, other: Fingerprint) -> Option<Hint> {
        let _ = other;
        None
    }

    /// Returns epoch number `epoch`.
    fn epoch(&self, epoch: u32) -> Box<dyn Positions>;

    /// Returns the number of samples that each source dataset must have, which is one more than the largest
    /// index drawn. Only a mixture has several sources.
    fn sources(&self) -> Vec<u64>;

    /// Returns the distance between positions of the same lane, or 1 if there are no lanes. If the world size
    /// divides this distance, every run is read only once.
    fn aligned(&self) -> u64;

    /// Returns the epoch of `state`.
    ///
    /// # Errors
    /// `Usage` if the state was saved with a different seed, dataset or order, or counts more samples than an
    /// epoch has.
    fn epoch_of(&self, state: &OrderState) -> Result<Box<dyn Positions>> {
        if state.unit != self.unit() {
            let (saved, own) = (state.unit.in_words(), self.unit().in_words());
            let text = format!("the state was saved by a loader that loads {saved}, but this loader loads {own}");
            return Err(Error::usage(text).with_hint("use the same patch options as when the state was saved"));
        }
        let (expected, found) = (self.fingerprint(), state.fingerprint);
        if expected != found {
            let other = Hint::new("load the same generation and subset of the dataset, with the same ")
                .and([Setting::named("mode").in_python("shuffle"), Setting::named("lanes")])
                .then(" as when the state was saved");
            let hint = self.difference(found).unwrap_or(other);
            return Err(Error::usage(format!(
                "the state belongs to another loader: its fingerprint is {found}, but this loader has {expected}"
            ))
            .with_hint(hint));
        }
        if state.seed != self.seed() {
            return Err(Error::usage(format!(
                "the state was saved with seed {}, but this loader has seed {}",
                state.seed,
                self.seed()
            )));
        }
        let epoch = self.epoch(state.epoch);
        if state.samples_consumed > epoch.len() {
            let (consumed, all) = (state.samples_consumed, epoch.len());
            let unit = if self.unit().is_samples() { "samples" } else { "patches" };
            return Err(Error::usage(format!(
                "the state was saved after {consumed} {unit} of the epoch, but this loader has only {all} per epoch"
            )));
        }
        Ok(epoch)
    }
}

/// 128 bits of a SHA-256 hash over the inputs of an order, formatted in hexadecimal.
///
/// ```
/// use shardpack_loader::order::{Order, Runs, Sampling};
/// let order = Order::new(Runs::new(1000, 38), 42);
/// assert_eq!(order.fingerprint().to_string().len(), 32);
/// assert_ne!(order.fingerprint(), order.clone().lanes(480).fingerprint());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(u128);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let value = u128::from_str_radix(&text, 16).ok().filter(|_| digits);
        value.map(Self).ok_or_else(|| format!("fingerprint: expected 32 hexadecimal digits, found {text:?}"))
    }
}

/// Unit in which the positions of an epoch are counted. Its text form is `samples`, `8 patches a sample` or
/// `grids of 64x64, overlap 16x16`.
///
/// ```
/// use shardpack_loader::order::Unit;
/// for unit in [Unit::Samples, Unit::Patches(8), Unit::Grid { size: [0, 64, 32], overlap: [0, 16, 0] }] {
///     assert_eq!(unit.to_string().parse::<Unit>()?, unit);
/// }
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Unit {
    /// Positions count samples.
    #[default]
    Samples,
    /// Positions count patches. Each sample has this number of patches.
    Patches(u32),
    /// Positions count the patches of a grid over each sample.
    Grid {
        /// Size of a patch: depth (0 for patches of two axes), height and width.
        size: [u32; 3],
        /// Overlap of neighbouring patches in pixels, for each axis.
        overlap: [u32; 3],
    },
}

impl Unit {
    /// Returns true if positions count whole samples.
    #[must_use]
    pub const fn is_samples(&self) -> bool {
        matches!(self, Self::Samples)
    }

    /// Describes the unit in a message about a loader.
    fn in_words(self) -> String {
        match self {
            Self::Samples => "whole samples".to_owned(),
            Self::Patches(count) => format!("{count} patches per sample"),
            Self::Grid { size: [0, a, b], overlap: [_, c, d] } => {
                format!("grid patches of size {a}x{b} with overlap {c}x{d}")
            }
            Self::Grid { size: [z, a, b], overlap: [y, c, d] } => {
                format!("grid patches of size {z}x{a}x{b} with overlap {y}x{c}x{d}")
            }
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Samples => write!(f, "samples"),
            Self::Patches(count) => write!(f, "{count} patches a sample"),
            Self::Grid { size: [0, a, b], overlap: [_, c, d] } => write!(f, "grids of {a}x{b}, overlap {c}x{d}"),
            Self::Grid { size: [z, a, b], overlap: [y, c, d] } => {
                write!(f, "grids of {z}x{a}x{b}, overlap {y}x{c}x{d}")
            }
        }
    }
}

impl std::str::FromStr for Unit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let sides = |text: &str| -> Option<[u32; 3]> {
            let sides = text.split('x').map(|side| side.parse().ok()).collect::<Option<Vec<u32>>>()?;
            match *sides {
                [height, width] => Some([0, height, width]),
                [depth, height, width] => Some([depth, height, width]),
                _ => None,
            }
        };
        let grid = || {
            let (size, overlap) = text.strip_prefix("grids of ")?.split_once(", overlap ")?;
            Some(Self::Grid { size: sides(size)?, overlap: sides(overlap)? })
        };
        let patches = || text.strip_suffix(" patches a sample")?.parse().ok().map(Self::Patches);
        let unit = if text == "samples" { Some(Self::Samples) } else { patches().or_else(grid) };
        // Accept only text that this library would write.
        unit.filter(|unit| unit.to_string() == text).ok_or_else(|| {
            Error::usage(format!(
                "the `unit` of the state is `{}`, but must be `samples`, or a text such as `8 patches a sample` or \
                 `grids of 64x64, overlap 16x16`",
                text.escape_debug()
            ))
        })
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        unit.to_string()
    }
}

impl TryFrom<String> for Unit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error: Error| error.to_string())
    }
}

/// Progress of a run. It is the same on every rank, and a run with any world size, batch size and number of
/// threads can resume from it.
///
/// ```
/// use shardpack_loader::order::{Order, Runs, OrderState};
/// let state = OrderState::start(&Order::new(Runs::new(1000, 38), 42));
/// let text = serde_json::to_string(&state)?;
/// assert_eq!(serde_json::from_str::<OrderState>(&text)?, state);
/// assert_eq!((state.epoch, state.samples_consumed, state.next_epoch().epoch), (0, 0, 1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderState {
    /// Fingerprint of the dataset and the order.
    pub fingerprint: Fingerprint,
    /// The seed from which the order is computed.
    pub seed: u64,
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Number of samples that all ranks together have *received* in this epoch. Samples that were only read
    /// ahead do not count. In an epoch of patches, patches are counted instead ([`OrderState::unit`]).
    pub samples_consumed: u64,
    /// The unit that `samples_consumed` counts: samples or patches.
    #[serde(default, skip_serializing_if = "Unit::is_samples")]
    pub unit: Unit,
}

impl OrderState {
    /// Returns the state before the first sample.
    #[must_use]
    pub fn start(sampling: &dyn Sampling) -> Self {
        Self {
            fingerprint: sampling.fingerprint(),
            seed: sampling.seed(),
            epoch: 0,
            samples_consumed: 0,
            unit: sampling.unit(),
        }
    }

    /// Returns the start of the next epoch.
    #[must_use]
    pub const fn next_epoch(mut self) -> Self {
        self.epoch = self.epoch.wrapping_add(1);
        self.samples_consumed = 0;
        self
    }
}

/// Hashes the values that a [`Fingerprint`] depends on.
pub(super) struct Digest(Sha256);

impl Digest {
    pub(super) fn new(kind: &str) -> Self {
        let mut digest = Self(Sha256::new());
        digest.numbers(&[VERSION]);
        digest.bytes(kind.as_bytes());
        digest
    }

    /// Adds `bytes`, preceded by their length. Without the length, lists that differ only in where one entry ends
    /// would have equal digests.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(super) fn numbers(&mut self, numbers: &[u64]) {
        self.0.update((numbers.len() as u64).to_le_bytes());
        for number in numbers {
            self.0.update(number.to_le_bytes());
        }
    }

    pub(super) fn finish(self) -> Fingerprint {
        let hash = self.0.finalize();
        Fingerprint(hash.iter().take(16).fold(0, |value, &byte| value << 8 | u128::from(byte)))
    }
}
