//! The checks that every kernel shares, and the making of a [`Launch`] from what passed them.

use crate::element::DType;
use crate::error::{Error, Result};
use crate::kernel::LaunchOptions;
use crate::kernels::KernelInfo;
use crate::launch::{
    Access, Constants, Geometry, IntoParam, Launch, MAX_BUFFERS, MAX_GRID, Params, Touched, overlap,
};

/// A launch in the making: an op adds what its formula needs, [`Plan::finish`] makes the launch.
pub(crate) struct Plan {
    kernel: &'static KernelInfo,
    dtype: DType,
    constants: Constants,
    params: Params,
    touched: [Touched; MAX_BUFFERS],
    buffers: usize,
    work: u64,
    geometry: Geometry,
}

/// Rows shorter than this go by elements: too few of their vectors are whole.
const SHORT_ROW_BYTES: i64 = 64;

/// Up to so many elements have a thread each, and the device moves them one by one.
const SMALL: i64 = 4096;

/// Threads of a block then: few, so that several multiprocessors share what there is.
const SMALL_BLOCK: i64 = 128;

fn is_small(total: i64, options: &LaunchOptions<'_>) -> bool {
    total <= SMALL && options.grid.is_none()
}

impl Plan {
    pub(crate) fn new(
        kernel: &'static KernelInfo,
        dtype: DType,
        constants: Constants,
        params: Params,
    ) -> Self {
        let touched = [Touched::NONE; MAX_BUFFERS];
        let geometry = Geometry::tiles(0, 1);
        Self { kernel, dtype, constants, params, touched, buffers: 0, work: 0, geometry }
    }

    /// An argument's check: `holds`, or the error that says `rule bound`.
    pub(crate) fn check(
        &self,
        holds: bool,
        name: &'static str,
        value: impl Into<i64>,
        rule: &'static str,
        bound: impl Into<i64>,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        let (value, bound) = (value.into(), bound.into());
        Err(Error::Argument { kernel: self.kernel.name, name, value, rule, bound })
    }

