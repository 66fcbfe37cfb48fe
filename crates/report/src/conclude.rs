//! From rows to a verdict: distributions, the front, deltas between ladders, the choice.

use crate::data::{Better, Candidate, Content, Estimate, MEASURES, Measure, Report, Subject, Verdict};
use crate::stats::{bjontegaard_percent, distribution, pareto_front};
use crate::want::{Want, choose};
use crate::words;

/// The measure on which candidates are compared when one axis must do.
#[must_use]
pub const fn main_measure(content: Content) -> Measure {
    match content {
        Content::Pictures => Measure::Ssimulacra2,
        Content::Cubes => Measure::MaxAbsError,
    }
}

/// Fills in everything that follows from the rows, the rates and the predictions: distributions,
/// deltas, the front, and the verdict under `wants`. The command of the verdict is left as it is.
pub fn conclude(report: &mut Report, wants: &[Want], want_given: bool) {
    for candidate in &mut report.candidates {
        spread(candidate);
        candidate.meets = wants.iter().all(|want| want.is_met(candidate)) && candidate.failures.is_empty();
    }
    deltas(report);
    front(report);
    let choice = choose(&report.candidates, wants);
    let chosen = choice.map(|(position, _)| position);
    let met = choice.is_some_and(|(_, met)| met);
    let command = std::mem::take(&mut report.verdict.command);
    let want = wants.iter().map(ToString::to_string).collect();
    let mut verdict = Verdict { want, want_given, chosen, met, command, ..Verdict::default() };
    if let Some(candidate) = chosen.and_then(|position| report.candidates.get(position)) {
        verdict.sentence = sentence(report, candidate);
        verdict.reason = reason(report, candidate, &verdict);
    }
    report.verdict = verdict;
}

fn spread(candidate: &mut Candidate) {
    #[allow(clippy::cast_precision_loss, reason = "sizes of samples")]
    let bytes: Vec<(usize, f64)> = candidate.rows.iter().map(|row| (row.sample, row.bytes as f64)).collect();
    candidate.bytes = distribution(&bytes, Better::Lower);
    candidate.scores = MEASURES
        .into_iter()
        .filter_map(|measure| {
            let of = |row: &crate::data::Row| Some((row.sample, *row.scores.get(&measure)?));
            let values: Vec<_> = candidate.rows.iter().filter_map(of).collect();
            Some((measure, distribution(&values, measure.better())?))
        })
        .collect();
}

/// Each ladder against the first one: ladders are groups of more than one candidate.
fn deltas(report: &mut Report) {
    let measure = match report.content {
        Content::Pictures => Measure::Ssimulacra2,
        // An error has no scale on which an average over a ladder means much; decibels have.
        Content::Cubes => Measure::Psnr,
    };
    let mut ladders: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for candidate in report.candidates.iter().filter(|candidate| !candidate.lossless) {
        let (Some(bytes), Some(score)) = (candidate.bytes, candidate.scores.get(&measure)) else { continue };
        let point = (bytes.mean, score.mean);
        match ladders.iter_mut().find(|(group, _)| *group == candidate.group) {
            Some((_, points)) => points.push(point),
            None => ladders.push((candidate.group.clone(), vec![point])),
        }
    }
    ladders.retain(|(_, points)| points.len() > 1);
    let Some((reference, reference_points)) = ladders.first().cloned() else { return };
    for candidate in report.candidates.iter_mut().filter(|candidate| candidate.group != reference) {
        let own = ladders.iter().find(|(group, _)| *group == candidate.group);
        candidate.bjontegaard_percent = own.and_then(|(_, points)| bjontegaard_percent(&reference_points, points));
    }
}

fn front(report: &mut Report) {
    let measure = main_measure(report.content);
    let score = |candidate: &Candidate| match measure {
        Measure::MaxAbsError if candidate.lossless => Some(0.0),
        Measure::Ssimulacra2 if candidate.lossless => Some(100.0),
        _ => candidate.scores.get(&measure).map(|spread| spread.p10),
    };
    let points: Vec<_> = report
        .candidates
        .iter()
        .map(|candidate| (candidate.bytes.map_or(f64::INFINITY, |bytes| bytes.mean), score(candidate)))
        .collect();
    let on_front = pareto_front(&points, measure.better());
    for (candidate, on_front) in report.candidates.iter_mut().zip(on_front) {
        candidate.on_front = on_front && !candidate.rows.is_empty();
    }
}

