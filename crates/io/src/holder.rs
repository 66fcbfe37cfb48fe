//! The name that a process writes into its lock files, so that other processes can name the holder.

use std::fmt;
use std::time::SystemTime;

/// A process that holds a lock, written as `process 7 on host, since 2026-11-20T11:26:23Z`.
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
    /// Process id.
    pub process: u32,
    /// Host name of the machine on which the process runs.
    pub host: String,
    /// Time at which the process acquired its locks. Other versions of the program may have written any text here.
    pub since: String,
}

impl Holder {
    /// Returns a holder for this process, with the current time.
    #[must_use]
    pub fn this_process() -> Self {
        Self {
            process: std::process::id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }

    /// Parses the text of a holder, or returns `None` if it is not valid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (process, rest) = text.trim().strip_prefix("process ")?.split_once(" on ")?;
        let (host, since) = rest.split_once(", since ")?;
        Some(Self { process: process.parse().ok()?, host: host.into(), since: since.into() })
    }

    /// Returns true if this holder was a process on the same machine as `other` and has ended.
    pub(crate) fn has_ended_beside(&self, other: &Self) -> bool {
        let Some(pid) = i32::try_from(self.process).ok().and_then(rustix::process::Pid::from_raw) else { return false };
        // Only ESRCH means that the process has ended. EPERM means that it is still alive.
        self.host == other.host && rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}, since {}", self.process, self.host, self.since)
    }
}
