//! A view of the report, shared by all sections of the page.

use crate::data::{Candidate, Distribution, MEASURES, Measure, Report, SampleKind};
use crate::words;

#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) report: &'a Report,
    /// Main measure of the page. `None` if nothing was measured.
    pub(super) measure: Option<Measure>,
    /// Ladders in order of appearance. Each is a series in the plots.
    pub(super) groups: Vec<&'a str>,
}

/// A statistic of a distribution. Percentiles count from the worse end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statistic {
    Mean,
    Median,
    P10,
    P1,
    Worst,
}

impl Statistic {
    pub(super) const fn of(self, spread: &Distribution) -> f64 {
        match self {
            Self::Mean => spread.mean,
            Self::Median => spread.median,
            Self::P10 => spread.p10,
            Self::P1 => spread.p1,
            Self::Worst => spread.worst,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::P10 => "p10",
            Self::P1 => "p1",
            Self::Worst => "worst",
        }
    }
}

impl<'a> View<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        let taken = |measure: &Measure| report.candidates.iter().any(|c| c.scores.contains_key(measure));
        let wanted = report.verdict.want.iter().filter_map(|want| Some(condition(want)?.0));
        let usual = match report.content {
            SampleKind::Pictures => Measure::Ssimulacra2,
            SampleKind::Cubes => Measure::NoiseRatio,
        };
        let mut groups: Vec<&str> = Vec::new();
        for candidate in &report.candidates {
            if !groups.contains(&candidate.group.as_str()) {
                groups.push(&candidate.group);
            }
        }
        Self { report, measure: wanted.chain([usual]).chain(MEASURES).find(taken), groups }
    }

    /// Returns the recommended candidate. For a dataset, this is its stored form.
    pub(super) fn chosen(&self) -> Option<&'a Candidate> {
        self.report.candidates.get(self.report.verdict.chosen?)
    }

    pub(super) fn is_chosen(&self, candidate: &Candidate) -> bool {
        self.chosen().is_some_and(|chosen| std::ptr::eq(chosen, candidate))
    }

    pub(super) fn series(&self, candidate: &Candidate) -> usize {
        self.groups.iter().position(|group| *group == candidate.group).unwrap_or(0)
    }

    /// Returns the statistic to plot for a measure. If a condition concerns this measure, returns the statistic
    /// in the condition, otherwise a default.
    pub(super) fn statistic(&self, measure: Measure) -> Statistic {
        let wanted = self.report.verdict.want.iter().filter_map(|want| condition(want));
        wanted.filter(|(m, ..)| *m == measure).map(|(_, statistic, _)| statistic).next().unwrap_or(match measure {
            Measure::Ssimulacra2 | Measure::Psnr | Measure::Ssim | Measure::Altered => Statistic::P10,
            _ => Statistic::Worst,
        })
    }

    /// Returns the levels of the plotted statistic that the conditions require.
    pub(super) fn levels(&self, measure: Measure) -> Vec<(f64, &'a str)> {
        let shown = self.statistic(measure);
        let all = self.report.verdict.want.iter().filter_map(|want| Some((condition(want)?, want.as_str())));
        all.filter(|((m, s, _), _)| *m == measure && *s == shown).map(|((.., value), want)| (value, want)).collect()
    }

    pub(super) fn key(&self, sample: usize) -> &'a str {
        self.report.samples.get(sample).map_or("", |sample| &sample.key)
    }

    /// Formats several measures, such as `SSIMULACRA2 71.2, PSNR 38.1 dB`.
    pub(super) fn scores<'m>(scores: impl IntoIterator<Item = (&'m Measure, &'m f64)>) -> String {
        let parts: Vec<String> =
            scores.into_iter().map(|(m, v)| format!("{} {}", m.title(), words::score_and_unit(*m, *v))).collect();
        parts.join(", ")
    }

    pub(super) fn title(candidate: &Candidate) -> String {
        format!("#{} {}", candidate.number, candidate.name)
    }
}

fn condition(want: &str) -> Option<(Measure, Statistic, f64)> {
    let (left, right) = want.split_once(">=").or_else(|| want.split_once("<="))?;
    let (measure, statistic) = left.trim().split_once('.').unwrap_or((left.trim(), "worst"));
    let all = [Statistic::Worst, Statistic::P1, Statistic::P10, Statistic::Median];
    let statistic = all.into_iter().find(|s| s.name() == statistic)?;
    Some((measure.parse().ok()?, statistic, right.trim().parse().ok()?))
}

/// Describes a statistic in a few words. With fewer than 100 samples, the text names the sample that has the
/// percentile's value, such as the second worst.
pub(super) fn said_of(statistic: Statistic, count: usize) -> String {
    let (percent, share) = match statistic {
        Statistic::Mean => return "mean of the samples".into(),
        Statistic::Worst => (0, ""),
        Statistic::Median => (50, "half of the samples are as bad or worse"),
        Statistic::P10 => (10, "one sample in ten is as bad or worse"),
        Statistic::P1 => (1, "one sample in a hundred is as bad or worse"),
    };
    match (count.saturating_mul(percent).div_ceil(100), count) {
        (_, 1) => "the only sample".into(),
        (0 | 1, _) => "worst sample".into(),
        (rank, count) if count < 100 => {
            let end = match (rank % 10, rank % 100) {
                (_, 11..=13) => "th",
                (1, _) => "st",
                (2, _) => "nd",
                (3, _) => "rd",
                _ => "th",
            };
            format!("the {rank}{end} worst of {count} samples")
        }
        _ => share.into(),
    }
}

pub(super) fn axis_name(measure: Measure, statistic: Statistic, count: usize) -> String {
    let (unit, which) = (measure.unit(), said_of(statistic, count));
    if unit.is_empty() {
        format!("{}, {which}", measure.title())
    } else {
        format!("{} ({unit}), {which}", measure.title())
    }
}

/// Returns the value to plot for a measure. Fractions are plotted in per cent.
pub(super) fn plotted(measure: Measure, value: f64) -> f64 {
    if measure.is_share() { value * 100.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_samples_a_percentile_is_one_of_them() {
        let p10 = |count| said_of(Statistic::P10, count);
        assert_eq!(
            [1, 2, 3, 10, 11, 30, 99, 1000].map(p10),
            [
                "the only sample",
                "worst sample",
                "worst sample",
                "worst sample",
                "the 2nd worst of 11 samples",
                "the 3rd worst of 30 samples",
                "the 10th worst of 99 samples",
                "one sample in ten is as bad or worse",
            ]
        );
        assert_eq!(said_of(Statistic::Median, 42), "the 21st worst of 42 samples");
        assert_eq!(
            (said_of(Statistic::P1, 64), said_of(Statistic::Worst, 64)),
            ("worst sample".into(), "worst sample".into())
        );
    }

    #[test]
    fn conditions_give_the_statistic_and_the_level() {
        assert_eq!(condition("ssimulacra2.p10>=80"), Some((Measure::Ssimulacra2, Statistic::P10, 80.0)));
        assert_eq!(condition("max_abs_error<=0.002"), Some((Measure::MaxAbsError, Statistic::Worst, 0.002)));
        assert_eq!(condition("size<=30GB"), None);
        assert_eq!(condition("ssimulacra2.p11>=80"), None);
    }
}
