//! One packer at a time: lock files in the output folder.
//!
//! A run that writes the whole dataset, and `merge`, hold `.shardpack-lock` alone. A run that
//! writes part i of n shares it with other parts, and holds `.shardpack-lock-0000i-of-0000n` alone,
//! i from 1. The operating system gives a lock back when its holder dies, so a lock file that is
//! left over does not stop anybody. Where the file system has no locks, the file itself is the
//! lock: see `lock_name`.

use crate::error::{Error, Result};
use crate::fs::{Disk, Held, LockMode};
use crate::options::Part;
use shardpack_format::{Hint, Setting};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const LOCK_NAME: &str = ".shardpack-lock";

/// What to do about a claim in a store, which outlives a run that was killed on another machine.
fn store_hint() -> Hint {
    Hint::new("wait for it, or stop it first; if it was killed, ")
        .and([Setting::on("take_over")])
        .then(" goes on in its place")
}

/// Name of a part's own lock.
fn part_lock_name(part: Part) -> String {
    format!("{LOCK_NAME}{}", part.suffix())
}

/// The locks of one run; held until dropped.
pub(crate) struct Lock {
    // Dropped in this order: the part's own first.
    own: Option<Box<dyn Held>>,
    folder: Box<dyn Held>,
}

impl Lock {
    /// Takes the locks for a run, or names their holder.
    pub(crate) fn take(disk: Disk<'_>, out: &Path, part: Option<Part>) -> Result<Self> {
        let text = describe_self();
        let take = |name: &str, mode| {
            let path = out.join(name);
            let held = disk.0.lock(&path, mode, &text).map_err(|e| Error::io("lock", &path, e))?;
            let hint = || if disk.0.is_store() { store_hint() } else { "wait for it, or stop it first".into() };
            held.ok_or_else(|| Error::Locked { holder: holder(disk, out, name), path, hint: hint() })
        };
        let mode = if part.is_some() { LockMode::Shared } else { LockMode::Exclusive };
        let folder = take(LOCK_NAME, mode)?;
        let own = part.map(|part| take(&part_lock_name(part), LockMode::Exclusive)).transpose()?;
        Ok(Self { own, folder })
    }

    /// Whether it is a file by its name alone, which outlives a run that is killed on another
    /// machine.
    pub(crate) fn is_by_name(&self) -> bool {
        self.folder.is_by_name() || self.own.as_ref().is_some_and(|own| own.is_by_name())
    }
}

/// Who this process is, for others to read.
fn describe_self() -> String {
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = "unknown";
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    format!("process {} on {host}, since {}\n", std::process::id(), utc(started))
}

/// A time in seconds since 1970, in a readable form (days to date after Hinnant, `civil_from_days`,
/// for dates from 1970 on).
fn utc(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// What the holder of a lock wrote, in this file or, if parts share it, in their own.
fn holder(disk: Disk<'_>, out: &Path, name: &str) -> String {
    let mut names = vec![name.to_owned()];
    names.extend(disk.list(out).unwrap_or_default().into_iter().filter(|n| n.starts_with(LOCK_NAME) && n != name));
    let texts = names.iter().filter_map(|name| disk.read(&out.join(name), 4096).ok());
    let words = texts.map(|bytes| String::from_utf8_lossy(&bytes).trim().escape_debug().to_string());
    words.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| "holder unknown".into())
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn times_are_those_of_date() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_173_983), "2026-11-20 11:26:23 UTC");
        assert_eq!(utc(4_102_444_799), "2099-12-31 23:59:59 UTC");
    }
}
