//! Values that stay on a stage's device, and the information that the host needs to decode them. If the device has all
//! values of a record, the record is not read.
//!
//! All other values, and values that the device refuses or cannot decode, are read and decoded as usual. Errors are
//! therefore found in the record and reported for its row.

mod filling;

pub use filling::Watch;
pub(crate) use filling::fill;

use crate::fields::{FieldType, Fields};
use crate::patches::ClassMap;
use crate::stage::Keeper;
use shardpack_format::{Codec, FieldValue, bug, to_usize};
use shardpack_jpeg::DrawKey;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Residence {
    #[default]
    Absent,
    Missing,
    Present(ResidentValue),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResidentValue {
    pub(crate) number: u64,
    /// Orientation of a picture, or index of an array's [`ArrayForm`].
    pub(crate) detail: u32,
}

/// Everything about a stored array except its payload: codec and descriptor. In most datasets all arrays of a field
/// share one form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ArrayForm {
    pub(crate) codec: Codec,
    pub(crate) decoded_bytes: u64,
    pub(crate) descriptor: Vec<u8>,
}

impl ArrayForm {
    pub(crate) fn value(&self) -> FieldValue<'_> {
        let Self { codec, decoded_bytes, descriptor } = self;
        FieldValue { codec: *codec, decoded_bytes: *decoded_bytes, descriptor, bytes: &[] }
    }
}

#[derive(Debug)]
pub(crate) struct Resident {
    keeper: Arc<dyn Keeper>,
    /// For each field of a batch, its index among the staged fields, or `None` if no stage decodes the field.
    places: Vec<Option<usize>>,
    width: usize,
    /// State of each staged field, sample by sample.
    known: Vec<Residence>,
    forms: ArrayForms,
    /// Class map of each sample's mask, if masks determine the positions of patches.
    maps: Vec<Option<ClassMap>>,
    is_enough: bool,
    /// Number of values on the device, and the number of bytes that were read to get them.
    pub(crate) values: u64,
    pub(crate) read_bytes: u64,
}

#[derive(Debug, Default)]
struct ArrayForms {
    all: Vec<ArrayForm>,
    numbers: HashMap<ArrayForm, u32>,
}

impl Resident {
    /// Creates an empty table. Returns `None` if its memory cannot be allocated.
    pub(crate) fn new(keeper: Arc<dyn Keeper>, fields: &Fields, samples: u64) -> Option<Self> {
        let mut width = 0;
        let mut place = |staged: bool| {
            let place = staged.then_some(width);
            width += usize::from(staged);
            place
        };
        let mut places: Vec<Option<usize>> = Vec::with_capacity(fields.plans.len());
        for field in &fields.plans {
            // All crops of a picture use one value.
            let shared = match &field.kind {
                FieldType::Picture(picture) => picture.crop.as_ref().and_then(|crop| places.get(crop.first)),
                _ => None,
            };
            let known = shared.copied();
            places.push(known.unwrap_or_else(|| place(field.staged)));
        }
        let needed = usize::try_from(samples).ok()?.checked_mul(width)?;
        let mut known = Vec::new();
        known.try_reserve_exact(needed).ok()?;
        known.resize(needed, Residence::Absent);
        let mut maps = Vec::new();
        if fields.patches.as_ref().is_some_and(|patches| patches.classes.is_some()) {
            maps.resize_with(usize::try_from(samples).ok()?, || None);
        }
        let is_enough = fields.objects.is_empty()
            && fields.plans.iter().all(|field| field.staged || field.kind.position().is_none());
        Some(Self {
            keeper,
            places,
            width,
            known,
            forms: ArrayForms::default(),
            maps,
            is_enough,
            values: 0,
            read_bytes: 0,
        })
    }

    pub(crate) const fn is_enough(&self) -> bool {
        self.is_enough
    }

    fn index(&self, sample: u64, field: usize) -> Option<usize> {
        let place = self.places.get(field).copied().flatten()?;
        usize::try_from(sample).ok()?.checked_mul(self.width)?.checked_add(place)
    }

    pub(crate) fn residence(&self, sample: u64, field: usize) -> Residence {
        self.index(sample, field).and_then(|index| self.known.get(index)).copied().unwrap_or_default()
    }

    pub(crate) fn note(&mut self, sample: u64, field: usize, known: Residence) {
        let index = self.index(sample, field);
        if let Some(to) = index.and_then(|index| self.known.get_mut(index)) {
            self.values += u64::from(matches!(known, Residence::Present(_)));
            *to = known;
        }
    }

    /// Returns the index of a form, and adds the form if it is new.
    pub(crate) fn name(&mut self, form: &ArrayForm) -> Option<u32> {
        let ArrayForms { all, numbers } = &mut self.forms;
        if let Some(number) = numbers.get(form) {
            return Some(*number);
        }
        let number = u32::try_from(all.len()).ok()?;
        numbers.insert(form.clone(), number);
        all.push(form.clone());
        Some(number)
    }

    pub(crate) fn form(&self, number: u32) -> &ArrayForm {
        self.forms.all.get(to_usize(number)).unwrap_or_else(|| bug("an array on the device has no form"))
    }

    pub(crate) fn note_map(&mut self, sample: u64, map: ClassMap) {
        if let Some(to) = usize::try_from(sample).ok().and_then(|sample| self.maps.get_mut(sample)) {
            *to = Some(map);
        }
    }

    /// Returns the origin of a patch, or `None` unless the sample's mask determines the origin.
    pub(crate) fn origin(&self, fields: &Fields, sample: u64, key: &DrawKey) -> Option<[u64; 3]> {
        let classes = fields.patches.as_ref()?.classes.as_ref()?;
        let map = self.maps.get(usize::try_from(sample).ok()?)?.as_ref()?;
        classes.origins(map, std::slice::from_ref(key)).pop().flatten()
    }

    pub(crate) fn seal(&mut self) {
        self.keeper.seal();
        self.forms.numbers = HashMap::new();
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        self.keeper.device_bytes()
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        let forms = self.forms.all.iter().map(|form| size_of::<ArrayForm>() + form.descriptor.len()).sum::<usize>();
        let table = self.known.len().saturating_mul(size_of::<Residence>());
        let of_map = |map: &Option<ClassMap>| map.as_ref().map_or(0, ClassMap::bytes) + size_of_val(map) as u64;
        let maps = self.maps.iter().map(of_map).sum::<u64>();
        self.keeper.host_bytes().saturating_add(table as u64).saturating_add(forms as u64).saturating_add(maps)
    }
}
