//! Reads TIFF, BigTIFF and GeoTIFF files as cubes of numbers.
//!
//! This is our own reader, because image libraries cannot read many bands, planar data or float predictors.

mod budget;
mod chunk;
mod geo;
mod ifd;
mod page;
mod predictor;

use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::Result;
use crate::cubes::format::CubeFormat;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::select::Purpose;
use crate::cubes::source::CubeFile;
use budget::Chunks;
use ifd::{Ifd, TiffSource};
use page::Page;
use shardpack_base::tiff::is_tiff;

struct TiffCube {
    pages: Vec<Page>,
    layout: CubeLayout,
}

impl TiffCube {
    fn read(source: &CubeFile, file: &TiffSource<'_>, ifds: &[Ifd<'_>], max_bytes: u64) -> Result<Self> {
        let mut full = Vec::new();
        for ifd in ifds {
            if !Page::is_overview_or_mask(ifd)? {
                full.push(ifd);
            }
        }
        let mut pages: Vec<Page> = Vec::new();
        for (number, ifd) in full.iter().enumerate() {
            let page = Page::read(source, file, ifd, full.len(), max_bytes)?;
            // Compare the pages first, so that no tables are read if the pages do not form a cube.
            if let Some(first) = pages.first()
                && (page.shape() != first.shape()
                    || page.dtype != first.dtype
                    || page.big_endian() != first.big_endian())
            {
                let [first, other] =
                    [first, &page].map(|page| format!("shape {:?} and type {}", page.shape(), page.dtype));
                let position = number + 1;
                let text = format!("page {position} of the TIFF has {other}, but the first page has {first}");
                return Err(source.unsupported(text));
            }
            pages.push(page);
        }
        let first = pages.first().ok_or_else(|| source.damaged("the TIFF has no page at full resolution"))?;
        let [height, width, bands] = first.shape();
        if pages.len() > 1 && bands > 1 {
            let error = source.unsupported(format_args!(
                "the TIFF has {} pages of {bands} bands each, but a TIFF with several pages must have one band per \
                 page",
                pages.len()
            ));
            return Err(error.with_hint("save each page as a separate file"));
        }
        let (shape, order) = match pages.len() as u64 {
            1 => ([height, width, bands], if first.planar { AxisOrder::Bsq } else { AxisOrder::Bip }),
            many => ([height, width, many], AxisOrder::Bsq),
        };
        let layout = CubeLayout { dtype: first.dtype, big_endian: first.big_endian(), shape, order };
        let mut chunks = Chunks::default();
        for page in &pages {
            page.add_chunks(source, &mut chunks)?;
        }
        chunks.check(source, layout.bytes(source, max_bytes)?)?;
        Ok(Self { pages, layout })
    }
}

pub(super) struct Tiff;

impl CubeFormat for Tiff {
    fn recognises(&self, _: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(is_tiff(head))
    }

    fn may_be_mask(&self, head: &[u8], _: u64) -> bool {
        is_tiff(head)
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        let file = TiffSource::new(source);
        let cube = TiffCube::read(source, &file, &file.directories()?, want.max_bytes())?;
        CubeHeader::new(&cube.layout, source, want.max_bytes())
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        let file = TiffSource::new(source);
        let ifds = file.directories()?;
        let TiffCube { pages, layout } = TiffCube::read(source, &file, &ifds, want.max_bytes())?;
        let bytes = layout.bytes(source, want.max_bytes())?;
        let mut stored = source.zeros("TIFF pages", bytes)?;
        let page_bytes = (stored.len() / pages.len().max(1)).max(1);
        for (page, part) in pages.iter().zip(stored.chunks_exact_mut(page_bytes)) {
            page.read_into(source, part)?;
        }
        let mut cube = LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)?;
        if let Some(ifd) = ifds.first() {
            let [_, _, channels] = layout.shape;
            let (meta, no_data) = geo::read(&file, ifd, channels)?;
            cube.meta = meta;
            cube.set_no_data(no_data);
        }
        Ok(cube)
    }
}
