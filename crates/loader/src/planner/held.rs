//! Chooses where the order's window is kept: in the loader's memory, as runs, or in the page cache. With the page
//! cache, the thread that decodes a record also reads it.
//!
//! A window of many runs takes hundreds of megabytes. The bytes of files pass through the page cache anyway,
//! so a copy in the process doubles the memory and costs an extra pass. Reading a record just before decoding
//! it, into the core's cache, is 1.5 times as fast. The same holds for a store whose objects are in a cache on the
//! local disk.

use super::predict::Predicted;
use crate::fields::Fields;
use crate::options::Window;
use shardpack_reader::Dataset;
use std::path::Path;

/// Largest record, in bytes, that fits into a core's L2 cache together with its picture.
const LARGEST_BYTES: u64 = 1 << 20;
/// The page cache is chosen only if records have at least this mean size, in bytes. With smaller records, one system
/// call per record costs more than copying whole runs. At about 10 KiB, both took the same time.
const MEAN_BYTES: u64 = 16 << 10;
/// Number of samples to check. If a tenth of the dataset is not cached, the check misses this with a probability of
/// 0.1 %.
const PLACES: u64 = 64;
/// Number of windows that the page cache must have room for. Room for a single window is not enough, because other
/// programs use the page cache too, and because it evicts the oldest bytes first.
const WINDOWS: u64 = 4;

/// Where the window of an epoch is kept. See [`Window`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Held {
    /// In the loader's buffers, one per run.
    #[default]
    Memory,
    /// In the page cache. If `announce` is true, the loader asks the system to fetch the runs.
    PageCache { announce: bool },
}

impl Held {
    /// Records are read one by one, if at all, without announcement.
    pub(crate) const ALONE: Self = Self::PageCache { announce: false };

    /// Returns the choice for the next epoch: `decided`, except that the window never moves from the page
    /// cache back into memory, which may be scarce.
    pub(crate) fn then(self, decided: Self) -> Self {
        match (self, decided) {
            (Self::PageCache { .. }, Self::Memory) => Self::PageCache { announce: true },
            _ => decided,
        }
    }

    /// Chooses where to keep the window. A window of scenes is always in memory, because it consists of
    /// decoded patches.
    pub(crate) fn of(window: Window, dataset: &Dataset, fields: &Fields, predicted: &Predicted) -> Self {
        if fields.patches.is_some() { Self::Memory } else { Self::decide(window, dataset, predicted) }
    }

    pub(crate) fn decide(window: Window, dataset: &Dataset, predicted: &Predicted) -> Self {
        match window {
            Window::PageCache => Self::PageCache { announce: true },
            Window::Auto if fits(dataset, predicted.record_bytes) => match is_cached(dataset) {
                Some(true) => Self::PageCache { announce: false },
                Some(false) if has_room(predicted.run_bytes, room_bytes()) => Self::PageCache { announce: true },
                Some(false) | None => Self::Memory,
            },
            Window::Auto | Window::Memory => Self::Memory,
        }
    }
}

fn fits(dataset: &Dataset, largest: u64) -> bool {
    let bytes = dataset.shards().fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
    largest <= LARGEST_BYTES && bytes / dataset.len().max(1) >= MEAN_BYTES
}

fn has_room(window: u64, room: Option<u64>) -> bool {
    room.is_some_and(|room| room / WINDOWS >= window)
}

/// Checks whether evenly spaced samples of the dataset are in the page cache. Returns `None` if the system does not
/// report this for one of these samples.
fn is_cached(dataset: &Dataset) -> Option<bool> {
    let places = PLACES.min(dataset.len());
    // Ignore errors. The batch of a sample reports them.
    let locate = |place: u64| {
        let sample = u128::from(place) * u128::from(dataset.len()) / u128::from(places);
        dataset.locate(u64::try_from(sample).ok()?).ok()
    };
    let check = |(number, record): (usize, u64)| {
        let shard = dataset.shard(number).ok()?;
        let row = shard.row(record).ok()?;
        shard.file().handle().ok()?.is_cached(row.offset.saturating_add(row.length / 2))
    };
    if places == 0 {
        return None;
    }
    let mut all = check(locate(0)?)?;
    // Opening a shard in a store takes a round trip, so all are announced before the first one is needed.
    for (number, _) in (1..places).filter_map(locate) {
        dataset.advise_shards(number..number.saturating_add(1));
    }
    for place in 1..places {
        all &= check(locate(place)?)?;
    }
    Some(all)
}

