//! The shardpack command; see [`shardpack::cli`].

fn main() -> std::process::ExitCode {
    shardpack::cli::main()
}
