//! Examines the output folder, and determines which files this crate wrote. Only files of this crate may be replaced or
//! removed.

use crate::error::{Error, Result, start_over};
use crate::journal::{Journal, JournalEntry};
use crate::names::{
    BASE_NAME, MANIFEST_TEMPORARY, NEXT, RETIRED_NAME, SET_ASIDE_NAME, is_journal_name, is_journal_temporary,
    is_of_later_generation, is_shard_temporary, shard_number,
};
use crate::target::Target;
use shardpack_format::{
    DatasetId, Error as FormatError, FOOTER_BYTES, Footer, HEADER_BYTES, HEADER_MAGIC, Identity, Limits, MANIFEST_NAME,
    Manifest, ShardEntry, generation_of_name, shard_name,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const CHECKED_AT_A_TIME: usize = 32;

/// Text that identifies a manifest of this format even if it can no longer be parsed.
const MANIFEST_MARK: &[u8] = b"\"format\": \"shardpack\"";

#[derive(Debug)]
struct Unreadable {
    error: FormatError,
    is_marked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A shard of the dataset to be written, or of a dataset with a manifest or a journal in the folder.
    Known,
    /// A shard that this crate wrote for some other dataset, without a manifest or journal in the folder.
    Ours,
    Foreign,
}

#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) manifest: Option<Manifest>,
    /// The file `manifest.json`, if it cannot be parsed as a manifest.
    unreadable: Option<Unreadable>,
    retired: Option<Manifest>,
    /// True if a run with `force` was interrupted while it removed the old dataset.
    pub(crate) is_being_removed: bool,
    is_set_aside: bool,
    /// All journals by file name. `None` if the first line is damaged.
    pub(crate) journals: BTreeMap<String, Option<Journal>>,
    /// Older manifests by file name. They are named after their generation.
    generations: BTreeMap<String, Manifest>,
    /// Numbers of all files that are named like shards.
    shards: Vec<u32>,
    /// Shards and columns files that a later generation has written, as their names show.
    later: Vec<String>,
    temporaries: Vec<String>,
    /// Files of other programs. Names with a leading dot are ignored, because operating systems and desktop
    /// environments create them in any folder.
    foreign: Vec<String>,
}

impl Survey {
    pub(crate) fn take(target: &Target<'_>) -> Result<Self> {
        let max_bytes = Limits::default().max_manifest_bytes;
        let mut survey = Self::default();
        for name in target.names()? {
            if name == MANIFEST_NAME {
                match read_manifest(target, &name, target.read(&name, max_bytes)?) {
                    Ok(manifest) => survey.manifest = Some(manifest),
                    Err(unreadable) => survey.unreadable = Some(unreadable),
                }
            } else if name == RETIRED_NAME {
                survey.is_being_removed = true;
                let bytes = target.read_scratch(&name, max_bytes)?;
                survey.retired = read_manifest(target, &name, bytes).ok();
            } else if name == SET_ASIDE_NAME {
                survey.is_set_aside = true;
            } else if is_journal_name(&name) {
                let journal = Journal::read(target, &name)?;
                survey.journals.insert(name, journal);
            } else if generation_of_name(&name).is_some()
                && let Ok(manifest) = read_manifest(target, &name, target.read(&name, max_bytes)?)
            {
                survey.generations.insert(name, manifest);
            } else if is_of_later_generation(&name) {
                survey.later.push(name);
            } else if let Some(number) = shard_number(&name) {
                survey.shards.push(number);
            } else if is_shard_temporary(&name) || is_journal_temporary(&name) || name == MANIFEST_TEMPORARY {
                survey.temporaries.push(name);
            } else if !name.starts_with('.') {
                survey.foreign.push(name);
            }
        }
        // A manifest shows that the user has restored or rebuilt the dataset since its removal was interrupted.
        survey.is_being_removed &= survey.manifest.is_none();
        Ok(survey)
    }

