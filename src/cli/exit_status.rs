//! The ways in which a command ends.

/// How a command ended, if it could run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitStatus {
    /// All is well: exit code 0.
    Fine,
    /// A problem in the data was found and reported: exit code 1.
    Problem,
    /// The user stopped it: exit code 130.
    Interrupted,
}
