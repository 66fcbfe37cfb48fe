//! The name that a process writes into its locks for other processes to read.

use std::fmt;
use std::time::SystemTime;

/// A program that holds a lock: `process 7 on host, since 2026-11-20T11:26:23Z`.
///
/// ```
/// use shardpack_io::Holder;
/// let text = "process 7 on host, since 2026-11-20T11:26:23Z";
/// let holder = Holder::parse(text).unwrap();
/// assert_eq!((holder.process, holder.host.as_str(), holder.to_string().as_str()), (7, "host", text));
/// assert!(Holder::parse("somebody").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Number of the process.
    pub process: u32,
    /// Name of the machine.
    pub host: String,
    /// Time when the process took its locks; may be any text in locks of other versions.
    pub since: String,
}

impl Holder {
    /// Returns this process, with the current time.
    #[must_use]
    pub fn this_process() -> Self {
        Self {
            process: std::process::id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }

    /// Parses the name of a holder; `None` if the text is not valid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (process, rest) = text.trim().strip_prefix("process ")?.split_once(" on ")?;
        let (host, since) = rest.split_once(", since ")?;
        Some(Self { process: process.parse().ok()?, host: host.into(), since: since.into() })
    }

    /// Returns whether the holder was a process on `other`'s machine and has ended.
    pub(crate) fn has_ended_beside(&self, other: &Self) -> bool {
        let Some(pid) = i32::try_from(self.process).ok().and_then(rustix::process::Pid::from_raw) else { return false };
        // Only this error means that the process has ended. EPERM means that it is alive.
        self.host == other.host && rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}, since {}", self.process, self.host, self.since)
    }
}
