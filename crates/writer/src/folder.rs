//! What is in the output folder, and who wrote it. Only files that this crate wrote may be replaced
//! or removed.

use crate::error::{Error, Result, start_over};
use crate::fs::Disk;
use crate::journal::{Entry, Journal, is_journal_name, is_journal_temporary};
use shardpack_format::{
    DatasetId, FOOTER_BYTES, Footer, HEADER_BYTES, HEADER_MAGIC, Identity, Limits, MANIFEST_NAME, Manifest, ShardEntry,
    generation_of_name, shard_name, shard_name_of,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Shards of a store that are checked at a time.
const CHECKED_AT_A_TIME: usize = 32;

/// Temporary name of the manifest.
pub(crate) const MANIFEST_TEMPORARY: &str = ".manifest.json.tmp";
/// Where the shards of the next generation are made.
pub(crate) const NEXT: &str = ".shardpack-next";
/// The manifest of a dataset that `force` is removing. The dataset is no longer valid, but its
/// files are still known as ours.
const RETIRED_NAME: &str = ".shardpack-retired.json";
/// A damaged manifest that `shardpack salvage` has set aside.
const SET_ASIDE_NAME: &str = "manifest.json.damaged";
/// Marks a manifest of ours that can no longer be read.
const MANIFEST_MARK: &[u8] = b"\"format\": \"shardpack\"";

/// Temporary name of a shard.
pub(crate) fn shard_temporary(number: u32) -> String {
    format!(".shard-{number:05}.tmp")
}

/// The number in a name that [`shard_name`] makes.
fn shard_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("shard-")?.strip_suffix(".shard")?.parse().ok()?;
    (shard_name(number) == name).then_some(number)
}

/// The generation in a name that [`shard_name_of`] makes.
fn generation_of_shard(name: &str) -> Option<u32> {
    let (number, generation) = name.strip_prefix("shard-")?.strip_suffix(".shard")?.split_once('-')?;
    let (number, generation) = (number.parse().ok()?, generation.parse().ok()?);
    (shard_name_of(number, generation) == name).then_some(generation)
}

/// Whether [`shard_name_of`] makes such a name.
fn is_written_anew(name: &str) -> bool {
    generation_of_shard(name).is_some()
}

/// The generation that a shard of this name was written for, if the name is ours: at least that.
pub(crate) fn oldest_generation(name: &str) -> Option<u32> {
    generation_of_shard(name).or_else(|| shard_number(name).map(|_| 1))
}

/// Whether it is the name of something that lasts: a shard, or a manifest.
pub(crate) fn is_final(name: &str) -> bool {
    [MANIFEST_NAME, SET_ASIDE_NAME].contains(&name)
        || generation_of_name(name).is_some()
        || oldest_generation(name).is_some()
}

fn is_shard_temporary(name: &str) -> bool {
    let number = name.strip_prefix(".shard-").and_then(|n| n.strip_suffix(".tmp")).and_then(|n| n.parse().ok());
    number.is_some_and(|n| shard_temporary(n) == name)
}

#[derive(Debug)]
struct Unreadable {
    error: shardpack_format::Error,
    is_marked: bool,
}

/// Who wrote a file with the name of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It belongs to the dataset to be written, or to one that a manifest or journal in the folder
    /// describes.
    Known,
    /// This crate wrote it, for a dataset that nothing in the folder describes.
    Ours,
    Foreign,
}

/// The content of an output folder.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) manifest: Option<Manifest>,
    /// A file in the manifest's place that is not a manifest, or is too damaged to be one.
    unreadable: Option<Unreadable>,
    retired: Option<Manifest>,
    /// Whether an earlier `force` was interrupted while it removed the old dataset.
    pub(crate) is_being_removed: bool,
    is_set_aside: bool,
    /// Journals by file name; `None` for one without a whole first line.
    pub(crate) journals: BTreeMap<String, Option<Journal>>,
    /// Manifests of generations, by file name.
    generations: BTreeMap<String, Manifest>,
    /// Files with the name of a shard.
    shards: Vec<u32>,
    /// Files with the name of a shard that a later generation has written anew.
    written_anew: Vec<String>,
    /// Files with names that only this crate uses.
    temporaries: Vec<String>,
    /// Files from others. Names that begin with a dot are not counted: file systems and desktops
    /// leave such files in any folder.
    foreign: Vec<String>,
}