/// `Pack with q85. 110 GB become 26 GB. Nine of ten samples …. Loading is 1.9 times as fast as …`, in
/// sentences that each say one thing.
fn sentence(report: &Report, candidate: &Candidate) -> String {
    let (named, become_) = match report.subject {
        Subject::Sources => ("Pack with", "become"),
        Subject::Dataset => ("Stored as", "became"),
    };
    let mut sentences = vec![format!("{named} {}.", candidate.name)];
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let before = report.whole.source_bytes as f64;
    if let Some(Estimate { value, .. }) = candidate.predictions.bytes {
        let after = words::bytes(value);
        sentences.push(match report.subject {
            // Of a dataset without its sources the size before is not known.
            Subject::Dataset if report.whole.is_alone(value) => format!("It takes {after}."),
            Subject::Sources | Subject::Dataset => format!("{} {become_} {after}.", words::bytes(before)),
        });
    }
    let measure = main_measure(report.content);
    match candidate.scores.get(&measure) {
        _ if candidate.lossless => sentences.push("No value is lost.".to_owned()),
        Some(spread) if measure.better() == Better::Higher => sentences.push(format!(
            "Nine of ten samples reach {} {}, and the worst has {}.",
            measure.title(),
            words::score(measure, spread.p10),
            words::score(measure, spread.worst)
        )),
        Some(spread) => {
            let error = words::score(measure, spread.worst);
            sentences.push(format!("No value that was compared is off by more than {error}."));
            if let Some(angle) = candidate.scores.get(&Measure::SpectralAngle) {
                let angle = words::score_and_unit(Measure::SpectralAngle, angle.worst);
                sentences.push(format!("Averaged over a sample, spectra are turned by at most {angle}."));
            }
        }
        None => {}
    }
    if let Some(first) = report.candidates.first().filter(|first| first.number != candidate.number)
        && let (Some(own), Some(before)) = (candidate.predictions.load_per_s, first.predictions.load_per_s)
    {
        sentences.push(speed(own / before, &first.name));
    }
    sentences.join(" ")
}

/// How fast samples are loaded, beside another candidate.
fn speed(ratio: f64, than: &str) -> String {
    let times = words::significant(ratio.max(1.0 / ratio), 2);
    match ratio >= 1.0 {
        _ if times == "1.0" => format!("Loading is as fast as with {than}."),
        true => format!("Loading is {times} times as fast as with {than}."),
        false => format!("Loading takes {times} times as long as with {than}."),
    }
}

fn reason(report: &Report, candidate: &Candidate, verdict: &Verdict) -> String {
    if report.subject == Subject::Dataset {
        return String::new();
    }
    let measured = report.candidates.iter().filter(|candidate| !candidate.rows.is_empty()).count();
    let meeting = report.candidates.iter().filter(|candidate| candidate.meets).count();
    let rule = verdict.want.join(" and ");
    match (verdict.want.is_empty(), verdict.met, candidate.lossless) {
        (true, ..) => format!("It is the smallest of {}.", words::plural(measured as u64, "candidate")),
        (_, true, _) if meeting == 1 => {
            format!("Of {} only this one meets {rule}.", words::plural(measured as u64, "candidate"))
        }
        (_, true, _) => {
            format!("{meeting} of {measured} candidates meet {rule}. This one is the smallest of them.")
        }
        (_, false, true) => format!("No candidate meets {rule}. Of those that lose nothing, this one is the smallest."),
        (_, false, false) => format!("No candidate meets {rule}. This one comes closest."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_said_the_way_round_that_reads_well() {
        for (ratio, expected) in [
            (1.9, "Loading is 1.9 times as fast as with tile."),
            (1.01, "Loading is as fast as with tile."),
            (0.99, "Loading is as fast as with tile."),
            (0.25, "Loading takes 4.0 times as long as with tile."),
            (31.4, "Loading is 31 times as fast as with tile."),
        ] {
            assert_eq!(speed(ratio, "tile"), expected);
        }
    }
}
