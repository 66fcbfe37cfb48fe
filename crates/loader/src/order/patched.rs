//! Epochs of patches. Several scenes of another order are open at a time, and their patches alternate.
//!
//! Scenes that are open together form a round and take turns: first patch 0 of each scene, then patch 1 of each, and
//! so on. A scene is therefore opened once for all of its patches. If the number of ranks divides the number of open
//! scenes, only one rank opens the scene.

use super::keyed::Keyed;
use super::permutation::Permutation;
use super::positions::{Dealing, OpenReads, Own, Pick, Positions, SampleRef};
use super::state::{Digest, Fingerprint, Sampling, Unit};
use super::streams;
use shardpack_format::{Hint, Setting, to_usize};
use shardpack_reader::{Error, Result};
use std::sync::Arc;

/// The patches of an order's scenes. Each position of an epoch is a patch.
///
/// ```
/// use shardpack_loader::order::{Order, Own, Patched, Runs, Sampling};
/// use std::sync::Arc;
/// let scenes = Arc::new(Order::new(Runs::new(10, 1), 42));
/// let patches = Patched::each(scenes, 8)?.open_scenes(4);
/// let epoch = patches.epoch(0);
/// assert_eq!(epoch.len(), 80);
/// let first = epoch.pick(0, &Own::Every { world_size: 1 }).unwrap();
/// let fifth = epoch.pick(4, &Own::Every { world_size: 1 }).unwrap();
/// assert_eq!((first.at, first.patch, first.rest), (fifth.at, 0, 8));
/// assert_eq!((fifth.patch, fifth.rest), (1, 7));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Patched {
    scenes: Arc<dyn Sampling>,
    unit: Unit,
    counts: Counts,
    open: u64,
}

#[derive(Debug, Clone)]
enum Counts {
    Same(u64),
    /// The number of patches of each sample, as one list per source.
    Each(Arc<[Vec<u32>]>),
}

impl Patched {
    /// Default number of open scenes, over all ranks.
    pub const OPEN_SCENES: u64 = 16;
    /// Default number of open scenes, over all ranks, if all patches of a grid are loaded.
    pub const OPEN_SCENES_OF_GRIDS: u64 = 4;

    /// Takes `count` patches from each scene of `scenes`.
    ///
    /// # Errors
    /// `Usage` if `count` is 0, or if an epoch would have 2⁶⁴ patches or more.
    pub fn each(scenes: Arc<dyn Sampling>, count: u32) -> Result<Self> {
        Self::new(scenes, Unit::Patches(count), Counts::Same(count.into()), Self::OPEN_SCENES)
    }

    /// Takes all patches of a grid from each scene. Every scene has `count` patches.
    ///
    /// # Errors
    /// Same as [`Patched::each`].
    pub fn grid(scenes: Arc<dyn Sampling>, unit: Unit, count: u32) -> Result<Self> {
        Self::new(scenes, unit, Counts::Same(count.into()), Self::OPEN_SCENES_OF_GRIDS)
    }

    /// Same as [`Patched::grid`], but for scenes that differ in size. For each source of `scenes`, `counts`
    /// contains the number of patches of each sample. Uses 8 bytes for each scene of an epoch.
    ///
    /// # Errors
    /// Same as [`Patched::each`], and `Usage` if `counts` lacks a source or a sample.
    pub fn grid_of_sizes(scenes: Arc<dyn Sampling>, unit: Unit, counts: Vec<Vec<u32>>) -> Result<Self> {
        let wanted = scenes.sources();
        let fits = wanted.len() == counts.len() && wanted.iter().zip(&counts).all(|(&w, c)| w <= c.len() as u64);
        if !fits {
            let found = format!("{:?}", counts.iter().map(Vec::len).collect::<Vec<_>>());
            return Err(Error::usage(format!(
                "`counts` must have a number for each sample: the datasets have {wanted:?} samples, but there are \
                 {found} numbers"
            )));
        }
        Self::new(scenes, unit, Counts::Each(counts.into()), Self::OPEN_SCENES_OF_GRIDS)
    }

    fn new(scenes: Arc<dyn Sampling>, unit: Unit, counts: Counts, open: u64) -> Result<Self> {
        if scenes.unit() != Unit::Samples {
            return Err(Error::usage(format!(
                "patches can be drawn only from a sampling of whole samples, but this one already draws {}",
                scenes.unit()
            )));
        }
        let (none, most) = match &counts {
            Counts::Same(count) => (*count == 0, *count),
            Counts::Each(all) => {
                let most = all.iter().flatten().copied().max().unwrap_or(1);
                (all.iter().flatten().any(|&count| count == 0), most.into())
            }
        };
        if none {
            return Err(Error::usage("the number of patches per sample must be at least 1, not 0"));
        }
        let scenes_of_epoch = scenes.epoch(0).len();
        if scenes_of_epoch.checked_mul(most).is_none() {
            let found = format!("{scenes_of_epoch} samples with {most} patches each");
            return Err(Error::usage(format!("an epoch must have fewer than 2⁶⁴ patches, but has {found}")));
        }
        Ok(Self { scenes, unit, counts, open })
    }

