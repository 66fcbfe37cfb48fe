//! The outcome of a command, which determines its exit code.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitStatus {
    /// Success, exit code 0.
    Fine,
    /// A problem in the data was found and reported, exit code 1.
    Problem,
    /// The user stopped the command, exit code 130.
    Interrupted,
}
