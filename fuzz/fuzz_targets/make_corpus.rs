//! Writes the inputs that the fuzzer starts from into `corpus/`, from the same shard that the tests
//! damage.
use shardpack_format::{Codec, Limits, Record};
use shardpack_fuzz::{jpeg, payload, shard};
use std::fs;

fn main() -> std::io::Result<()> {
    let record = shard::golden_record();
    let descriptor = Record::parse(&record, &Limits::default()).ok().and_then(|r| r.fields[0]).map(|f| f.descriptor);
    let seeds = [
        ("shard", shard::golden()),
        ("shard_tail", shard::golden()),
        ("descriptor", descriptor.unwrap_or_default().to_vec()),
        ("manifest", shard::manifest()),
        ("record", record.clone()),
        ("jpeg_cut", jpeg::tiled()),
        ("jpeg_decoders", jpeg::TILES.to_vec()),
    ];
    for (target, bytes) in seeds {
        let folder = format!("{}/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        fs::create_dir_all(&folder)?;
        fs::write(format!("{folder}/golden"), bytes)?;
    }
    for (i, (codec, _, bytes)) in payload::payloads().into_iter().enumerate() {
        let target = if codec == Codec::Zstd { "zstd_frame" } else { "blosc2_chunk" };
        let folder = format!("{}/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        fs::create_dir_all(&folder)?;
        fs::write(format!("{folder}/golden{i}"), bytes)?;
    }
    Ok(())
}
