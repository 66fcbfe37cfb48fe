//! What several sections of the page ask of a report.

use crate::data::{Candidate, Content, Distribution, MEASURES, Measure, Report};
use crate::words;

/// A report, and what follows from it for the whole page.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) report: &'a Report,
    /// The measure that the page is about; `None` if none was taken.
    pub(super) measure: Option<Measure>,
    /// The ladders, in the order in which they first occur: a series of the plots each.
    pub(super) groups: Vec<&'a str>,
}

/// The sample at which a distribution is read, from the worse end.
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
            Content::Pictures => Measure::Ssimulacra2,
            Content::Cubes => Measure::MaxAbsError,
        };
        let mut groups: Vec<&str> = Vec::new();
        for candidate in &report.candidates {
            if !groups.contains(&candidate.group.as_str()) {
                groups.push(&candidate.group);
            }
        }
        Self { report, measure: wanted.chain([usual]).chain(MEASURES).find(taken), groups }
    }

    /// The recommended candidate; of a dataset, what is stored.
    pub(super) fn chosen(&self) -> Option<&'a Candidate> {
        self.report.candidates.get(self.report.verdict.chosen?)
    }

    pub(super) fn is_chosen(&self, candidate: &Candidate) -> bool {
        self.chosen().is_some_and(|chosen| std::ptr::eq(chosen, candidate))
    }

    pub(super) fn series(&self, candidate: &Candidate) -> usize {
        self.groups.iter().position(|group| *group == candidate.group).unwrap_or(0)
    }

    /// Where plots show a measure: where the rule asks for it, otherwise where it hurts.
    pub(super) fn statistic(&self, measure: Measure) -> Statistic {
        let wanted = self.report.verdict.want.iter().filter_map(|want| condition(want));
        wanted.filter(|(m, ..)| *m == measure).map(|(_, statistic, _)| statistic).next().unwrap_or(match measure {
            Measure::MaxAbsError | Measure::MaxRelError => Statistic::Worst,
            _ => Statistic::P10,
        })
    }

    /// The levels of a measure that the rule asks for, at the statistic that plots show.
    pub(super) fn levels(&self, measure: Measure) -> Vec<(f64, &'a str)> {
        let shown = self.statistic(measure);
        let all = self.report.verdict.want.iter().filter_map(|want| Some((condition(want)?, want.as_str())));
        all.filter(|((m, s, _), _)| *m == measure && *s == shown).map(|((.., value), want)| (value, want)).collect()
    }

    /// The key of a sample.
    pub(super) fn key(&self, sample: usize) -> &'a str {
        self.report.samples.get(sample).map_or("", |sample| &sample.key)
    }

    /// A sentence of the measures, such as `SSIMULACRA2 71.2, PSNR 38.1 dB`.
    pub(super) fn scores<'m>(scores: impl IntoIterator<Item = (&'m Measure, &'m f64)>) -> String {
        let parts: Vec<String> =
            scores.into_iter().map(|(m, v)| format!("{} {}", m.title(), words::score_and_unit(*m, *v))).collect();
        parts.join(", ")
    }

    /// `#3 reencode q80 4:2:0`.
    pub(super) fn title(candidate: &Candidate) -> String {
        format!("#{} {}", candidate.number, candidate.name)
    }
}

/// The measure, the statistic and the value of a condition on a measure.
fn condition(want: &str) -> Option<(Measure, Statistic, f64)> {
    let (left, right) = want.split_once(">=").or_else(|| want.split_once("<="))?;
    let (measure, statistic) = left.trim().split_once('.').unwrap_or((left.trim(), "worst"));
    let all = [Statistic::Worst, Statistic::P1, Statistic::P10, Statistic::Median];
    let statistic = all.into_iter().find(|s| s.name() == statistic)?;
    Some((measure.parse().ok()?, statistic, right.trim().parse().ok()?))
}

/// A measure's name, its statistic and its unit, as an axis is named.
pub(super) fn axis_name(measure: Measure, statistic: Statistic) -> String {
    let which = match statistic {
        Statistic::Mean => "mean of the samples",
        Statistic::Median => "half of the samples are worse",
        Statistic::P10 => "one sample in ten is worse",
        Statistic::P1 => "one sample in a hundred is worse",
        Statistic::Worst => "worst sample",
    };
    let unit = measure.unit();
    if unit.is_empty() {
        format!("{}, {which}", measure.title())
    } else {
        format!("{} ({unit}), {which}", measure.title())
    }
}

/// A measure's value as plots show it: shares in per cent.
pub(super) fn plotted(measure: Measure, value: f64) -> f64 {
    if measure.is_share() { value * 100.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_give_the_statistic_and_the_level() {
        assert_eq!(condition("ssimulacra2.p10>=80"), Some((Measure::Ssimulacra2, Statistic::P10, 80.0)));
        assert_eq!(condition("max_abs_error<=0.002"), Some((Measure::MaxAbsError, Statistic::Worst, 0.002)));
        assert_eq!(condition("size<=30GB"), None);
        assert_eq!(condition("ssimulacra2.p11>=80"), None);
    }
}