    /// Refuses a folder with files of other programs. Without `force`, also refuses a damaged manifest, and shards
    /// without a manifest, because they may belong to a dataset with a different `id`.
    pub(crate) fn refuse(&self, target: &Target<'_>, id: DatasetId, force: bool) -> Result<()> {
        let owners: Vec<_> = self.owners(target, Some(id)).collect();
        let of = |owner| owners.iter().filter(move |(_, o)| *o == owner).map(|(number, _)| shard_name(*number));
        let mut foreign = self.foreign.clone();
        foreign.extend(of(Owner::Foreign));
        foreign.extend(self.later.iter().filter(|name| !self.is_own(target, name)).cloned());
        // Many programs have files named `manifest.json`. If no other file in the folder is ours, the content of the
        // manifest decides.
        let is_dataset = !self.journals.is_empty() || owners.iter().any(|(_, owner)| *owner != Owner::Foreign);
        if self.unreadable.as_ref().is_some_and(|unreadable| !unreadable.is_marked && !is_dataset) {
            foreign.push(MANIFEST_NAME.into());
        }
        let what = format!("output folder `{}`", target.path().display());
        if !foreign.is_empty() {
            let hint = "choose another folder, or move these files elsewhere: shardpack deletes only its own files";
            return Err(Error::usage(
                format!("{what} contains files that shardpack did not write: {}", list(&foreign)),
                hint,
            ));
        }
        if force || self.is_being_removed {
            return Ok(());
        }
        self.refuse_damage()?;
        if self.manifest.is_none()
            && let Some((name, newest)) = self.generations.iter().max_by_key(|(_, manifest)| manifest.generation())
        {
            let samples = crate::error::samples(newest.samples);
            let what = format!(
                "{what} contains generation {} of a dataset ({samples}), but no {MANIFEST_NAME}",
                newest.generation()
            );
            let hint = start_over(format!("copy `{name}` to {MANIFEST_NAME} to restore it, "));
            return Err(Error::usage(what, hint));
        }
        let strays: Vec<String> = of(Owner::Ours).collect();
        if !strays.is_empty() {
            let hint = start_over("rebuild the manifest with `shardpack salvage` (removed samples may come back), ");
            return Err(Error::usage(format!("{what} contains shards without a manifest: {}", list(&strays)), hint));
        }
        Ok(())
    }

    pub(crate) fn has_shards(&self) -> bool {
        !self.shards.is_empty()
    }

    pub(crate) fn is_begun(&self) -> bool {
        !self.journals.is_empty() || !self.shards.is_empty() || !self.temporaries.is_empty()
    }

    pub(crate) fn refuse_damage(&self) -> Result<()> {
        match &self.unreadable {
            Some(unreadable) => Err(Error::Damaged { source: unreadable.error.clone() }),
            None => Ok(()),
        }
    }

    /// Removes all our files. The manifest is removed first, so that the rest is not mistaken for a dataset. The files
    /// that identify the rest as ours are removed last, so that a later run can finish an interrupted removal.
    pub(crate) fn remove_all(&self, target: &Target<'_>) -> Result<()> {
        let owners: Vec<_> = self.owners(target, None).collect();
        if self.manifest.is_some() || self.unreadable.is_some() {
            target.retire_manifest()?;
            target.sync()?;
        }
        remove_next(target)?;
        self.generations.keys().try_for_each(|name| target.remove(name))?;
        for (number, owner) in owners {
            if owner != Owner::Foreign {
                target.remove(&shard_name(number))?;
            }
        }
        for name in self.later.iter().filter(|name| self.is_own(target, name)) {
            target.remove(name)?;
        }
        self.remove_temporaries(target)?;
        if self.is_set_aside {
            target.remove(SET_ASIDE_NAME)?;
        }
        target.sync()?;
        self.remove_journals(target)?;
        target.remove_scratch(RETIRED_NAME)?;
        target.sync()
    }

