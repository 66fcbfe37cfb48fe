//! Computes the distributions, the Pareto front, the deltas between ladders, and the verdict from the measurements.

use crate::data::{
    Better, Candidate, Distribution, Estimate, MEASURES, Measure, NO_NOISE, Report, SampleKind, Subject, Verdict,
};
use crate::stats::{bjontegaard_percent, distribution, pareto_front};
use crate::want::{COSTS_LITTLE, Want, choose, choose_careful};
use crate::words;

/// Returns the default measure for comparing candidates on a single axis.
#[must_use]
pub const fn main_measure(content: SampleKind) -> Measure {
    match content {
        SampleKind::Pictures => Measure::Ssimulacra2,
        SampleKind::Cubes => Measure::NoiseRatio,
    }
}

/// Returns the default conditions of the verdict.
///
/// For pictures, nine of ten samples must have an SSIMULACRA2 score of at least 80. For cubes, the largest
/// error in each band of each cube must not exceed that band's noise, and the spectral angle of 99 % of each
/// cube's pixels must be at most half a degree. For comparison, spectra within 0.1 rad of each other (about ten
/// times as much) usually count as one material.
#[must_use]
pub const fn default_conditions(content: SampleKind) -> &'static [&'static str] {
    match content {
        SampleKind::Pictures => &["ssimulacra2.p10>=80"],
        SampleKind::Cubes => &["noise_ratio<=1", "spectral_angle_p99<=0.5"],
    }
}

/// Computes the distributions, the deltas, the front, and the verdict for the conditions `wants`. Does not change the
/// command of the verdict.
pub fn conclude(report: &mut Report, wants: &[Want], want_given: bool) {
    for candidate in &mut report.candidates {
        spread(candidate);
        candidate.meets = wants.iter().all(|want| want.is_met(candidate)) && candidate.failures.is_empty();
    }
    deltas(report);
    front(report);
    let careful = report.content == SampleKind::Cubes && !want_given;
    let choice = match careful {
        true => choose_careful(&report.candidates, wants),
        false => choose(&report.candidates, wants),
    };
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
            let of = |row: &crate::data::StoredSample| Some((row.sample, *row.scores.get(&measure)?));
            let values: Vec<_> = candidate.rows.iter().filter_map(of).collect();
            Some((measure, distribution(&values, measure.better())?))
        })
        .collect();
}