    /// Sets the number of scenes that are open at once, at least 1. Their patches are mixed. More scenes mix
    /// better but use more memory. If the number of ranks divides the number of open scenes, every scene is
    /// read only once.
    #[must_use]
    pub const fn open_scenes(mut self, scenes: u64) -> Self {
        self.open = if scenes == 0 { 1 } else { scenes };
        self
    }
}

impl Patched {
    /// Maximum number of open scenes to try for a state that was saved with a different number.
    const OPEN_TRIED: u64 = 64;
}

impl Sampling for Patched {
    fn seed(&self) -> u64 {
        self.scenes.seed()
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut digest = Digest::new("patches");
        digest.bytes(self.scenes.fingerprint().to_string().as_bytes());
        digest.bytes(self.unit.to_string().as_bytes());
        digest.numbers(&[self.open]);
        match &self.counts {
            Counts::Same(count) => digest.numbers(&[*count]),
            Counts::Each(all) => {
                for source in &**all {
                    digest.bytes(&source.iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<u8>>());
                }
            }
        }
        digest.finish()
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn difference(&self, other: Fingerprint) -> Option<Hint> {
        let open = (1..=Self::OPEN_TRIED).find(|&open| self.clone().open_scenes(open).fingerprint() == other)?;
        let own = self.open;
        let hint = Hint::new("the state was saved with ").and([Setting::number("open_scenes", open)]);
        Some(hint.then(format!(", so pass that instead of {own}")))
    }

    fn epoch(&self, epoch: u32) -> Box<dyn Positions> {
        let scenes = self.scenes.epoch(epoch);
        let is_stored = scenes.dealing() == Dealing::Sliced;
        let open = if is_stored { 1 } else { self.open };
        let is_grid = matches!(self.unit, Unit::Grid { .. });
        let shuffle = (is_grid && !is_stored).then(|| Keyed::new(self.scenes.seed(), epoch, streams::PATCHES));
        let table = match &self.counts {
            Counts::Same(count) => SceneTable::Same(*count),
            Counts::Each(all) => SceneTable::each(&*scenes, all, open),
        };
        Box::new(PatchedEpoch { scenes, open, shuffle, table })
    }

    fn sources(&self) -> Vec<u64> {
        self.scenes.sources()
    }

    fn aligned(&self) -> u64 {
        self.open
    }
}

#[derive(Debug)]
enum SceneTable {
    Same(u64),
    Each {
        counts: Vec<u32>,
        /// First position of each round. The last entry is the total number of positions.
        rounds: Vec<u64>,
    },
}

impl SceneTable {
    fn each(scenes: &dyn Positions, all: &[Vec<u32>], open: u64) -> Self {
        let count = |position| {
            let SampleRef { source, sample } = scenes.sample(position)?;
            all.get(usize::try_from(source).ok()?)?.get(usize::try_from(sample).ok()?).copied()
        };
        let counts: Vec<u32> = (0..scenes.len()).map(|position| count(position).unwrap_or(1)).collect();
        let mut rounds = vec![0];
        let mut end = 0_u64;
        for round in counts.chunks(to_usize(open)) {
            end += round.iter().map(|&count| u64::from(count)).sum::<u64>();
            rounds.push(end);
        }
        Self::Each { counts, rounds }
    }
}

#[derive(Debug)]
struct PatchedEpoch {
    scenes: Box<dyn Positions>,
    open: u64,
    /// Random numbers that shuffle a scene's patches, or `None` if the patches come in ascending order.
    shuffle: Option<Keyed>,
    table: SceneTable,
}

/// A round of scenes that are open together: its first position, its first scene, and the number of patches of each
/// scene.
struct Round<'a> {
    start: u64,
    first: u64,
    scenes: u64,
    counts: Option<&'a [u32]>,
}

/// A patch: its scene's number in the round, its turn within the scene, and the scene's number of turns.
struct SceneTurn {
    lane: u64,
    turn: u64,
    turns: u64,
}

