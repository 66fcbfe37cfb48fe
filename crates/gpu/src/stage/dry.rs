//! A stage that needs no device, for measuring the host's work.

use super::decoding::Decoding;
use super::noted::noted;
use super::scenes::Scenes;
use super::staging::Staging;
use super::store::{Backing, Store};
use super::stored_array::KeptValue;
use crate::driver::Heap;
use shardpack_array::ZstdDecoder;
use shardpack_loader::stage::{
    DeviceArray, DeviceId, FieldRows, FieldSpec, Keeper, Keeping, PictureElements, Prepared, RecordValue, SlotRoom,
    Spot, Stage, StageSlot, StreamHandle, Ticket,
};
use std::io;
use std::sync::Arc;

/// Does all the work that the host does for a device, except copying scenes, but none of the device's work. Batches
/// therefore hold zeros. Use it to measure loaders on machines without a GPU.
///
/// ```
/// use shardpack_gpu::DryStage;
/// use shardpack_loader::LoaderOptions;
/// use std::sync::Arc;
/// let options = LoaderOptions::default().stage(Arc::new(DryStage::default())).resident(true);
/// assert!(options.resources.stage.is_some());
/// ```
#[derive(Debug, Default)]
pub struct DryStage {
    store: Arc<Store<Nowhere>>,
}

#[derive(Debug)]
struct Nowhere;

impl Backing for Nowhere {
    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

impl Scenes for Nowhere {
    fn put(self: Arc<Self>, _: &[u8]) -> Option<Arc<dyn DeviceArray>> {
        Some(self)
    }
}

impl DeviceArray for Nowhere {
    fn at(&self) -> u64 {
        0
    }
}

#[derive(Debug)]
struct DryKeeper(Arc<Store<Nowhere>>);

#[derive(Debug)]
struct DrySlot {
    room: SlotRoom,
    fill: Staging<Heap>,
    store: Arc<Store<Nowhere>>,
}

impl Keeper for DryKeeper {
    fn value_bytes(&self, stored_bytes: u64) -> u64 {
        Store::<Nowhere>::value_bytes(stored_bytes)
    }

    fn free_bytes(&self) -> io::Result<(u64, u64)> {
        Ok((u64::MAX, u64::MAX))
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.0.put_in(Nowhere, bytes)
    }

    fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>> {
        self.0.keep(values)
    }

    fn seal(&self) {
        self.0.seal();
    }

    fn device_bytes(&self) -> u64 {
        self.0.device_bytes()
    }

    fn host_bytes(&self) -> u64 {
        self.0.host_bytes()
    }
}

impl DryStage {
    fn scenes(&self) -> Option<Arc<dyn Scenes>> {
        self.store.backing().is_none().then(|| Arc::new(Nowhere) as Arc<dyn Scenes>)
    }
}

impl Stage for DryStage {
    fn device(&self) -> DeviceId {
        DeviceId { kind: 2, number: 0 }
    }

    fn takes(&self, field: &FieldSpec<'_>) -> bool {
        Decoding::Records.takes(field)
    }

    fn staged_bytes(&self, field: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        Decoding::Records.staged_bytes(field, rows)
    }

    fn device_bytes(&self, _: &SlotRoom) -> u64 {
        0
    }

    fn host_bytes(&self, room: &SlotRoom) -> u64 {
        Staging::<Heap>::memory_bytes(room.rows, room.staged_bytes, room.host_bytes) as u64
    }

    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>> {
        let bytes = Staging::<Heap>::memory_bytes(room.rows, room.staged_bytes, room.host_bytes);
        let fill = Staging::new(Heap::new(bytes), room.host_bytes).map_err(io::Error::other)?;
        let fill = fill.with_scenes(self.scenes());
        Ok(Arc::new(DrySlot { room: *room, fill, store: Arc::clone(&self.store) }))
    }

    fn look(&self, value: &RecordValue<'_>) {
        _ = noted(value, self.scenes().as_ref());
    }

    fn keeping(&self) -> Option<Keeping> {
        let store = Arc::<Store<Nowhere>>::default();
        let keeper = Arc::new(DryKeeper(Arc::clone(&store)));
        Some(Keeping { stage: Arc::new(Self { store }), keeper })
    }
}

impl StageSlot for DrySlot {
    fn room(&self) -> SlotRoom {
        self.room
    }

    fn device(&self) -> DeviceId {
        DeviceId { kind: 2, number: 0 }
    }

    fn begin(&self, output_bytes: usize) {
        self.fill.begin(output_bytes.min(self.room.output_bytes));
    }

    fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        self.fill.prepare(spot, value, zstd)
    }

    fn prepare_kept(&self, spot: &Spot, number: u64, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        match self.store.find(number) {
            Some(tables) => self.fill.prepare_kept(spot, KeptValue { number, tables }, value, zstd),
            None => Prepared::Refused("value is not on the device".into()),
        }
    }

    fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()> {
        self.fill.put(spot, bytes)
    }

    fn put_levels(
        &self,
        spot: &Spot,
        elements: &PictureElements,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        self.fill.put_levels(spot, elements, fill)
    }

    fn clear(&self, spot: &Spot) {
        self.fill.clear(spot);
    }

    fn submit(self: Arc<Self>, host: &[u8], ticket: Ticket) {
        let assembled = self.fill.assemble(host);
        let launches = assembled.map(|(batch, upload)| {
            drop(upload);
            drop(batch.launches(0, 0, 0));
            Vec::new()
        });
        drop(self);
        ticket.done(launches);
    }

    fn address(&self) -> u64 {
        0
    }

    fn used_on(&self, _: StreamHandle) {}

    fn release(&self) {}

    fn read(&self, _: usize, to: &mut [u8]) -> io::Result<()> {
        to.fill(0);
        Ok(())
    }

    fn write(&self, _: usize, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
