//! Measures how fast the candidates can be decoded, on one core and on all cores.

use super::measure::{Measurement, Scorer};
use super::sampled::Sampled;
use crate::pack::FidelityTotals;
use shardpack_report::data::Rates;
use shardpack_writer::EncodedSample;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Limits on the samples that are decoded repeatedly: their number, their total bytes (at least one sample is
/// used), and the total bytes of all candidates that are timed together.
const SAMPLES: usize = 16;
const BYTES: u64 = 64 << 20;
const TURN_BYTES: u64 = 512 << 20;
/// Bounds on the time to measure one rate in one round. Within these bounds, timing takes about a
/// quarter as long as encoding and scoring, so that it does not delay small reports.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(40);
const SHARE_OF_WORK: f64 = 0.25;
const FEWEST: usize = 5;
const MOST: usize = 15;
/// Stop timing once the rates of every candidate vary by at most this share.
const STEADY: f64 = 0.03;

/// Returns the rates of each candidate, or nothing if the run was cancelled.
///
/// Candidates take turns, and the result is the median over all rounds, so that other load on the machine
/// affects all candidates equally.
pub(super) fn measure(measurement: &Measurement<'_>, whole: &[Sampled]) -> Vec<Rates> {
    let mut turns = Vec::with_capacity(measurement.recipes.len());
    let mut all = Vec::with_capacity(measurement.recipes.len());
    let mut bytes = 0;
    let window = window(whole, measurement.recipes.len());
    for candidate in 0..measurement.recipes.len() {
        let records = if measurement.is_cancelled() { Vec::new() } else { some_records(measurement, whole, candidate) };
        bytes += records.iter().map(|record| record.record.len() as u64).sum::<u64>();
        turns.push(Turn { candidate, records, one: Vec::new(), all: Vec::new() });
        if bytes >= TURN_BYTES || candidate + 1 == measurement.recipes.len() {
            take_turns(measurement, &mut turns, window);
            all.extend(turns.drain(..).map(|turn| turn.rates()));
            bytes = 0;
        }
    }
    all
}

fn window(whole: &[Sampled], candidates: usize) -> Duration {
    let encoding = whole.iter().flat_map(Sampled::records).map(|record| record.encode_s).sum::<f64>();
    let scoring = whole.iter().map(|sampled| sampled.scoring_s).sum::<f64>();
    #[allow(clippy::cast_precision_loss, reason = "a count of rates")]
    let rates = (candidates.max(1) * 2 * FEWEST) as f64;
    let share = Duration::try_from_secs_f64((encoding + scoring) * SHARE_OF_WORK / rates);
    share.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST)
}

