//! How fast the candidates decode: on one core, and on all.

use super::measure::{Bench, Outcome, Sampled, Scorer};
use crate::pack::Tally;
use shardpack_report::data::Rates;
use shardpack_writer::EncodedSample;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Samples that are decoded again and again, and their bytes at most (but one at least).
const SAMPLES: usize = 16;
const BYTES: u64 = 64 << 20;
/// How long each rate is measured, at least.
const WHILE: Duration = Duration::from_millis(150);

/// The rates of each plan; none if the run was stopped.
pub(super) fn measure(bench: &Bench<'_>, whole: &[Sampled]) -> anyhow::Result<Vec<Rates>> {
    let of = bench.plans.len() as u64;
    let mut all = Vec::with_capacity(bench.plans.len());
    for plan in 0..bench.plans.len() {
        (bench.hooks.on_progress)(plan as u64, of, "timing");
        let records = if bench.is_cancelled() { Vec::new() } else { some_records(bench, whole, plan) };
        all.push(if records.is_empty() { Rates::default() } else { of_plan(bench, plan, &records)? });
    }
    Ok(all)
}

/// Records from all over the sample.
fn some_records(bench: &Bench<'_>, whole: &[Sampled], plan: usize) -> Vec<EncodedSample<Tally>> {
    let stored = |sampled: &&Sampled| matches!(sampled.outcomes.get(plan), Some(Outcome::Stored(_)));
    let positions: Vec<usize> = whole.iter().filter(stored).map(|sampled| sampled.position).collect();
    let mut records: Vec<EncodedSample<Tally>> = Vec::new();
    let mut bytes = 0;
    for &position in positions.iter().step_by(positions.len().div_ceil(SAMPLES).max(1)) {
        let Some(record) = bench.again(plan, position) else { continue };
        bytes += record.record.len() as u64;
        if bytes > BYTES && !records.is_empty() {
            break;
        }
        records.push(record);
    }
    records
}

fn of_plan(bench: &Bench<'_>, plan: usize, records: &[EncodedSample<Tally>]) -> anyhow::Result<Rates> {
    let one = rate(bench, plan, records, 1)?;
    let all = match bench.options.threads {
        1 => one,
        threads => rate(bench, plan, records, threads)?,
    };
    Ok(Rates { decode_one_core_per_s: one, decode_all_cores_per_s: all, ..Rates::default() })
}

/// Samples decoded a second by so many threads; `None` if they do not decode.
fn rate(
    bench: &Bench<'_>,
    plan: usize,
    records: &[EncodedSample<Tally>],
    threads: usize,
) -> anyhow::Result<Option<f64>> {
    let mut scorers = (0..threads).map(|_| bench.scorer()).collect::<anyhow::Result<Vec<_>>>()?;
    let mut warm = Vec::new();
    for scorer in &mut scorers {
        if let Some(first) = records.first()
            && decode(scorer, bench, plan, first, &mut warm).is_err()
        {
            return Ok(None);
        }
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for scorer in &mut scorers {
            let (next, failed) = (&next, &failed);
            scope.spawn(move || {
                let mut out = Vec::new();
                while start.elapsed() < WHILE || next.load(Ordering::Relaxed) < records.len() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(record) = records.get(at % records.len().max(1)) else { return };
                    let result = decode(scorer, bench, plan, record, &mut out);
                    failed.fetch_add(usize::from(result.is_err()), Ordering::Relaxed);
                }
            });
        }
    });
    #[allow(clippy::cast_precision_loss, reason = "a count for a rate")]
    let done = next.load(Ordering::Relaxed) as f64;
    Ok((failed.load(Ordering::Relaxed) == 0).then(|| done / start.elapsed().as_secs_f64()))
}

fn decode(
    scorer: &mut Scorer<'_>,
    bench: &Bench<'_>,
    plan: usize,
    record: &EncodedSample<Tally>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match scorer {
        Scorer::Pictures(scorer) => {
            let encoder = bench.prepared.get(plan).and_then(|prepared| prepared.as_ref().ok()).ok_or("no encoder")?;
            scorer.decode(encoder, record, out).map(|_| ())
        }
        Scorer::Cubes(scorer) => scorer.decode(record).map(|_| ()),
    }
}
