//! The command `shardpack`; see [`shardpack::cli`].

fn main() -> std::process::ExitCode {
    shardpack::cli::main()
}