/// Returns the machine's free memory in bytes, or less if the control groups of this process allow less. Returns
/// `None` if the system does not report one of these numbers.
fn room_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let spare = field(&text, "MemAvailable:")?.saturating_mul(1024);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(spare.min(group_room(&groups, Path::new("/sys/fs/cgroup"))?))
}

/// Returns the number of bytes that the control groups in `groups`, mounted at `root`, leave to the page cache. This
/// is the limit minus the memory of processes, because everything else can be evicted. Returns `None` if a limit
/// cannot be read.
fn group_room(groups: &str, root: &Path) -> Option<u64> {
    let sum =
        |stat: &str, names: [&str; 3]| names.iter().filter_map(|name| field(stat, name)).fold(0, u64::saturating_add);
    // Version 1: `4:memory:/path`. In a container, this may be a path on the host.
    let memory = groups.lines().find_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        names.split(',').any(|name| name == "memory").then_some(path)
    });
    if let Some(path) = memory {
        let stats = [root.join("memory").join(path.trim_start_matches('/')), root.join("memory")];
        let stat = stats.iter().find_map(|group| std::fs::read_to_string(group.join("memory.stat")).ok())?;
        let held = sum(&stat, ["total_rss", "total_shmem", "total_unevictable"]);
        return Some(field(&stat, "hierarchical_memory_limit")?.saturating_sub(held));
    }
    // Version 2: `0::/path`. Every group up to the root may have a limit.
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mut room = u64::MAX;
    for group in root.join(own).ancestors().take_while(|group| group.starts_with(root)) {
        let limit = std::fs::read_to_string(group.join("memory.max")).unwrap_or_default();
        if let Ok(limit) = limit.trim().parse::<u64>() {
            let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
            room = room.min(limit.saturating_sub(sum(&stat, ["anon", "shmem", "unevictable"])));
        }
    }
    Some(room)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    lines.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_left_to_the_page_cache_where_it_fits_four_times() {
        assert!(has_room(1 << 30, Some(4 << 30)));
        assert!(!has_room(1 << 30, Some((4 << 30) - 1)));
        assert!(!has_room(1, None));
    }

    #[test]
    fn a_window_never_moves_back_into_memory() {
        let (fetched, there) = (Held::PageCache { announce: true }, Held::PageCache { announce: false });
        for (before, decided, expected) in [
            (Held::Memory, Held::Memory, Held::Memory),
            (Held::Memory, there, there),
            (fetched, there, there),
            (there, fetched, fetched),
            (there, Held::Memory, fetched),
            (fetched, Held::Memory, fetched),
        ] {
            assert_eq!(before.then(decided), expected, "{before:?}, then {decided:?}");
        }
    }

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "anon_thp 5\nanon 4096\nfile 8192\n";
        assert_eq!((field(text, "anon"), field(text, "file"), field(text, "kernel")), (Some(4096), Some(8192), None));
        assert_eq!(field("MemAvailable:   23 kB\n", "MemAvailable:"), Some(23));
    }

    #[test]
    fn control_groups_limit_the_room() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let room = |groups: &str| group_room(groups, dir.path());
        assert_eq!(room(""), Some(u64::MAX));
        assert_eq!(room("4:cpu,memory:/a\n0::/\n"), None, "a limit that is not to be seen");
        put("job/memory.max", "1000\n");
        put("job/memory.stat", "anon 300\nfile 500\nshmem 40\n");
        put("job/step/memory.max", "max\n");
        assert_eq!(room("0::/job/step\n"), Some(660));
        assert_eq!(room("0::/\n"), Some(u64::MAX));
        put("memory/memory.stat", "cache 7\nhierarchical_memory_limit 900\ntotal_rss 100\ntotal_unevictable 1\n");
        assert_eq!(room("4:cpu,memory:/of/the/host\n"), Some(799));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn free_memory_is_read_from_control_groups() {
        assert!(room_bytes() > Some(1 << 20), "{:?}", room_bytes());
    }
}
