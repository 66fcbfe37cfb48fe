//! Tests the kernels, emulated on the CPU, against the decoder of the host.

mod damage;
pub(crate) mod generate;
mod harness;
mod lz4;
mod moved;
mod strategies;
mod values;
mod volumes;
mod zstd;

/// Returns the number of cases of a property test: `short`, or ten times as many if `SHARDPACK_LONG` is set, as in
/// `scripts/check.sh --long`.
fn cases(short: u32) -> u32 {
    if std::env::var_os("SHARDPACK_LONG").is_some() { 10 * short } else { short }
}