    /// Removes the shards of a part, except those that another part has replaced. The journal of the part stays until
    /// it is replaced, because it identifies the other files.
    pub(crate) fn remove_part(&self, target: &Target<'_>, begun: &Journal) -> Result<()> {
        let Some(part) = begun.head.part else { return Ok(()) };
        let range = part.shards(begun.head.shards()?);
        let id: DatasetId = begun.head.dataset_id.parse()?;
        for &number in self.shards.iter().filter(|&n| range.contains(n)) {
            let ours = match identity(target, number) {
                Some(identity) => identity.dataset_id == id,
                None => begun.entries.contains_key(&number),
            };
            if ours {
                target.remove(&shard_name(number))?;
            }
        }
        target.sync()
    }

    pub(crate) fn remove_temporaries(&self, target: &Target<'_>) -> Result<()> {
        self.temporaries.iter().try_for_each(|name| target.remove_scratch(name))
    }

    pub(crate) fn remove_journals(&self, target: &Target<'_>) -> Result<()> {
        self.journals.keys().try_for_each(|name| target.remove_journal(name))
    }

    /// Returns the owner of each shard. If an `id` is given, shards with that dataset id are ours too.
    fn owners(&self, target: &Target<'_>, id: Option<DatasetId>) -> impl Iterator<Item = (u32, Owner)> {
        let ids = self.own_ids(id);
        self.shards.iter().map(move |&number| {
            if self.is_listed(number) {
                return (number, Owner::Known);
            }
            let Ok(ends) = target.read_ends(&shard_name(number), HEADER_BYTES, FOOTER_BYTES) else {
                return (number, Owner::Foreign);
            };
            let identity = Identity::parse_header(&ends.head);
            if identity.is_ok_and(|i| i.shard_number == number && ids.contains(&i.dataset_id)) {
                return (number, Owner::Known);
            }
            // Either end identifies a shard as ours, even if the shard has a later version, was renumbered, or is
            // damaged at the other end.
            let ours =
                ends.head.starts_with(&HEADER_MAGIC) || Footer::parse(&ends.tail, ends.bytes, &Limits::none()).is_ok();
            (number, if ours { Owner::Ours } else { Owner::Foreign })
        })
    }

    /// True if the shard belongs to a dataset with a manifest or a journal in the folder.
    fn is_own(&self, target: &Target<'_>, name: &str) -> bool {
        let Ok(ends) = target.read_ends(name, HEADER_BYTES, 0) else { return false };
        Identity::parse_header(&ends.head).is_ok_and(|identity| self.own_ids(None).contains(&identity.dataset_id))
    }

    fn own_ids(&self, id: Option<DatasetId>) -> Vec<DatasetId> {
        let manifests = [&self.manifest, &self.retired].into_iter().flatten().map(|m| m.dataset_id);
        let journals = self.journals.values().flatten().filter_map(|j| j.head.dataset_id.parse().ok());
        let generations = self.generations.values().map(|manifest| manifest.dataset_id);
        manifests.chain(generations).chain(journals).chain(id).collect()
    }

    fn is_listed(&self, number: u32) -> bool {
        let name = shard_name(number);
        let in_manifest = |m: &Manifest| m.shards.iter().any(|s| s.name == name);
        [&self.manifest, &self.retired].into_iter().flatten().any(in_manifest)
            || self.journals.values().flatten().any(|j| j.entries.contains_key(&number))
    }
}

/// Removes the files of an unfinished addition or removal, and then the folder if it is empty.
pub(crate) fn remove_next(target: &Target<'_>) -> Result<()> {
    let next = target.below(NEXT);
    if next.names_if_there()?.is_empty() {
        return Ok(());
    }
    Survey::take(&next)?.remove_all(&next)?;
    next.remove_scratch(BASE_NAME)?;
    next.remove_folder_if_empty()
}

fn read_manifest(target: &Target<'_>, name: &str, bytes: Vec<u8>) -> std::result::Result<Manifest, Unreadable> {
    Manifest::parse(&bytes, &Limits::default()).map_err(|e| Unreadable {
        error: e.in_file(target.file(name).display().to_string()),
        is_marked: bytes.windows(MANIFEST_MARK.len()).any(|window| window == MANIFEST_MARK),
    })
}

fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|n| format!("`{}`", n.escape_debug())).collect();
    let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

