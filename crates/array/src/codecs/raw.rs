//! The codec for payloads that store the elements unchanged.

use super::container::{BlockPlace, BlockRequest, Budget, Coded, Container, PayloadDecoder, Units};
use super::spec::{CoderSpec, Levels, UnitEncoder};
use crate::block::StoredBlock;
use crate::blosc2::STREAM_BYTES;
use crate::bytes::{UNIT_BYTES, check_payload};
use shardpack_base::parts::part;
use shardpack_format::{Codec, Error, Limits, Result, bug};
use std::ops::Range;

pub(crate) const RAW: CoderSpec = CoderSpec {
    name: "raw",
    codec: Codec::Raw,
    levels: Levels::One,
    has_filters: false,
    decode_ns: 0.0,
    device_ns: 0.0,
    encoder: |_, _| Ok(Box::new(Raw)),
};

#[derive(Default)]
pub(crate) struct Raw;

impl UnitEncoder for Raw {
    fn codec(&self) -> Codec {
        Codec::Raw
    }

    fn encode(&mut self, unit: &[u8], _: u8, payload: &mut Vec<u8>) -> Result<u64> {
        payload.extend_from_slice(unit);
        Ok(0)
    }
}

impl Container for Raw {
    fn check_length(&self, stored: u64, payload: u64, limits: &Limits) -> Result<()> {
        check_payload(payload != stored, stored, payload, limits)
    }

    fn fits(&self, stored: usize, payload: usize) -> bool {
        payload == stored
    }

    fn block_bytes(&self, width: usize) -> usize {
        STREAM_BYTES * width
    }

    fn scratch_bytes(&self, _: usize, _: u64) -> Option<u64> {
        None
    }

    fn region_blocks(&self) -> u64 {
        0
    }

    fn units<'a>(&self, coded: Coded<'a>, _: &Limits) -> Result<Units<'a>> {
        checked(coded).map(Units::Raw)
    }

    fn unit_length(&self, _: usize, _: usize, _: &mut dyn FnMut(usize, &mut [u8]) -> Option<()>) -> Option<usize> {
        None
    }
}

fn checked(coded: Coded<'_>) -> Result<&[u8]> {
    let Coded { payload, stored_bytes, .. } = coded;
    if payload.len() == stored_bytes {
        return Ok(payload);
    }
    Err(Error::format("raw payload", format!("{stored_bytes} bytes"), payload.len()))
}

impl PayloadDecoder for Raw {
    fn decode(&mut self, coded: Coded<'_>, out: &mut [u8], _: &Limits) -> Result<()> {
        out.copy_from_slice(part(checked(coded)?, 0..out.len(), "payload bytes")?);
        Ok(())
    }

    fn for_each(
        &mut self,
        coded: Coded<'_>,
        _: &Limits,
        _: &mut Vec<u8>,
        _: &dyn Fn(Range<usize>) -> bool,
        each: &mut dyn FnMut(&StoredBlock<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let payload = checked(coded)?;
        each(&StoredBlock::Bytes(payload), 0..payload.len())
    }

    fn all<'a>(&mut self, coded: Coded<'a>, _: &'a mut Vec<u8>, _: &Limits) -> Result<(Vec<StoredBlock<'a>>, usize)> {
        Ok((vec![StoredBlock::Bytes(checked(coded)?)], coded.stored_bytes / coded.width))
    }

    fn leave(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(UNIT_BYTES.min(bytes.len()))
    }

    fn block(
        &mut self,
        _: &mut BlockRequest<'_>,
        _: &mut Budget<'_>,
        _: &mut [u8],
        _: &mut Vec<u8>,
    ) -> Result<BlockPlace> {
        bug("stored elements have no blocks")
    }
}
