//! Determines facts about an array only once if several rows use parts of it.

use super::scenes::Scenes;
use crate::cubes;
use shardpack_loader::stage::{ArrayNote, RecordValue};
use std::sync::Arc;

/// Returns the id of an array's memo and the note in the memo. The first caller parses the array. It also copies the
/// array to the device if the rows would otherwise upload more than twice the size of the array.
pub(super) fn noted<'a>(value: &RecordValue<'a>, scenes: Option<&Arc<dyn Scenes>>) -> Option<(u64, &'a ArrayNote)> {
    let RecordValue::Array { array, memo: Some(memo), .. } = *value else { return None };
    array.part?;
    let note = memo.get_or_make(|| {
        let tables = cubes::known(&array);
        let scenes = scenes.filter(|_| cubes::Most::of(array.descriptor, array.part).exceeds(memo.rows()));
        let on_device = tables.as_ref().and_then(|_| Arc::clone(scenes?).put(array.bytes));
        ArrayNote { tables, on_device }
    });
    Some((memo.id(), note))
}