/// A candidate's records, and the rates measured so far on one core and on all cores.
struct Turn {
    candidate: usize,
    /// Records of the candidate, or none if it cannot be timed.
    records: Vec<EncodedSample<FidelityTotals>>,
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

fn take_turns(measurement: &Measurement<'_>, turns: &mut [Turn], window: Duration) {
    for round in 0..MOST {
        (measurement.hooks.on_progress)(round as u64, MOST as u64, "timing");
        if measurement.is_cancelled() || (round >= FEWEST && turns.iter().all(Turn::is_steady)) {
            return;
        }
        for turn in turns.iter_mut().filter(|turn| !turn.records.is_empty()) {
            let one = rate(measurement, turn.candidate, &turn.records, 1, window);
            let all = match measurement.options.threads {
                1 => one,
                threads => rate(measurement, turn.candidate, &turn.records, threads, window),
            };
            let (Some(one), Some(all)) = (one, all) else {
                turn.records.clear();
                continue;
            };
            turn.one.push(one);
            turn.all.push(all);
        }
    }
}

fn median(rates: &mut [f64]) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// Returns half of the interquartile range as a share of the median, or `None` for fewer than four rates.
fn spread(rates: &mut [f64]) -> Option<f64> {
    let median = median(rates).filter(|median| *median > 0.0)?;
    let quarter = rates.len() / 4;
    let (low, high) = (rates.get(quarter)?, rates.get(rates.len() - 1 - quarter)?);
    (quarter > 0).then(|| (high - low) / 2.0 / median)
}

fn some_records(
    measurement: &Measurement<'_>,
    whole: &[Sampled],
    candidate: usize,
) -> Vec<EncodedSample<FidelityTotals>> {
    let stored = whole.iter().filter(|sampled| sampled.record(candidate).is_some());
    let positions: Vec<usize> = stored.map(|sampled| sampled.position).collect();
    let mut records: Vec<EncodedSample<FidelityTotals>> = Vec::new();
    let mut bytes = 0;
    for &position in positions.iter().step_by(positions.len().div_ceil(SAMPLES).max(1)) {
        let Some(record) = measurement.again(candidate, position) else { continue };
        bytes += record.record.len() as u64;
        if bytes > BYTES && !records.is_empty() {
            break;
        }
        records.push(record);
    }
    records
}

/// Returns the number of samples that `threads` threads decode per second, or `None` if decoding fails.
fn rate(
    measurement: &Measurement<'_>,
    candidate: usize,
    records: &[EncodedSample<FidelityTotals>],
    threads: usize,
    window: Duration,
) -> Option<f64> {
    let mut scorers: Vec<_> = (0..threads).map(|_| measurement.scorer()).collect();
    let mut warm = Vec::new();
    for scorer in &mut scorers {
        if let Some(first) = records.first()
            && decode(scorer, measurement, candidate, first, &mut warm).is_err()
        {
            return None;
        }
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for scorer in &mut scorers {
            let (next, failed) = (&next, &failed);
            scope.spawn(move || {
                let mut out = Vec::new();
                while start.elapsed() < window || next.load(Ordering::Relaxed) < records.len() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(record) = records.get(at % records.len().max(1)) else { return };
                    let result = decode(scorer, measurement, candidate, record, &mut out);
                    failed.fetch_add(usize::from(result.is_err()), Ordering::Relaxed);
                }
            });
        }
    });
    #[allow(clippy::cast_precision_loss, reason = "a count for a rate")]
    let done = next.load(Ordering::Relaxed) as f64;
    (failed.load(Ordering::Relaxed) == 0).then(|| done / start.elapsed().as_secs_f64())
}

fn decode(
    scorer: &mut Scorer<'_>,
    measurement: &Measurement<'_>,
    candidate: usize,
    record: &EncodedSample<FidelityTotals>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match scorer {
        Scorer::Pictures(scorer) => {
            let encoder =
                measurement.prepared.get(candidate).and_then(|prepared| prepared.as_ref().ok()).ok_or("no encoder")?;
            scorer.decode(encoder, record, out).map(|_| ())
        }
        Scorer::Cubes(scorer) => scorer.decode(record).map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_work_is_timed_for_a_short_time() {
        let sampled = |scoring_s| [Sampled { position: 0, results: Vec::new(), unreadable: None, scoring_s }];
        assert_eq!(window(&sampled(0.001), 9), SHORTEST);
        assert_eq!(window(&sampled(3.6), 9), Duration::from_millis(10));
        assert_eq!(window(&sampled(1e9), 9), LONGEST);
        assert_eq!(window(&[], 0), SHORTEST);
    }

    #[test]
    fn one_slow_round_changes_no_rate() {
        let turn = |all: &[f64]| Turn { candidate: 0, records: Vec::new(), one: all.to_vec(), all: all.to_vec() };
        let rates = turn(&[722.0, 700.0, 300.0, 716.0, 718.0]).rates();
        assert_eq!(rates.decode_all_cores_per_s, Some(716.0));
        assert!(rates.decode_spread.unwrap() < 0.02, "{rates:?}");
        assert!(turn(&[722.0, 700.0, 300.0, 716.0, 718.0]).is_steady());
        assert!(!turn(&[722.0, 916.0, 618.0, 900.0, 640.0]).is_steady());
        assert_eq!(turn(&[]).rates(), Rates::default());
        assert_eq!(turn(&[5.0]).rates().decode_spread, None);
    }
}
