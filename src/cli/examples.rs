//! Examples at the end of each subcommand's `--help`.

pub(super) const PACK: &str = "\
Examples:
  shardpack pack photos train
  shardpack pack animals packed --splits
  shardpack pack photos train --labels labels.csv --key-column file_name --jpeg keep
  shardpack pack tiles cubes --masks labels --values fixed --max-error 0.001";

pub(super) const PLAN: &str = "\
Examples:
  shardpack plan photos train --parts 16
  shardpack plan photos train --parts 16 --listing photos.list --json";

pub(super) const MERGE: &str = "\
Examples:
  shardpack pack photos train --part 1/2 && shardpack pack photos train --part 2/2
  shardpack merge train";

pub(super) const INSPECT: &str = "\
Examples:
  shardpack inspect train
  shardpack inspect s3://bucket/train --json";

pub(super) const VERIFY: &str = "\
Examples:
  shardpack verify train
  shardpack verify train --deep --digest --json";

pub(super) const UNPACK: &str = "\
Examples:
  shardpack unpack train photos
  shardpack unpack train photos-v1 --generation 1";

pub(super) const LS: &str = "\
Examples:
  shardpack ls train | wc -l
  shardpack ls train --keys 'cat/*' --columns class,height,width,bytes
  shardpack ls train --where class=ant --where 'height>=256' --limit 10 --json
  shardpack ls train --generation 1";

pub(super) const CAT: &str = "\
Examples:
  shardpack cat train cat/1.jpg --output 1.jpg
  shardpack cat cubes 17 --field mask > mask.npy
  shardpack cat train cat/1.jpg --json";

pub(super) const ADD: &str = "\
Examples:
  shardpack add train week-2
  shardpack add train week-2 --labels week-2.csv --on-known-key skip
  shardpack inspect train --generation 1";

pub(super) const REMOVE: &str = "\
Examples:
  shardpack remove train --keys withdrawn.txt && shardpack compact train
  shardpack ls train --where patient=17 | shardpack remove train --keys -";

pub(super) const COMPACT: &str = "\
Examples:
  shardpack compact train
  shardpack compact train --json";

pub(super) const SALVAGE: &str = "\
Examples:
  shardpack salvage damaged whole
  shardpack salvage train train";

#[cfg(feature = "store")]
pub(super) const CACHE: &str = "\
Examples:
  shardpack cache ls /scratch/cache
  shardpack cache clear /scratch/cache --url s3://bucket/train";

pub(super) const BENCH: &str = "\
Examples:
  shardpack bench train --image rrc224
  shardpack bench cubes --cube patch64x64 --batch-size 16 --threads 8";

pub(super) const REPORT: &str = "\
Examples:
  shardpack report photos -o report.html --quality 80,90
  shardpack report train -o report.html --source photos";

#[cfg(test)]
mod tests {
    use crate::cli::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_subcommand_has_examples_that_it_takes() {
        for mut command in Cli::command().get_subcommands().cloned() {
            let help = command.render_long_help().to_string();
            let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{}", command.get_name()));
            for line in examples.lines().flat_map(|line| line.split(" && ")) {
                let line = line.split(['|', '>']).next().unwrap_or_default().replace("height>=", "height=");
                let words = line.split_whitespace().map(|word| word.trim_matches('\''));
                let parsed = Cli::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }
}
