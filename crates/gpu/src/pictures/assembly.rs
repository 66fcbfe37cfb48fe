//! Assembles staged pictures into a batch. Each table holds the entries of all pictures, in the order of the
//! pictures.

use super::Reason;
use super::batch::{PictureBatch, PictureRow, Sections, Writes};
use super::layout::TableWriter;
use super::options::Output;
use super::staged::StagedPicture;
use super::totals::Totals;
use std::cmp::Reverse;

/// Appends a batch's tables to `tables`, after the pictures' bytes. The first byte of `tables` is at `start` in the
/// upload, a multiple of 16. The pictures' rows are in the order of `entries`. For each entry, `samples_of` has the
/// index of the entry whose samples it uses. This is the entry itself, unless the entry is one of several crops and
/// uses the samples of another entry.
///
/// # Errors
/// `Full` if a count exceeds 32 bits.
pub(crate) fn assemble(
    entries: &[&StagedPicture],
    samples_of: &[usize],
    start: usize,
    tables: &mut Vec<u8>,
) -> Result<PictureBatch, Reason> {
    let mut befores = Vec::with_capacity(entries.len());
    let mut totals = Totals::default();
    let (mut levels, mut words) = (Vec::with_capacity(entries.len()), 0);
    for entry in entries {
        befores.push(totals);
        totals = totals.and(&entry.totals()).ok_or(Reason::Full)?;
        levels.push(words);
        words += entry.changes.words(entry.size());
    }
    // The kernels compute the offset of a segment's words from its position in the upload and its number. Both must
    // therefore ascend together. Sort the pictures, because they may have been staged in any order.
    let mut by_place: Vec<usize> = (0..entries.len()).collect();
    by_place.sort_unstable_by_key(|&n| entries.get(n).map(|entry| first_byte(entry)));
    let mut segments = 0;
    for &n in &by_place {
        if let (Some(before), Some(entry)) = (befores.get_mut(n), entries.get(n)) {
            before.segments = segments;
            segments += entry.totals().segments;
        }
    }

    tables.reserve(totals.table_bytes() + Totals::GAPS);
    let mut sections = Sections::default();
    let align = |tables: &mut Vec<u8>| {
        tables.resize(tables.len().next_multiple_of(16), 0);
        start + tables.len()
    };
    sections.pictures = align(tables);
    for (((entry, before), &levels), &of) in entries.iter().zip(&befores).zip(&levels).zip(samples_of) {
        let blocks = befores.get(of).map_or(before.blocks, |before| before.blocks);
        TableWriter(tables).picture(entry, before, blocks, levels);
    }
    sections.segments = align(tables);
    for entry in by_place.iter().filter_map(|&n| entries.get(n)) {
        for segment in &entry.segments {
            TableWriter(tables).segment(segment);
        }
    }
    sections.edges = align(tables);
    for entry in entries {
        tables.extend_from_slice(entry.edges.as_flattened());
    }
    sections.groups = align(tables);
    let mut groups = Vec::with_capacity(totals.groups as usize);
    for (picture, entry) in (0..).zip(entries) {
        groups.extend(entry.groups().map(|first| (entry.frame.segment_blocks(), [picture, first])));
    }
    // Put the longest segments first, so that no long segment starts when all others are done.
    groups.sort_by_key(|&(blocks, _)| Reverse(blocks));
    groups.iter().for_each(|&(_, group)| TableWriter(tables).u32s(group));
    sections.tiles = align(tables);
    let all = (0..).zip(entries.iter().copied());
    let (changed, written) = all.partition::<Vec<_>, _>(|(_, entry)| entry.is_changed());
    let mut tiles = 0;
    let mut tiles_of = |output: Option<Output>, pictures: &[(u32, &StagedPicture)], is_cubic: bool| {
        let first = tiles;
        for &(picture, entry) in pictures.iter().filter(|(_, entry)| entry.place.is_cubic() == is_cubic) {
            let (columns, rows) = entry.tiles();
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                TableWriter(tables).u32s([picture, row << 16 | column]);
                tiles += 1;
            }
        }
        let kernel = if is_cubic { "picture_cubic" } else { "picture_pixels" };
        Writes { kernel, output, first, count: tiles - first }
    };
    let written = by_output(&written).into_iter().map(|(output, pictures)| (Some(output), pictures));
    let all: Vec<_> = written.chain([(None, changed.clone())]).collect();
    let mut writes: Vec<_> = all
        .iter()
        .flat_map(|(output, pictures)| [false, true].map(|is_cubic| tiles_of(*output, pictures, is_cubic)))
        .collect();
    writes.retain(|writes| writes.count > 0);
    sections.borders = align(tables);
    let mut bordered = 0;
    let mut borders_of = |(output, pictures): &(Option<Output>, Vec<(u32, &StagedPicture)>)| {
        let first = bordered;
        for &(picture, entry) in pictures.iter().filter(|(_, entry)| entry.place.is_padded()) {
            TableWriter(tables).border(entry, levels.get(picture as usize).copied().unwrap_or(0));
            bordered += 1;
        }
        Writes { kernel: "picture_borders", output: *output, first, count: bordered - first }
    };
    let mut borders: Vec<_> = all.iter().map(&mut borders_of).collect();
    borders.retain(|writes| writes.count > 0);
    sections.changed = align(tables);
    let mut changes = Vec::new();
    for (output, pictures) in by_output(&changed) {
        let first = changes.last().map_or(0, |last: &Writes| last.first + last.count);
        let mut count = 0;
        for (picture, entry) in pictures {
            let at = picture as usize;
            let (Some(before), Some(&levels)) = (befores.get(at), levels.get(at)) else { continue };
            let operations = entry.totals().changes;
            TableWriter(tables).changed(levels, entry.out, entry.size(), before.changes, operations);
            count += 1;
        }
        changes.push(Writes { kernel: "picture_changes", output: Some(output), first, count });
    }
    sections.changes = align(tables);
    let mut weights = Vec::with_capacity(totals.blur_weights as usize);
    let mut next = 0;
    for (_, entry) in &changed {
        for operation in &entry.changes.operations {
            next = TableWriter(tables).change(operation, entry.size(), next);
        }
        weights.extend_from_slice(&entry.changes.weights);
    }
    sections.blur_weights = align(tables);
    weights.iter().for_each(|weight: &f32| tables.extend(weight.to_le_bytes()));
    sections.codes = align(tables);
    for code in entries.iter().flat_map(|entry| &entry.codes) {
        TableWriter(tables).u32s(*code);
    }

    let upload_bytes = start + tables.len();
    u32::try_from(upload_bytes).map_err(|_| Reason::Full)?;
    let end = |entry: &&StagedPicture| (entry.out + entry.elements()) * entry.output.dtype.bytes() as u64;
    let row =
        |entry: &&StagedPicture| PictureRow { first: entry.out, height: entry.place.height, width: entry.place.width };
    Ok(PictureBatch {
        sections,
        writes,
        borders,
        changes,
        level_bytes: words * 4,
        rows: entries.iter().map(row).collect(),
        staged_bytes: entries.iter().map(|entry| last_byte(entry)).max().unwrap_or(0) as usize,
        upload_bytes,
        totals,
        out_bytes: entries.iter().map(end).max().unwrap_or(0),
    })
}

fn first_byte(entry: &StagedPicture) -> u32 {
    entry.segments.first().map_or(0, |segment| segment.offset)
}

fn last_byte(entry: &StagedPicture) -> u32 {
    entry.segments.last().map_or(0, |segment| segment.offset)
}

fn by_output<'a>(pictures: &[(u32, &'a StagedPicture)]) -> Vec<(Output, Vec<(u32, &'a StagedPicture)>)> {
    let mut outputs: Vec<(Output, Vec<(u32, &StagedPicture)>)> = Vec::new();
    for &(picture, entry) in pictures {
        match outputs.iter_mut().find(|(output, _)| *output == entry.output) {
            Some((_, of_output)) => of_output.push((picture, entry)),
            None => outputs.push((entry.output, vec![(picture, entry)])),
        }
    }
    outputs
}