impl Survey {
    /// Examines the folder.
    pub(crate) fn take(disk: Disk<'_>, out: &Path) -> Result<Self> {
        let mut survey = Self::default();
        for name in disk.list(out)? {
            if name == MANIFEST_NAME {
                match read_manifest(disk, &out.join(name))? {
                    Ok(manifest) => survey.manifest = Some(manifest),
                    Err(unreadable) => survey.unreadable = Some(unreadable),
                }
            } else if name == RETIRED_NAME {
                survey.is_being_removed = true;
                survey.retired = read_manifest(disk, &out.join(name))?.ok();
            } else if name == SET_ASIDE_NAME {
                survey.is_set_aside = true;
            } else if is_journal_name(&name) {
                let journal = Journal::read(disk, &out.join(&name))?;
                survey.journals.insert(name, journal);
            } else if generation_of_name(&name).is_some()
                && let Ok(manifest) = read_manifest(disk, &out.join(&name))?
            {
                survey.generations.insert(name, manifest);
            } else if is_written_anew(&name) {
                survey.written_anew.push(name);
            } else if let Some(number) = shard_number(&name) {
                survey.shards.push(number);
            } else if is_shard_temporary(&name) || is_journal_temporary(&name) || name == MANIFEST_TEMPORARY {
                survey.temporaries.push(name);
            } else if !name.starts_with('.') {
                survey.foreign.push(name);
            }
        }
        // Somebody has put the manifest back, or rebuilt it, since.
        survey.is_being_removed &= survey.manifest.is_none();
        Ok(survey)
    }

    /// Refuses a folder with files that are not ours. Unless `force` will remove our files, also
    /// refuses remains of a dataset that might not be the one with this `id`: a damaged manifest,
    /// shards without a manifest.
    pub(crate) fn refuse(&self, disk: Disk<'_>, out: &Path, id: DatasetId, force: bool) -> Result<()> {
        let owners: Vec<_> = self.owners(disk, out, Some(id)).collect();
        let of = |owner| owners.iter().filter(move |(_, o)| *o == owner).map(|(number, _)| shard_name(*number));
        let mut foreign = self.foreign.clone();
        foreign.extend(of(Owner::Foreign));
        foreign.extend(self.written_anew.iter().filter(|name| !self.is_own(disk, out, name)).cloned());
        // Many programs use this file name. If nothing else shows that it is ours, its content
        // must.
        let is_dataset = !self.journals.is_empty() || owners.iter().any(|(_, owner)| *owner != Owner::Foreign);
        if self.unreadable.as_ref().is_some_and(|unreadable| !unreadable.is_marked && !is_dataset) {
            foreign.push(MANIFEST_NAME.into());
        }
        let what = format!("output folder `{}`", out.display());
        if !foreign.is_empty() {
            let hint = "choose another folder, or move these files away: nothing that the packer did not write is \
                        ever removed";
            let found = format!("other files: {}", list(&foreign));
            return Err(Error::usage(what, "a new or empty one, or a dataset", found, hint));
        }
        if force || self.is_being_removed {
            return Ok(());
        }
        self.refuse_damage()?;
        if self.manifest.is_none()
            && let Some((name, newest)) = self.generations.iter().max_by_key(|(_, manifest)| manifest.generation())
        {
            let samples = crate::prepare::samples(newest.samples);
            let what = format!(
                "{what} holds generation {} of a dataset, of {samples}, and no {MANIFEST_NAME}",
                newest.generation()
            );
            let hint = start_over(format!("copy `{name}` to {MANIFEST_NAME} to have it back; "));
            return Err(Error::refused(what, hint));
        }
        let strays: Vec<String> = of(Owner::Ours).collect();
        if !strays.is_empty() {
            let found = format!("shards without their manifest: {}", list(&strays));
            let hint =
                start_over("`shardpack salvage` rebuilds a manifest, and samples that were removed may come back; ");
            return Err(Error::usage(what, "a new or empty one, or a dataset", found, hint));
        }
        Ok(())
    }

