//! Records the version, the machine and the date of a report.

use shardpack_report::data::{Machine, Provenance, Report, SampleKind, Subject, VERSION, Verdict, Whole};

/// Returns a report without samples and candidates, made now and on this machine.
pub(super) fn blank(subject: Subject, content: SampleKind, seed: u64, threads: usize) -> Report {
    Report {
        shardpack_report: VERSION,
        subject,
        content,
        source: String::new(),
        whole: Whole::default(),
        samples: Vec::new(),
        candidates: Vec::new(),
        verdict: Verdict::default(),
        gallery: Vec::new(),
        cubes: Vec::new(),
        metrics: Vec::new(),
        unreadable: Vec::new(),
        notes: Vec::new(),
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            confidence: 0.95,
            machine: machine(threads),
            date: today(),
            ..Provenance::default()
        },
    }
}

fn machine(threads: usize) -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let system = rustix::system::uname();
    let processor = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        processor: processor.map_or_else(String::new, |(_, name)| name.trim().to_owned()),
        threads: threads as u64,
        system: format!("{} {}", system.sysname().to_string_lossy(), system.machine().to_string_lossy()),
    }
}

fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    date_of(since.as_secs() / 86_400)
}

/// Returns the date `days` days after 1970-01-01, computed as in Howard Hinnant, *chrono-compatible low-level
/// date algorithms*.
fn date_of(days: u64) -> String {
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!((date_of(0).as_str(), date_of(20_779).as_str()), ("1970-01-01", "2026-11-22"));
        assert_eq!(date_of(19_782), "2024-02-29");
    }
}