/// Compares each ladder with the first one. A ladder is a group of two or more lossy candidates.
fn deltas(report: &mut Report) {
    let measure = match report.content {
        SampleKind::Pictures => Measure::Ssimulacra2,
        // PSNR in decibels can be averaged over a ladder. The other measures of cubes have no meaningful average.
        SampleKind::Cubes => Measure::Psnr,
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
        Measure::NoiseRatio if candidate.lossless => Some(0.0),
        Measure::Ssimulacra2 if candidate.lossless => Some(100.0),
        Measure::NoiseRatio => candidate.scores.get(&measure).map(|spread| spread.worst),
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

/// Writes the verdict in short sentences, such as `Pack with q85. 110 GB become 26 GB. Nine of ten samples ….
/// Loading is 1.9 times as fast as …`.
fn sentence(report: &Report, candidate: &Candidate) -> String {
    let (named, become_) = match report.subject {
        Subject::Sources => ("Pack with", "become"),
        Subject::Dataset => ("Stored as", "became"),
    };
    let mut sentences = vec![format!("{named} {}.", candidate.name)];
    #[allow(clippy::cast_precision_loss, reason = "only displayed")]
    let before = report.whole.source_bytes as f64;
    if let Some(Estimate { value, .. }) = candidate.predictions.bytes {
        let after = words::bytes(value);
        sentences.push(match report.subject {
            // The size before packing is unknown without the sources.
            Subject::Dataset if report.whole.is_alone(value) => format!("It takes {after}."),
            Subject::Sources | Subject::Dataset => format!("{} {become_} {after}.", words::bytes(before)),
        });
    }
    match report.content {
        _ if candidate.lossless => sentences.push("No value is lost.".to_owned()),
        SampleKind::Pictures => {
            sentences.extend(candidate.scores.get(&main_measure(report.content)).map(reached));
        }
        SampleKind::Cubes => {
            sentences.extend(smaller_than_lossless(report, candidate));
            sentences.extend(cost(candidate));
        }
    }
    if let Some(first) = report.candidates.first().filter(|first| first.number != candidate.number)
        && let (Some(own), Some(before)) = (candidate.predictions.load_per_s, first.predictions.load_per_s)
    {
        let said = speed(own / before, spread_of(candidate, first), &first.name);
        sentences.push(format!("Loading {said}."));
    }
    sentences.join(" ")
}

/// Describes the score that nine of ten samples reach. With few samples, the text mentions their number, because p10
/// may then be the worst sample.
fn reached(spread: &Distribution) -> String {
    let score = |value| words::score(Measure::Ssimulacra2, value);
    let (title, p10, worst) = (Measure::Ssimulacra2.title(), score(spread.p10), score(spread.worst));
    let rank = spread.rank_of_p10();
    match (spread.count, p10 == worst) {
        (1, _) => format!("The only sample that was drawn has {title} {worst}."),
        (2, true) => format!("Both samples that were drawn reach {title} {worst}."),
        (count, true) => format!("All {} samples that were drawn reach {title} {worst}.", words::count(count)),
        (count, false) if count < 100 => format!(
            "{} of the {count} samples that were drawn reach {title} {p10}, and the worst has {worst}.",
            count - rank + 1
        ),
        _ => format!("Nine of ten samples reach {title} {p10}, and the worst has {worst}."),
    }
}

fn smaller_than_lossless(report: &Report, candidate: &Candidate) -> Option<String> {
    let size = |candidate: &Candidate| candidate.predictions.bytes.map(|bytes| bytes.value);
    let lossless = report.candidates.iter().filter(|other| other.lossless && other.number != candidate.number);
    let (than, bytes) = lossless.filter_map(|other| Some((other, size(other)?))).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let own = size(candidate)?;
    let (ratio, title) = (bytes / own.max(1.0), format!("#{} {}", than.number, than.name));
    let times = words::significant(ratio.max(1.0 / ratio), 2);
    Some(match ratio >= 1.0 {
        true => format!("That is {times}{}× smaller than without loss ({title}).", words::NBSP),
        false => format!("That is {times}{}× larger than without loss ({title}).", words::NBSP),
    })
}

fn cost(candidate: &Candidate) -> Option<String> {
    let worst = |measure: Measure| candidate.scores.get(&measure).map(|spread| spread.worst);
    let said = |measure: Measure| worst(measure).map(|value| words::score_and_unit(measure, value));
    let error = match worst(Measure::NoiseRatio) {
        Some(ratio) if ratio >= NO_NOISE => "A noise-free band has errors, but should have none".to_owned(),
        Some(ratio) if ratio <= 1.0 => {
            format!("No error exceeds {} times the noise of its band", words::significant(ratio, 2))
        }
        Some(ratio) => {
            format!("The error reaches {}{}× the noise of a band", words::significant(ratio, 2), words::NBSP)
        }
        None => format!("No compared value differs by more than {}", said(Measure::MaxAbsError)?),
    };
    Some(match (said(Measure::SpectralAngleP99), said(Measure::SpectralAngleMax)) {
        (Some(most), Some(all)) => {
            format!(
                "{error}. The spectral angle to the original is at most {most} for 99 % of the pixels of each sample, \
                 and at most {all} for all."
            )
        }
        (None, Some(all)) => format!("{error}. The spectral angle to the original is at most {all}."),
        _ => format!("{error}."),
    })
}

/// Returns the relative difference between two decoding rates that chance alone may cause, as a fraction.
pub(crate) fn spread_of(one: &Candidate, other: &Candidate) -> f64 {
    [one, other].into_iter().filter_map(|one| one.rates.decode_spread).sum()
}

/// Describes a ratio of two rates. The rates count as equal if they differ by at most `spread`.
pub(crate) fn speed(ratio: f64, spread: f64, than: &str) -> String {
    let larger = ratio.max(1.0 / ratio);
    let times = words::significant(larger, 2);
    match ratio >= 1.0 {
        _ if times == "1.0" || larger - 1.0 <= spread => format!("is as fast as with {than}"),
        true => format!("is {times} times as fast as with {than}"),
        false => format!("takes {times} times as long as with {than}"),
    }
}

fn reason(report: &Report, candidate: &Candidate, verdict: &Verdict) -> String {
    if report.subject == Subject::Dataset {
        return String::new();
    }
    let measured = report.candidates.iter().filter(|candidate| !candidate.rows.is_empty()).count();
    let meeting = report.candidates.iter().filter(|candidate| candidate.meets).count();
    let rule = verdict.want.join(" and ");
    if report.content == SampleKind::Cubes && !verdict.want_given && verdict.met {
        return careful_reason(report, candidate, measured, meeting);
    }
    match (verdict.want.is_empty(), verdict.met, candidate.lossless) {
        (true, ..) => format!("It is the smallest of {}.", words::plural(measured as u64, "candidate")),
        (_, true, _) if meeting == 1 => {
            format!("Only this one of {} meets {rule}.", words::plural(measured as u64, "candidate"))
        }
        (_, true, _) => {
            format!("{meeting} of {measured} candidates meet {rule}. This one is the smallest.")
        }
        (_, false, true) => format!("No candidate meets {rule}. This one is the smallest lossless candidate."),
        (_, false, false) => format!("No candidate meets {rule}. This one comes closest."),
    }
}

/// Explains the recommendation, and describes the loss of the smallest candidate that was rejected.
fn careful_reason(report: &Report, candidate: &Candidate, measured: usize, meeting: usize) -> String {
    let size = |candidate: &Candidate| candidate.predictions.bytes.map_or(f64::INFINITY, |bytes| bytes.value);
    let kept = words::plural(measured as u64, "candidate");
    let which = if meeting == measured { format!("All {kept}") } else { format!("{meeting} of {kept}") };
    let (keep, change) = if meeting == 1 { ("keeps", "changes") } else { ("keep", "change") };
    let mut sentences =
        vec![format!("{which} {keep} errors within the noise of each band and hardly {change} the spectra.")];
    let is_lossy = |other: &&Candidate| other.meets && !other.lossless;
    sentences.extend(match (candidate.lossless, report.candidates.iter().any(|other| is_lossy(&other))) {
        (true, false) => None,
        (true, true) => Some(format!("Acceptable lossy candidates are smaller by at most a factor of {COSTS_LITTLE}.")),
        (false, _) => Some(format!(
            "Lossless candidates are larger than the smallest of these by more than a factor of {COSTS_LITTLE}."
        )),
    });
    let refused = report.candidates.iter().filter(|other| !other.meets && !other.rows.is_empty());
    if let Some(other) = refused.min_by(|a, b| size(a).total_cmp(&size(b)))
        && let Some(cost) = cost(other)
        && size(other) < size(candidate)
    {
        let times = words::significant(size(candidate) / size(other).max(1.0), 2);
        let nbsp = words::NBSP;
        sentences.push(format!("#{} {} would be {times}{nbsp}× smaller still. {cost}", other.number, other.name));
    }
    sentences.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_are_counted() {
        let of = |count, p10, worst| {
            reached(&Distribution { count, p10, worst, ..Distribution::default() }).replace('\u{a0}', " ")
        };
        for (spread, expected) in [
            ((1, 80.4, 80.4), "The only sample that was drawn has SSIMULACRA2 80.4."),
            ((2, 80.0, 80.0), "Both samples that were drawn reach SSIMULACRA2 80.0."),
            ((3, 80.0, 80.0), "All 3 samples that were drawn reach SSIMULACRA2 80.0."),
            ((10, 81.0, 81.0), "All 10 samples that were drawn reach SSIMULACRA2 81.0."),
            ((15, 82.0, 79.5), "14 of the 15 samples that were drawn reach SSIMULACRA2 82.0, and the worst has 79.5."),
            ((1000, 80.03, 80.0), "All 1,000 samples that were drawn reach SSIMULACRA2 80.0."),
            ((1000, 82.0, 71.0), "Nine of ten samples reach SSIMULACRA2 82.0, and the worst has 71.0."),
        ] {
            let (count, p10, worst) = spread;
            assert_eq!(of(count, p10, worst), expected);
        }
    }

    #[test]
    fn the_loss_is_described_for_bands_and_pixels() {
        let of = |worst: [f64; 3]| {
            let measures = [Measure::NoiseRatio, Measure::SpectralAngleP99, Measure::SpectralAngleMax];
            let scores = measures.into_iter().zip(worst.map(|worst| Distribution { worst, ..Distribution::default() }));
            cost(&Candidate { scores: scores.collect(), ..Candidate::default() }).unwrap().replace('\u{a0}', " ")
        };
        assert_eq!(
            of([0.82, 0.02, 0.3]),
            "No error exceeds 0.82 times the noise of its band. The spectral angle to the original is at most 0.0200° \
             for 99 % of the pixels of each sample, and at most 0.300° for all."
        );
        assert!(of([7.5, 6.0, 16.0]).starts_with("The error reaches 7.5 × the noise of a band. "));
        let exact = "A noise-free band has errors, but should have none. ";
        assert!(of([NO_NOISE, 6.0, 16.0]).starts_with(exact));
    }

    #[test]
    fn speeds_are_described_as_faster_or_slower() {
        for (ratio, expected) in [
            (1.9, "is 1.9 times as fast as with tile"),
            (1.01, "is as fast as with tile"),
            (0.99, "is as fast as with tile"),
            (0.25, "takes 4.0 times as long as with tile"),
            (31.4, "is 31 times as fast as with tile"),
        ] {
            assert_eq!(speed(ratio, 0.0, "tile"), expected);
        }
        assert_eq!(speed(1.2, 0.25, "tile"), "is as fast as with tile");
    }
}