    /// Whether there is a file with the name of a shard.
    pub(crate) fn has_shards(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Whether there is anything of a run: a journal, shards, or files that were being written.
    pub(crate) fn is_begun(&self) -> bool {
        !self.journals.is_empty() || !self.shards.is_empty() || !self.temporaries.is_empty()
    }

    /// Refuses a manifest that cannot be read.
    pub(crate) fn refuse_damage(&self) -> Result<()> {
        match &self.unreadable {
            Some(unreadable) => Err(Error::Damaged { source: unreadable.error.clone() }),
            None => Ok(()),
        }
    }

    /// Removes all our files, so that a run can start over. The manifest goes first, so that nobody
    /// takes the rest for a dataset. The files that tell which files are ours go last, so that an
    /// interrupted removal can be finished.
    pub(crate) fn remove_all(&self, disk: Disk<'_>, out: &Path) -> Result<()> {
        let owners: Vec<_> = self.owners(disk, out, None).collect();
        if self.manifest.is_some() || self.unreadable.is_some() {
            disk.rename(&out.join(MANIFEST_NAME), &out.join(RETIRED_NAME))?;
            disk.sync_dir(out)?;
        }
        remove_next(disk, out)?;
        self.generations.keys().try_for_each(|name| disk.remove_if_there(&out.join(name)))?;
        for (number, owner) in owners {
            if owner != Owner::Foreign {
                disk.remove_if_there(&out.join(shard_name(number)))?;
            }
        }
        for name in self.written_anew.iter().filter(|name| self.is_own(disk, out, name)) {
            disk.remove_if_there(&out.join(name))?;
        }
        self.remove_temporaries(disk, out)?;
        if self.is_set_aside {
            disk.remove_if_there(&out.join(SET_ASIDE_NAME))?;
        }
        disk.sync_dir(out)?;
        self.remove_journals(disk, out)?;
        disk.remove_if_there(&out.join(RETIRED_NAME))?;
        disk.sync_dir(out)
    }

    /// Removes the shards of a part that starts over, but no shard that another part has replaced
    /// since. The part's journal stays until it is replaced, because it tells whose the rest is.
    pub(crate) fn remove_part(&self, disk: Disk<'_>, out: &Path, begun: &Journal) -> Result<()> {
        let Some(part) = begun.head.part else { return Ok(()) };
        let range = part.shards(begun.head.shards()?);
        let id: DatasetId = begun.head.dataset_id.parse()?;
        for &number in self.shards.iter().filter(|&n| range.contains(n)) {
            let ours = match identity(disk, out, number) {
                Some(identity) => identity.dataset_id == id,
                None => begun.entries.contains_key(&number),
            };
            if ours {
                disk.remove_if_there(&out.join(shard_name(number)))?;
            }
        }
        disk.sync_dir(out)
    }

    /// Removes temporary files of runs that were killed.
    pub(crate) fn remove_temporaries(&self, disk: Disk<'_>, out: &Path) -> Result<()> {
        self.temporaries.iter().try_for_each(|name| disk.remove_if_there(&out.join(name)))
    }

    /// Removes the journals.
    pub(crate) fn remove_journals(&self, disk: Disk<'_>, out: &Path) -> Result<()> {
        self.journals.keys().try_for_each(|name| disk.remove_if_there(&out.join(name)))
    }

    /// Who wrote the files with the name of a shard, if `id` is ours.
    fn owners(&self, disk: Disk<'_>, out: &Path, id: Option<DatasetId>) -> impl Iterator<Item = (u32, Owner)> {
        let ids = self.own_ids(id);
        self.shards.iter().map(move |&number| {
            if self.is_listed(number) {
                return (number, Owner::Known);
            }
            let Ok(ends) = disk.0.read_ends(&out.join(shard_name(number)), HEADER_BYTES, FOOTER_BYTES) else {
                return (number, Owner::Foreign);
            };
            let identity = Identity::parse_header(&ends.head);
            if identity.is_ok_and(|i| i.shard_number == number && ids.contains(&i.dataset_id)) {
                return (number, Owner::Known);
            }
            // From a later version, renumbered, or damaged at one end.
            let ours =
                ends.head.starts_with(&HEADER_MAGIC) || Footer::parse(&ends.tail, ends.bytes, &Limits::none()).is_ok();
            (number, if ours { Owner::Ours } else { Owner::Foreign })
        })
    }

    /// Whether a shard that was written anew is one of a dataset that the folder describes.
    fn is_own(&self, disk: Disk<'_>, out: &Path, name: &str) -> bool {
        let Ok(ends) = disk.0.read_ends(&out.join(name), HEADER_BYTES, 0) else { return false };
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

/// Removes what an addition or a removal has made so far, and the folder unless others have files in
/// it.
pub(crate) fn remove_next(disk: Disk<'_>, out: &Path) -> Result<()> {
    let folder = out.join(NEXT);
    // Nothing grows in a store, where a folder of this name lists what is beside it.
    if disk.0.is_store() || disk.list_if_there(&folder)?.is_empty() {
        return Ok(());
    }
    Survey::take(disk, &folder)?.remove_all(disk, &folder)?;
    disk.remove_dir_if_empty(&folder)
}

fn read_manifest(disk: Disk<'_>, path: &Path) -> Result<std::result::Result<Manifest, Unreadable>> {
    let limits = Limits::default();
    let bytes = disk.read(path, limits.max_manifest_bytes)?;
    Ok(Manifest::parse(&bytes, &limits).map_err(|e| Unreadable {
        error: e.in_file(path.display().to_string()),
        is_marked: bytes.windows(MANIFEST_MARK.len()).any(|window| window == MANIFEST_MARK),
    }))
}

/// Some names, for a message.
fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|n| format!("`{}`", n.escape_debug())).collect();
    let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// The content of a shard's header, if it is whole.
fn identity(disk: Disk<'_>, out: &Path, number: u32) -> Option<Identity> {
    let ends = disk.0.read_ends(&out.join(shard_name(number)), HEADER_BYTES, 0).ok()?;
    Identity::parse_header(&ends.head).ok()
}

/// Compares a finished shard with its journal entry by two small reads: size, header, and every
/// byte of the footer. `Ok(Err)` tells what is wrong with it.
pub(crate) fn check_shard(
    disk: Disk<'_>,
    out: &Path,
    id: DatasetId,
    number: u32,
    noted: &ShardEntry,
) -> Result<std::result::Result<(), Error>> {
    let path = out.join(&noted.name);
    let format = |e: shardpack_format::Error| Error::Format(e.in_file(path.display().to_string()));
    let ends = match disk.read_ends(&path, HEADER_BYTES, FOOTER_BYTES) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Err(format(shardpack_format::Error::format("shard", "present", "missing"))));
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
            return Err(shardpack_format::Error::format("identity", format!("shard {number} of dataset {id}"), found));
        }
        if (ends.bytes, footer_crc32) != (noted.bytes, noted.footer_crc32) {
            let expected = format!("{} bytes, footer {:#010x}", noted.bytes, noted.footer_crc32);
            return Err(shardpack_format::Error::format(
                "shard",
                expected,
                format!("{} bytes, footer {footer_crc32:#010x}", ends.bytes),
            ));
        }
        Ok(())
    };
    Ok(check().map_err(format))
}

