//! Reads the core time, disk reads and memory of this process from the operating system.

use shardpack_reader::Dataset;
use std::fs;

/// Returns the CPU time of this process in seconds.
pub(super) fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Asks the system to drop all shards from the page cache, so that later reads go to the disk. Only Linux supports
/// this.
pub(super) fn drop_page_cache(dataset: &Dataset) -> crate::Result<()> {
    for number in 0..dataset.shards().len() {
        dataset.shard(number)?.file().handle()?.drop_cached();
    }
    Ok(())
}

/// Returns the number of bytes fetched from disks for this process, including read-ahead, or `None` if the
/// system does not report it.
pub(super) fn disk_bytes() -> Option<u64> {
    number("/proc/self/io", "read_bytes:")
}

/// Returns the total seconds that threads of this process, except the first, waited for a core, or `None` if the system
/// does not report it.
pub(super) fn queued_s() -> Option<f64> {
    let mut nanoseconds = 0_u64;
    let first = std::process::id().to_string();
    for task in fs::read_dir("/proc/self/task").ok()? {
        let task = task.ok()?;
        if task.file_name() == *first {
            continue;
        }
        // The thread may have ended in the meantime.
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        nanoseconds = nanoseconds.saturating_add(text.split_whitespace().nth(1)?.parse().ok()?);
    }
    Some(nanoseconds as f64 / 1e9)
}

/// Returns the memory of this process in bytes. Counts the program file in full, although its pages are loaded on
/// demand.
pub(super) fn resident_bytes() -> u64 {
    let kib = |name| number("/proc/self/status", name).unwrap_or(0);
    let program = kib("VmExe:").saturating_add(kib("VmLib:"));
    let (all, files) = (kib("VmRSS:"), kib("RssFile:"));
    all.saturating_sub(files).saturating_add(files.max(program)).saturating_mul(1024)
}

/// Returns the bytes available without swapping, or `None` if the system does not report it.
pub(super) fn available_bytes() -> Option<u64> {
    number("/proc/meminfo", "MemAvailable:").map(|kib| kib.saturating_mul(1024))
}

/// Returns the machine's memory in bytes, or `None` if the system does not report it.
pub(super) fn memory_bytes() -> Option<u64> {
    number("/proc/meminfo", "MemTotal:").map(|kib| kib.saturating_mul(1024))
}

fn number(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_was_used() {
        let (start, before) = (cpu_s(), resident_bytes());
        let bytes = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(cpu_s() > start);
        assert!(resident_bytes() >= before + (32 << 20), "{before} {}", resident_bytes());
        assert!(memory_bytes() > available_bytes() && available_bytes() > Some(1 << 20));
        drop(bytes);
    }
}