fn identity(target: &Target<'_>, number: u32) -> Option<Identity> {
    let ends = target.read_ends(&shard_name(number), HEADER_BYTES, 0).ok()?;
    Identity::parse_header(&ends.head).ok()
}

/// Compares the size, the header and the whole footer of a shard with its journal entry. Returns `Ok(Err)` with the
/// difference if there is one.
pub(crate) fn check_shard(
    target: &Target<'_>,
    id: DatasetId,
    number: u32,
    noted: &ShardEntry,
) -> Result<std::result::Result<(), FormatError>> {
    let path = target.file(&noted.name);
    let in_file = |e: FormatError| e.in_file(path.display().to_string());
    let ends = match target.read_ends(&noted.name, HEADER_BYTES, FOOTER_BYTES) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Err(in_file(FormatError::malformed("the shard is missing"))));
        }
        other => other?,
    };
    let check = || {
        let header = Identity::parse_header(&ends.head)?;
        let footer = Footer::parse(&ends.tail, ends.bytes, &Limits::none())?;
        footer.check_header(&header)?;
        let footer_crc32 = footer.crc32();
        if header.dataset_id != id || header.shard_number != number {
            let found = format!("shard {} of dataset {}", header.shard_number, header.dataset_id);
            return Err(FormatError::format("identity", format!("shard {number} of dataset {id}"), found));
        }
        if (ends.bytes, footer_crc32) != (noted.bytes, noted.footer_crc32) {
            let expected = format!("{} bytes with footer CRC32 {:#010x}", noted.bytes, noted.footer_crc32);
            return Err(FormatError::format(
                "shard",
                expected,
                format!("{} bytes with footer CRC32 {footer_crc32:#010x}", ends.bytes),
            ));
        }
        Ok(())
    };
    Ok(check().map_err(in_file))
}

pub(crate) fn keep_present(
    target: &Target<'_>,
    id: DatasetId,
    entries: BTreeMap<u32, JournalEntry>,
) -> Result<BTreeMap<u32, JournalEntry>> {
    let is_named = |entry: &&JournalEntry| entry.file.name == shard_name(entry.number);
    let named: Vec<_> = entries.values().filter(is_named).map(JournalEntry::shard).collect();
    let checked = check_shards(target, id, &named)?;
    let whole: BTreeSet<u32> =
        named.iter().zip(checked).filter(|(_, checked)| checked.is_ok()).map(|((number, _), _)| *number).collect();
    Ok(entries.into_iter().filter(|(number, _)| whole.contains(number)).collect())
}

/// Fails with `Damaged` if a shard of a complete dataset is missing, or differs from its entry.
pub(crate) fn refuse_damaged_shards(target: &Target<'_>, id: DatasetId, shards: &[(u32, &ShardEntry)]) -> Result<()> {
    let checked = check_shards(target, id, shards)?;
    checked.into_iter().try_for_each(|checked| checked.map_err(|source| Error::Damaged { source }))
}

/// Checks several shards and returns the results in order. Shards in a store are checked in
/// parallel, because each check waits for the network.
pub(crate) fn check_shards(
    target: &Target<'_>,
    id: DatasetId,
    shards: &[(u32, &ShardEntry)],
) -> Result<Vec<std::result::Result<(), FormatError>>> {
    let check = |(number, noted): &(u32, &ShardEntry)| check_shard(target, id, *number, noted);
    if !target.is_store() || shards.len() < 2 {
        return shards.iter().map(check).collect();
    }
    let share = shards.len().div_ceil(CHECKED_AT_A_TIME);
    std::thread::scope(|scope| {
        let shares: Vec<_> = shards
            .chunks(share)
            .map(|shards| scope.spawn(move || shards.iter().map(check).collect::<Result<Vec<_>>>()))
            .collect();
        let mut all = Vec::with_capacity(shards.len());
        for share in shares {
            let checked = share.join().map_err(|panic| FormatError::panicked("checking shards", &*panic))?;
            all.extend(checked?);
        }
        Ok(all)
    })
}