/// The entries of a journal whose shards really exist.
pub(crate) fn keep_present(
    disk: Disk<'_>,
    out: &Path,
    id: DatasetId,
    entries: BTreeMap<u32, Entry>,
) -> Result<BTreeMap<u32, Entry>> {
    let named: Vec<_> =
        entries.iter().filter(|(number, entry)| entry.file.name == shard_name(**number)).map(of_entry).collect();
    let checked = check_shards(disk, out, id, &named)?;
    let whole: BTreeSet<u32> =
        named.iter().zip(checked).filter(|(_, checked)| checked.is_ok()).map(|((number, _), _)| *number).collect();
    Ok(entries.into_iter().filter(|(number, _)| whole.contains(number)).collect())
}

/// What [`check_shards`] takes.
pub(crate) fn of_entry<'a>((&number, entry): (&u32, &'a Entry)) -> (u32, &'a ShardEntry) {
    (number, &entry.file)
}

/// As [`check_shard`], for each of these in their order. In a store many are asked for at a time: one
/// after the other, each would wait for the network.
pub(crate) fn check_shards(
    disk: Disk<'_>,
    out: &Path,
    id: DatasetId,
    shards: &[(u32, &ShardEntry)],
) -> Result<Vec<std::result::Result<(), Error>>> {
    let check = |(number, noted): &(u32, &ShardEntry)| check_shard(disk, out, id, *number, noted);
    if !disk.0.is_store() || shards.len() < 2 {
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
            let checked =
                share.join().map_err(|panic| shardpack_format::Error::panicked("a check of shards", &*panic))?;
            all.extend(checked?);
        }
        Ok(all)
    })
}
