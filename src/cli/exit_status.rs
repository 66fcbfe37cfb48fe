//! The result of a command, which determines its exit code.

/// The result of a command that could run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitStatus {
    /// Success: exit code 0.
    Fine,
    /// The command found and reported a problem in the data: exit code 1.
    Problem,
    /// The user stopped the command: exit code 130.
    Interrupted,
}
