//! Parses the conditions of a verdict, such as `ssimulacra2.p10>=80`, and chooses among the candidates that meet them.

use crate::data::{Better, Candidate, Distribution, Measure};
use std::fmt;

/// A condition that a candidate should meet.
#[derive(Debug, Clone, PartialEq)]
pub struct Want {
    subject: Subject,
    at_least: bool,
    value: f64,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Condition on the predicted size of the whole set in bytes.
    Size,
    Score(Measure, Statistic),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statistic {
    Worst,
    P1,
    P10,
    Median,
}

impl Statistic {
    fn of(self, spread: &Distribution) -> f64 {
        match self {
            Self::Worst => spread.worst,
            Self::P1 => spread.p1,
            Self::P10 => spread.p10,
            Self::Median => spread.median,
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Want {
    /// Parses `MEASURE[.worst|.p1|.p10|.median]>=VALUE`, the same with `<=`, or `size<=BYTES`. The default statistic
    /// is the worst sample. `size_of` parses a number of bytes with its unit.
    ///
    /// ```
    /// use shardpack_report::want::Want;
    /// let bytes = |text: &str| text.parse().map_err(|_| String::from("no number"));
    /// assert_eq!(Want::parse("ssimulacra2.p10 >= 80", &bytes).unwrap().to_string(), "ssimulacra2.p10>=80");
    /// assert!(Want::parse("ssimulacra2.mean>=80", &bytes).unwrap_err().contains("nine of ten"));
    /// ```
    ///
    /// # Errors
    /// A message that states the expected and the found value.
    pub fn parse(text: &str, size_of: &dyn Fn(&str) -> Result<u64, String>) -> Result<Self, String> {
        let fail = || {
            let found = text.escape_debug();
            format!(
                "expected a condition such as ssimulacra2.p10>=80, max_abs_error<=0.002 or size<=30GB, found `{found}`"
            )
        };
        let (at_least, (left, right)) = match (text.split_once(">="), text.split_once("<=")) {
            (Some(parts), None) => (true, parts),
            (None, Some(parts)) => (false, parts),
            _ => return Err(fail()),
        };
        let (left, right) = (left.trim(), right.trim());
        let normal = format!("{left}{}{right}", if at_least { ">=" } else { "<=" });
        if left == "size" {
            if at_least {
                return Err(format!("a condition on the size must be size<=BYTES, not `{}`", text.escape_debug()));
            }
            #[allow(clippy::cast_precision_loss, reason = "compared with a prediction")]
            let value = size_of(right)? as f64;
            return Ok(Self { subject: Subject::Size, at_least, value, text: normal });
        }
        let (measure, statistic) = left.split_once('.').unwrap_or((left, "worst"));
        let measure: Measure = measure.parse()?;
        let statistic = match statistic {
            "worst" => Statistic::Worst,
            "p1" => Statistic::P1,
            "p10" => Statistic::P10,
            "median" => Statistic::Median,
            "mean" => {
                return Err(format!(
                    "a mean hides the worst samples: use {measure}.worst, .p1, .p10 (nine of ten samples are \
                     at least as good) or .median"
                ));
            }
            other => {
                return Err(format!(
                    "expected {measure}.worst, .p1, .p10 or .median, found `{}`",
                    other.escape_debug()
                ));
            }
        };
        if at_least != (measure.better() == Better::Higher) {
            let (sign, better) = if at_least { ("<=", "smaller") } else { (">=", "larger") };
            return Err(format!("{better} values of {measure} are better, so `{normal}` must use `{sign}`"));
        }
        let value: f64 = right.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(fail)?;
        Ok(Self { subject: Subject::Score(measure, statistic), at_least, value, text: normal })
    }

    /// Returns true if a candidate meets the condition. Lossless candidates meet all conditions on measures. A lossy
    /// candidate without the measure does not meet the condition.
    #[must_use]
    pub fn is_met(&self, candidate: &Candidate) -> bool {
        let value = match self.subject {
            Subject::Size => candidate.predictions.bytes.map(|bytes| bytes.value),
            Subject::Score(..) if candidate.lossless => return true,
            Subject::Score(measure, statistic) => candidate.scores.get(&measure).map(|spread| statistic.of(spread)),
        };
        value.is_some_and(|value| if self.at_least { value >= self.value } else { value <= self.value })
    }

    /// Returns the measure in the condition, if there is one.
    #[must_use]
    pub const fn measure(&self) -> Option<Measure> {
        match self.subject {
            Subject::Size => None,
            Subject::Score(measure, _) => Some(measure),
        }
    }
}

/// Returns the position of the recommended candidate, and true if it meets all conditions. The recommendation is the
/// candidate with the smallest predicted size among those that meet all conditions. If no candidate meets all
/// conditions, the recommendation is the smallest lossless candidate. Without a lossless candidate, it is the
/// candidate that meets the most conditions. Candidates that cannot store every sample come last.
#[must_use]
pub fn choose(candidates: &[Candidate], wants: &[Want]) -> Option<(usize, bool)> {
    let met = |candidate: &Candidate| wants.iter().filter(|want| want.is_met(candidate)).count();
    let bytes = |candidate: &Candidate| candidate.predictions.bytes.map_or(f64::INFINITY, |bytes| bytes.value);
    let key = |candidate: &Candidate| {
        let all = met(candidate) == wants.len();
        let rank = match (all, candidate.lossless) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2 + wants.len() - met(candidate),
        };
        (!candidate.failures.is_empty(), rank)
    };
    candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| !candidate.rows.is_empty())
        .min_by(|(_, a), (_, b)| key(a).cmp(&key(b)).then(bytes(a).total_cmp(&bytes(b))))
        .map(|(position, candidate)| (position, candidate.failures.is_empty() && met(candidate) == wants.len()))
}

/// A candidate with less loss is preferred if it is at most this many times as large as the smallest candidate.
pub const COSTS_LITTLE: f64 = 2.0;
/// Candidates of the same kind count as equally small if they are at most this many times as large as the smallest.
const AS_SMALL: f64 = 1.25;

/// Returns the recommended candidate for cubes if the user gave no conditions. It meets `wants`, has little loss, and
/// is not much larger than the smallest candidate that meets them. If no candidate meets `wants`, the choice is the
/// same as in [`choose`].
///
/// Lossless candidates are preferred over float16. float16 is preferred over fixed point, because the error of
/// float16 is smaller for smaller values. A preferred kind may be at most [`COSTS_LITTLE`] times as large as the
/// smallest candidate, so precision is given up only if this halves the bytes. Within a kind, the choice is the first
/// candidate of the ladder that is at most a quarter larger than the smallest. This favours the codec that `pack`
/// itself would choose, because it comes first and decodes faster.
#[must_use]
pub fn choose_careful(candidates: &[Candidate], wants: &[Want]) -> Option<(usize, bool)> {
    let bytes = |candidate: &Candidate| candidate.predictions.bytes.map_or(f64::INFINITY, |bytes| bytes.value);
    let loss = |candidate: &Candidate| match candidate.options.get("values").map(String::as_str) {
        _ if candidate.lossless => 0,
        Some("f16") => 1,
        _ => 2,
    };
    let meets = |candidate: &Candidate| {
        !candidate.rows.is_empty() && candidate.failures.is_empty() && wants.iter().all(|want| want.is_met(candidate))
    };
    let meeting: Vec<(usize, &Candidate)> =
        candidates.iter().enumerate().filter(|(_, candidate)| meets(candidate)).collect();
    let smallest = |kind: Option<u32>| {
        let of_kind = meeting.iter().filter(|(_, candidate)| kind.is_none_or(|kind| loss(candidate) == kind));
        of_kind.map(|(_, candidate)| bytes(candidate)).reduce(f64::min)
    };
    let kind = smallest(None).and_then(|all| {
        (0..3).find(|&kind| smallest(Some(kind)).is_some_and(|smallest| smallest <= COSTS_LITTLE * all))
    });
    let Some((kind, of_kind)) = kind.and_then(|kind| Some((kind, smallest(Some(kind))?))) else {
        return choose(candidates, wants);
    };
    let most = smallest(None).map_or(f64::INFINITY, |all| (AS_SMALL * of_kind).min(COSTS_LITTLE * all));
    let chosen = meeting.iter().find(|(_, candidate)| loss(candidate) == kind && bytes(candidate) <= most);
    chosen.map(|(position, _)| (*position, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Estimate, FailedSample, StoredSample};

    fn want(text: &str) -> Result<Want, String> {
        Want::parse(text, &|bytes| bytes.strip_suffix("GB").unwrap_or(bytes).parse().map_err(|_| "no size".to_owned()))
    }

    fn candidate(bytes: f64, score: f64) -> Candidate {
        let spread = Distribution { count: 1, p10: score, worst: score - 5.0, ..Distribution::default() };
        Candidate {
            rows: vec![StoredSample::default()],
            scores: [(Measure::Ssimulacra2, spread)].into(),
            predictions: crate::data::Predictions {
                bytes: Some(Estimate { value: bytes, low: bytes, high: bytes }),
                ..Default::default()
            },
            ..Candidate::default()
        }
    }

    #[test]
    fn conditions_are_read_and_wrong_ones_named() {
        assert_eq!(want(" size <= 30GB ").unwrap().to_string(), "size<=30GB");
        assert_eq!(want("max_abs_error<=0.002").unwrap().measure(), Some(Measure::MaxAbsError));
        for (text, part) in [
            ("ssimulacra2", "expected a condition"),
            ("ssim2>=3", "no measure `ssim2`"),
            ("ssimulacra2.p10<=80", "larger values of ssimulacra2 are better"),
            ("spectral_angle_p99>=1", "smaller values of spectral_angle_p99 are better"),
            ("ssimulacra2.p11>=80", "found `p11`"),
            ("ssimulacra2.p10>=nan", "expected a condition"),
            ("size>=3", "size<=BYTES"),
            ("size<=lots", "no size"),
        ] {
            let error = want(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_smallest_that_meets_all_is_chosen() {
        let all = [candidate(100.0, 95.0), candidate(50.0, 82.0), candidate(40.0, 79.0)];
        let p10 = [want("ssimulacra2.p10>=80").unwrap()];
        assert_eq!(choose(&all, &p10), Some((1, true)));
        assert_eq!(choose(&all, &[want("ssimulacra2>=80").unwrap()]), Some((0, true)));
        assert_eq!(choose(&all, &[]), Some((2, true)));
        assert!(!choose(&all, &[p10[0].clone(), want("size<=10").unwrap()]).unwrap().1);
        assert_eq!(choose(&[], &p10), None);
        // A lossless candidate meets all conditions on scores. It is also the fallback if no candidate meets
        // all conditions.
        let tile = Candidate { lossless: true, ..candidate(120.0, 100.0) };
        let strict = [want("ssimulacra2>=99").unwrap()];
        assert_eq!(choose(&[all[0].clone(), tile.clone()], &strict), Some((1, true)));
        let impossible = [want("size<=1").unwrap()];
        assert_eq!(choose(&[all[0].clone(), tile], &impossible), Some((1, false)));
        let failing =
            Candidate { failures: vec![FailedSample { sample: 0, reason: "x".into() }], ..candidate(1.0, 100.0) };
        assert_eq!(choose(&[failing, all[0].clone()], &p10), Some((1, true)));
    }

    #[test]
    fn a_careful_choice_loses_no_more_than_it_must() {
        let of = |values: &str, bytes: f64, ratio: f64, angle: f64| Candidate {
            lossless: ratio == 0.0,
            options: [("values".to_owned(), values.to_owned())].into(),
            scores: [(Measure::NoiseRatio, ratio), (Measure::SpectralAngleP99, angle)]
                .map(|(measure, worst)| (measure, Distribution { worst, ..Distribution::default() }))
                .into(),
            ..candidate(bytes, 100.0)
        };
        let wants = ["noise_ratio<=1", "spectral_angle_p99<=0.5"].map(|text| want(text).unwrap());
        let careful = |all: &[Candidate]| choose_careful(all, &wants);
        let (keep, auto, slow) =
            (of("keep", 480.0, 0.0, 0.0), of("auto", 375.0, 0.0, 0.0), of("auto", 355.0, 0.0, 0.0));
        let half = |bytes| of("f16", bytes, 0.4, 0.01);
        // These two candidates are only a third as large, but unusable. One has errors above the noise of some
        // band, and the other has spectral angles that are too large.
        let (loud, turned) = (of("fixed", 118.0, 7.0, 0.2), of("fixed", 118.0, 0.9, 6.0));
        assert_eq!(careful(&[keep.clone(), auto.clone(), half(393.0), loud, turned, slow.clone()]), Some((1, true)));
        // The lossless candidate is chosen if float16 saves little, and float16 is chosen if it saves much.
        assert_eq!(careful(&[keep.clone(), auto.clone(), half(190.0)]), Some((1, true)));
        assert_eq!(careful(&[keep.clone(), auto.clone(), half(170.0)]), Some((2, true)));
        // Fixed point is chosen only if float16 is much larger or too coarse.
        let quiet = |bytes| of("fixed", bytes, 0.9, 0.1);
        assert_eq!(careful(&[keep.clone(), half(150.0), quiet(80.0)]), Some((1, true)));
        assert_eq!(careful(&[keep.clone(), half(150.0), quiet(70.0)]), Some((2, true)));
        assert_eq!(careful(&[keep.clone(), of("f16", 150.0, 1.5, 0.01), quiet(140.0)]), Some((2, true)));
        // A codec that decodes slowly is chosen only if it makes the data much smaller.
        assert_eq!(careful(&[keep.clone(), of("keep", 390.0, 0.0, 0.0)]), Some((0, true)));
        assert_eq!(careful(&[keep.clone(), of("keep", 370.0, 0.0, 0.0)]), Some((1, true)));
        // If no candidate meets all conditions, the candidate that meets the most conditions is recommended.
        assert_eq!(careful(&[of("f16", 10.0, 3.0, 0.01), of("fixed", 5.0, 2.0, 9.0)]), Some((0, false)));
        assert_eq!(careful(&[]), None);
    }
}
