//! A command's result, for its exit code.

/// The result of a command that could run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitStatus {
    /// Success: exit code 0.
    Fine,
    /// Found and reported a problem in the data: exit code 1.
    Problem,
    /// The user stopped the command: exit code 130.
    Interrupted,
}
