//! What is known of an array of which several rows take a part: found once.

use super::scenes::{Scene, Scenes};
use crate::cubes;
use shardpack_loader::stage::Value;
use std::sync::Arc;

/// What a memo holds.
#[derive(Default)]
pub(super) struct Noted {
    /// The tables of the array; `None` if it is not decoded by them.
    pub(super) known: Option<Vec<u8>>,
    /// The array itself, if it is on the device.
    pub(super) scene: Option<Arc<dyn Scene>>,
}

/// What is noted in the memo of an array, and the memo's number. Whoever comes first looks at the array,
/// and puts it on the device if its rows would have more of it uploaded than it has.
pub(super) fn noted<'a>(value: &Value<'a>, scenes: Option<&Arc<dyn Scenes>>) -> Option<(u64, &'a Noted)> {
    let Value::Array { codec, descriptor, bytes, region: Some(region), limits, memo: Some(memo), .. } = *value else {
        return None;
    };
    let noted = memo.get_or_make(|| {
        let known = cubes::known(codec, descriptor, bytes, limits);
        let scenes = scenes.filter(|_| cubes::Most::of(descriptor, Some(region)).exceeds(memo.rows()));
        let scene = known.as_ref().and_then(|_| scenes?.put(bytes));
        Noted { known, scene }
    });
    Some((memo.id(), noted?))
}
