//! How fast the candidates decode: on one core, and on all.

use super::measure::{Bench, Outcome, Sampled, Scorer};
use crate::pack::Tally;
use shardpack_report::data::Rates;
use shardpack_writer::EncodedSample;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Samples that are decoded again and again, their bytes at most (but one at least), and the bytes of
/// all candidates that take turns.
const SAMPLES: usize = 16;
const BYTES: u64 = 64 << 20;
const TURN_BYTES: u64 = 512 << 20;
/// How long a rate is measured in one round, at least.
const WHILE: Duration = Duration::from_millis(40);
/// Rounds, at least and at most.
const FEWEST: usize = 5;
const MOST: usize = 15;
/// Rounds end once the rates of every candidate lie so near to each other, as a share.
const STEADY: f64 = 0.03;

/// The rates of each plan; none if the run was stopped.
///
/// Plans take turns, round by round, and the median of the rounds counts: what else the machine does
/// meanwhile falls on all of them alike.
pub(super) fn measure(bench: &Bench<'_>, whole: &[Sampled]) -> anyhow::Result<Vec<Rates>> {
    let mut turns = Vec::with_capacity(bench.plans.len());
    let mut all = Vec::with_capacity(bench.plans.len());
    let mut bytes = 0;
    for plan in 0..bench.plans.len() {
        let records = if bench.is_cancelled() { Vec::new() } else { some_records(bench, whole, plan) };
        bytes += records.iter().map(|record| record.record.len() as u64).sum::<u64>();
        turns.push(Turn { plan, records, one: Vec::new(), all: Vec::new() });
        if bytes >= TURN_BYTES || plan + 1 == bench.plans.len() {
            take_turns(bench, &mut turns)?;
            all.extend(turns.drain(..).map(|turn| turn.rates()));
            bytes = 0;
        }
    }
    Ok(all)
}

/// A plan, its records, and the rates of the rounds.
struct Turn {
    plan: usize,
    /// Empty for a plan that cannot be timed.
    records: Vec<EncodedSample<Tally>>,
    one: Vec<f64>,
    all: Vec<f64>,
}

impl Turn {
    fn rates(mut self) -> Rates {
        let spread = spread(&mut self.all);
        Rates {
            decode_one_core_per_s: median(&mut self.one),
            decode_all_cores_per_s: median(&mut self.all),
            decode_spread: spread,
            ..Rates::default()
        }
    }

    fn is_steady(&self) -> bool {
        spread(&mut self.all.clone()).is_none_or(|spread| spread <= STEADY)
    }
}

fn take_turns(bench: &Bench<'_>, turns: &mut [Turn]) -> anyhow::Result<()> {
    for round in 0..MOST {
        (bench.hooks.on_progress)(round as u64, MOST as u64, "timing");
        if bench.is_cancelled() || (round >= FEWEST && turns.iter().all(Turn::is_steady)) {
            return Ok(());
        }
        for turn in turns.iter_mut().filter(|turn| !turn.records.is_empty()) {
            let one = rate(bench, turn.plan, &turn.records, 1)?;
            let all = match bench.options.threads {
                1 => one,
                threads => rate(bench, turn.plan, &turn.records, threads)?,
            };
            let (Some(one), Some(all)) = (one, all) else {
                // They do not decode.
                turn.records.clear();
                continue;
            };
            turn.one.push(one);
            turn.all.push(all);
        }
    }
    Ok(())
}

fn median(rates: &mut [f64]) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// Half of the range of the middle half, as a share of the median; `None` of fewer than four.
fn spread(rates: &mut [f64]) -> Option<f64> {
    let median = median(rates).filter(|median| *median > 0.0)?;
    let quarter = rates.len() / 4;
    let (low, high) = (rates.get(quarter)?, rates.get(rates.len() - 1 - quarter)?);
    (quarter > 0).then(|| (high - low) / 2.0 / median)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_changes_no_rate() {
        let turn = |all: &[f64]| Turn { plan: 0, records: Vec::new(), one: all.to_vec(), all: all.to_vec() };
        let rates = turn(&[722.0, 700.0, 300.0, 716.0, 718.0]).rates();
        assert_eq!(rates.decode_all_cores_per_s, Some(716.0));
        assert!(rates.decode_spread.unwrap() < 0.02, "{rates:?}");
        assert!(turn(&[722.0, 700.0, 300.0, 716.0, 718.0]).is_steady());
        assert!(!turn(&[722.0, 916.0, 618.0, 900.0, 640.0]).is_steady());
        assert_eq!(turn(&[]).rates(), Rates::default());
        assert_eq!(turn(&[5.0]).rates().decode_spread, None);
    }
}