    /// Extents and strides, none of which may be negative.
    pub(crate) fn not_negative(&self, named: &[(&'static str, i32)]) -> Result<()> {
        named.iter().try_for_each(|&(name, value)| self.check(value >= 0, name, value, "must be at least", 0))
    }

    /// An extent that follows from others.
    pub(crate) fn equal(
        &self,
        name: &'static str,
        value: i32,
        rule: &'static str,
        expected: i64,
    ) -> Result<()> {
        self.check(i64::from(value) == expected, name, value, rule, expected)
    }

    /// Elements of a tensor of these extents, whose bytes must be below 2⁶³.
    pub(crate) fn volume(&self, name: &'static str, extents: &[i64]) -> Result<i64> {
        let size = self.dtype.size();
        let bytes = extents.iter().try_fold(size as i64, |product, &extent| product.checked_mul(extent));
        // An empty tensor is small whatever its other extents are.
        let bytes = if extents.contains(&0) { Some(0) } else { bytes };
        match bytes {
            Some(bytes) => Ok(bytes / size as i64),
            None => Err(Error::TooLarge { kernel: self.kernel.name, name, extents: extents.to_vec(), size }),
        }
    }

    /// A buffer that the launch reads.
    pub(crate) fn reads<D>(&mut self, name: &'static str, pointer: *mut D, elements: i64) -> Result<()> {
        self.touch::<D>(name, pointer, elements, Access::Read)
    }

    /// The buffer that the launch writes, or adds to.
    pub(crate) fn writes<D>(
        &mut self,
        name: &'static str,
        pointer: *mut D,
        elements: i64,
        options: &LaunchOptions<'_>,
    ) -> Result<()> {
        let access = if options.accumulate { Access::Accumulate } else { Access::Write };
        self.touch::<D>(name, pointer, elements, access)
    }

    /// A buffer that the launch reads and writes.
    pub(crate) fn updates<D>(&mut self, name: &'static str, pointer: *mut D, elements: i64) -> Result<()> {
        self.touch::<D>(name, pointer, elements, Access::Accumulate)
    }

    fn touch<D>(&mut self, name: &'static str, pointer: *mut D, elements: i64, access: Access) -> Result<()> {
        let (address, size) = (pointer as u64, size_of::<D>());
        let bytes = elements as u64 * size as u64;
        let kernel = self.kernel.name;
        if bytes > 0 && address == 0 {
            return Err(Error::Null { kernel, name, bytes });
        }
        if !address.is_multiple_of(size as u64) {
            return Err(Error::Misaligned { kernel, name, address, size });
        }
        if address.checked_add(bytes).is_none() {
            return Err(Error::BeyondMemory { kernel, name, address, bytes });
        }
        self.touched[self.buffers] = Touched { name, address, bytes, access };
        self.buffers += 1;
        Ok(())
    }

    /// Fails for an option that only channel cat has a use for.
    pub(crate) fn reject_rows(&self, options: &LaunchOptions<'_>) -> Result<()> {
        if options.rows.is_none() {
            return Ok(());
        }
        Err(Error::Option { kernel: self.kernel.name, option: "rows", rule: "is for channel cat alone" })
    }

    /// Fails for an option that only gradients have a use for.
    pub(crate) fn reject_accumulate(&self, options: &LaunchOptions<'_>) -> Result<()> {
        if !options.accumulate {
            return Ok(());
        }
        Err(Error::Option { kernel: self.kernel.name, option: "accumulate", rule: "is for gradients alone" })
    }

    /// One of the hidden words.
    pub(crate) fn hidden(&mut self, value: &impl IntoParam) {
        value.push_to(&mut self.params);
    }

    /// The hidden word that says overwrite or accumulate.
    pub(crate) fn hidden_accumulate(&mut self, options: &LaunchOptions<'_>) {
        self.hidden(&u32::from(options.accumulate));
    }

    /// The sweep: `total` elements of results, `tile` of them a block.
    pub(crate) fn sweeps(&mut self, total: i64, tile: i64) {
        self.tiles(total, (total as u64).div_ceil(tile as u64) as i64, tile);
    }

    /// The sweep in whole vectors: `total` elements of results, `tile` of them a block, 16 bytes at a time and
    /// `batch` times that in flight a thread; the device's batch.
    pub(crate) fn sweeps_vectors(&mut self, total: i64, tile: i64, batch: u64) {
        let lanes = self.lanes() as u64;
        // The first vector may start before the results, so there can be one more than they fill.
        let vectors = (total as u64).div_ceil(lanes) + 1;
        let tile = (tile as u64).div_ceil(lanes);
        self.work = total as u64;
        self.geometry = Geometry::tiles(vectors.div_ceil(tile), tile.div_ceil(batch));
    }

    /// The sweep over rows in whole vectors, as [`sweeps_vectors`](Plan::sweeps_vectors); few elements have a thread each,
    /// unless the caller chose the grid.
    pub(crate) fn sweeps_rows(&mut self, total: i64, tile: i64, batch: u64, options: &LaunchOptions<'_>) {
        if is_small(total, options) {
            self.sweeps(total, SMALL_BLOCK);
        } else {
            self.sweeps_vectors(total, tile, batch);
        }
    }

    /// Elements of results, where they are more than the sweep's.
    pub(crate) fn computes(&mut self, total: i64) {
        self.work = total as u64;
    }

    /// Threads a block, where the kernel counts on a number of its own.
    pub(crate) fn threads(&mut self, threads: u32) {
        self.geometry.block_x = threads;
    }

    /// Dynamic shared memory: `rows` rows of `pitch(bytes an element)` bytes.
    pub(crate) fn shared_bytes(&mut self, rows: u32, pitch: impl Fn(u32) -> u32) {
        self.geometry.shared_bytes = rows * pitch(self.dtype.size() as u32);
    }

    /// Elements of a 16-byte vector.
    pub(crate) fn lanes(&self) -> usize {
        16 / self.dtype.size()
    }

    /// How many 16-byte vectors, on their boundaries, a window of `width` elements in each row can touch.
    pub(crate) fn vectors_per_row<D>(&self, window: *mut D, width: i64, pitch: i64) -> i64 {
        let size = self.dtype.size() as u64;
        let pitch = pitch as u64 % 16 * size % 16;
        // Rows start at all multiples of this between boundaries.
        let grain = if pitch == 0 { 16 } else { 1 << pitch.trailing_zeros() };
        let skew = window as u64 % grain + (16 - grain);
        ((width as u64 + skew / size).div_ceil(16 / size)) as i64
    }

    /// Into how many pieces the device cuts such a window in each of `rows` rows: vectors, or elements where whole vectors
    /// are few or do not pay.
    pub(crate) fn pieces_per_row<D>(
        &self,
        window: *mut D,
        [rows, width]: [i64; 2],
        pitch: i64,
        options: &LaunchOptions<'_>,
    ) -> i64 {
        let short = width * (self.dtype.size() as i64) < SHORT_ROW_BYTES;
        if options.accumulate || short || is_small(rows * width, options) {
            return width;
        }
        self.vectors_per_row(window, width, pitch)
    }

    /// The sweep over tiles that the op counted itself: `total` elements, `area` of them a whole tile.
    pub(crate) fn tiles(&mut self, total: i64, tiles: i64, area: i64) {
        self.work = total as u64;
        self.geometry = Geometry::tiles(tiles as u64, area as u64);
    }

    /// A block for each of `rows` rows of `columns` elements: up to `threads` threads that join their sums of `size`
    /// bytes in shared memory. `total` elements are computed.
    pub(crate) fn rows(&mut self, total: i64, rows: i64, columns: i64, threads: i32, size: usize) {
        self.tiles(total, rows, columns.min(i64::from(threads)));
        self.geometry.shared_bytes = self.geometry.block_x * size as u32;
    }

    /// Checks what concerns all buffers together, and makes the launch.
    pub(crate) fn finish(self, options: &LaunchOptions<'_>) -> Result<Launch> {
        let kernel = self.kernel.name;
        if self.work > 0 {
            self.reject_overlaps()?;
        }
        let module = self
            .kernel
            .module(self.dtype.kind(self.kernel.family))
            .ok_or(Error::MissingModule { kernel, dtype: self.dtype.name() })?;
        let mut geometry = self.geometry;
        if let Some(grid) = options.grid {
            geometry.grid_x = grid.get().min(MAX_GRID as u32);
        }
        Ok(Launch {
            kernel: self.kernel,
            module,
            constants: self.constants,
            params: self.params,
            touched: self.touched,
            buffers: self.buffers,
            work: self.work,
            geometry,
        })
    }

    fn reject_overlaps(&self) -> Result<()> {
        let Some((output, other, bytes)) = overlap(&self.touched[..self.buffers]) else { return Ok(()) };
        let (output, other) = (output.name, other.name);
        Err(Error::Overlap { kernel: self.kernel.name, output, other, bytes })
    }
}