impl Round<'_> {
    fn before(&self, turn: u64) -> u64 {
        match self.counts {
            None => turn * self.scenes,
            Some(counts) => counts.iter().map(|&count| u64::from(count).min(turn)).sum(),
        }
    }

    fn turn(&self, position: u64, count: u64) -> Option<SceneTurn> {
        let place = position - self.start;
        let Some(counts) = self.counts else {
            return Some(SceneTurn { lane: place % self.scenes, turn: place / self.scenes, turns: count });
        };
        let (mut low, mut high) = (0, u64::from(counts.iter().copied().max()?));
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            if self.before(middle) <= place { low = middle } else { high = middle }
        }
        let nth = usize::try_from(place - self.before(low)).ok()?;
        let mut still = (0_u64..).zip(counts).filter(|(_, count)| u64::from(**count) > low);
        let (lane, turns) = still.nth(nth)?;
        Some(SceneTurn { lane, turn: low, turns: u64::from(*turns) })
    }

    fn position(&self, lane: u64, turn: u64) -> u64 {
        let before_it = match self.counts {
            None => lane,
            Some(counts) => (0..lane).zip(counts).filter(|(_, count)| u64::from(**count) > turn).count() as u64,
        };
        self.start + self.before(turn) + before_it
    }
}

impl PatchedEpoch {
    fn round(&self, position: u64) -> Option<Round<'_>> {
        match &self.table {
            SceneTable::Same(count) => {
                let number = position / (self.open * count);
                let first = number * self.open;
                let scenes = self.scenes.len().checked_sub(first)?.min(self.open);
                (scenes > 0).then_some(Round { start: first * count, first, scenes, counts: None })
            }
            SceneTable::Each { counts, rounds } => {
                let number = rounds.partition_point(|&start| start <= position).checked_sub(1)?;
                let open = to_usize(self.open);
                let counts = counts.chunks(open).nth(number)?;
                let first = (number as u64).checked_mul(self.open)?;
                let scenes = counts.len() as u64;
                Some(Round { start: *rounds.get(number)?, first, scenes, counts: Some(counts) })
            }
        }
    }

    fn at(&self, position: u64) -> Option<(Round<'_>, SceneTurn)> {
        if position >= self.len() {
            return None;
        }
        let round = self.round(position)?;
        let count = if let SceneTable::Same(count) = self.table { count } else { 0 };
        let turn = round.turn(position, count)?;
        Some((round, turn))
    }

    fn own<'a>(&self, round: &'a Round<'_>, at: &SceneTurn, own: &Own) -> impl Iterator<Item = u64> + use<'a> {
        let (lane, turn, turns) = (at.lane, at.turn, at.turns);
        let world_size = match own {
            Own::Every { world_size } => (*world_size).max(1),
            Own::Range(_) => 1,
        };
        let rank = round.position(lane, turn) % world_size;
        (turn..turns).filter(move |&turn| world_size == 1 || round.position(lane, turn) % world_size == rank)
    }

    fn number(&self, scene: u64, at: &SceneTurn, turn: u64) -> u64 {
        self.shuffle.map_or(turn, |keys| Permutation::new(at.turns, keys.draw(scene)).apply(turn))
    }
}

impl Positions for PatchedEpoch {
    fn len(&self) -> u64 {
        match &self.table {
            SceneTable::Same(count) => self.scenes.len() * count,
            SceneTable::Each { rounds, .. } => rounds.last().copied().unwrap_or(0),
        }
    }

    fn sample(&self, position: u64) -> Option<SampleRef> {
        let (round, turn) = self.at(position)?;
        self.scenes.sample(round.first + turn.lane)
    }

    fn pick(&self, position: u64, own: &Own) -> Option<Pick> {
        let (round, turn) = self.at(position)?;
        let scene = round.first + turn.lane;
        let pick = self.scenes.pick(scene, &Own::Every { world_size: 1 })?;
        let rest = match own {
            Own::Range(_) | Own::Every { world_size: 0 | 1 } => turn.turns - turn.turn,
            Own::Every { .. } => 0,
        };
        let patch = self.number(scene, &turn, turn.turn);
        // A scene is read once for each draw of its sample. `pass` tells these reads apart.
        Some(Pick { rest, pass: scene, repetition: pick.repetition, patch, ..Pick::alone(pick.at) })
    }

    fn rest(&self, position: u64, own: &Own) -> u64 {
        self.at(position).map_or(0, |(round, turn)| self.own(&round, &turn, own).count() as u64)
    }

    fn patches(&self, position: u64, own: &Own) -> Option<Vec<u32>> {
        let (round, turn) = self.at(position)?;
        let number = |t| shardpack_format::saturating_u32(self.number(round.first + turn.lane, &turn, t));
        Some(self.own(&round, &turn, own).map(number).collect())
    }

    fn open_reads_max(&self, world_size: u64) -> Vec<OpenReads> {
        // A rank that shares scenes with other ranks takes only some patches of each, so it has more scenes open.
        let world_size = world_size.max(1);
        let sharing = super::lanes::sharing(self.open, world_size);
        let reads = (self.open.saturating_mul(sharing) / world_size).max(1);
        vec![OpenReads { source: 0, reads, samples: 1 }]
    }
}
