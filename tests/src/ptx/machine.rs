//! Launches: checks what the host gives, runs the blocks in parallel, and reports the first fault.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rayon::prelude::*;

use super::block::{Block, BlockFault, Grid, constant};
use super::code::{Code, Image};
use super::error::{Kind, Report};
use super::memory::Memory;
use super::module::{Entry, Module};
use super::race::MAX_BLOCK;
use super::shared::Place;

/// The most shared memory that a block can have on the GPUs this project knows, in bytes.
const MAX_SHARED: usize = 227 * 1024;

/// How an entry is launched.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks, x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block, x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: usize,
    /// The arguments, each as the bytes of its parameter.
    pub params: &'a [Vec<u8>],
}

/// What bounds a launch.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Thread instructions that all blocks together may execute.
    pub budget: u64,
    /// Whether blocks run in parallel on the threads of rayon's pool.
    pub parallel: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { budget: 1 << 34, parallel: true }
    }
}

/// What a launch executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions, counted once for each thread that was there.
    pub thread_instructions: u64,
    /// Instructions, counted once for each group of lanes that executed it together.
    pub warp_instructions: u64,
    /// Blocks.
    pub blocks: u64,
}

/// A machine that runs the entries of one module under every check.
#[derive(Debug)]
pub struct Machine<'m> {
    module: &'m Module,
}

impl<'m> Machine<'m> {
    /// A machine for this module.
    #[must_use]
    pub fn new(module: &'m Module) -> Self {
        Self { module }
    }

    /// Runs an entry to its end.
    ///
    /// # Errors
    /// A report of what the launch or the kernel did wrong. Where several blocks are at fault, it is the one with
    /// the lowest number among those that ran; a race between blocks may be found in either of the two.
    pub fn launch(
        &self,
        entry: &str,
        launch: Launch<'_>,
        memory: &mut Memory,
        options: &Options,
    ) -> Result<Stats, Box<Report>> {
        let Some((known, code)) = self.module.code(entry) else {
            let names: Vec<&str> = self.module.entries().iter().map(|e| e.name.as_str()).collect();
            let what = format!("no such entry; the module has {names:?}");
            return Err(self.report(entry, 0, Kind::Launch, what));
        };
        check(known, code, launch).map_err(|what| self.report(entry, known.line, Kind::Launch, what))?;
        self.place_globals(memory);
        memory.restamp(code.global_shift);
        let memory = &*memory;
        let address = |name: &str| {
            let key = (self.module.label.clone(), name.to_owned());
            memory.variables.get(&key).map_or(0, |buffer| memory.address(*buffer))
        };
        let grid = Grid {
            code,
            memory,
            params: parameters(known, launch.params),
            blocks: launch.grid,
            block: launch.block,
            dynamic_shared: launch.shared_bytes as u64,
            constants: code.constants.iter().map(|(_, value)| constant(value, code, address)).collect(),
            budget: AtomicI64::new(i64::try_from(options.budget).unwrap_or(i64::MAX)),
        };
        let blocks: u64 = launch.grid.iter().map(|&extent| u64::from(extent)).product();
        match run_blocks(&grid, blocks, options.parallel) {
            Ok((thread_instructions, warp_instructions)) => {
                Ok(Stats { thread_instructions, warp_instructions, blocks })
            }
            Err((number, fault)) => Err(self.locate(entry, &grid, number, fault)),
        }
    }

    /// Allocates the module's `.global` variables on their first use; they keep their values after that.
    fn place_globals(&self, memory: &mut Memory) {
        for variable in &self.module.globals {
            let key = (self.module.label.clone(), variable.name.clone());
            if !memory.variables.contains_key(&key) {
                let buffer = memory.alloc(&variable.name, variable.bytes, 0);
                memory.write(buffer, &variable.initial);
                memory.variables.insert(key, buffer);
            }
        }
    }

    fn report(&self, kernel: &str, line: u32, kind: Kind, what: String) -> Box<Report> {
        Box::new(Report {
            kind,
            kernel: kernel.to_owned(),
            module: self.module.label.clone(),
            line,
            instruction: self.module.text(line),
            block: [0; 3],
            thread: [0; 3],
            address: None,
            what,
        })
    }

    fn locate(&self, kernel: &str, grid: &Grid<'_>, number: u64, fault: BlockFault) -> Box<Report> {
        let BlockFault { mut failure, thread } = fault;
        grid.code.name_registers(&mut failure.fault);
        let [gx, gy, _] = grid.blocks.map(u64::from);
        let [bx, by, _] = grid.block;
        let fault = failure.fault;
        let mut report = self.report(kernel, failure.line, fault.kind, fault.what);
        report.block = [(number % gx) as u32, (number / gx % gy) as u32, (number / gx / gy) as u32];
        report.thread = [thread % bx, thread / bx % by, thread / bx / by];
        report.address = fault.address;
        report
    }
}

/// Runs all blocks; returns the instruction counts, or the fault of the lowest block.
fn run_blocks(grid: &Grid<'_>, blocks: u64, parallel: bool) -> Result<(u64, u64), (u64, BlockFault)> {
    let first_bad = AtomicU64::new(u64::MAX);
    let worst: Mutex<Option<(u64, BlockFault)>> = Mutex::new(None);
    let threads = AtomicU64::new(0);
    let warps = AtomicU64::new(0);
    let one = |block: &mut Block, number: u64| {
        // A block behind a faulty one cannot change the report.
        if number > first_bad.load(Ordering::Relaxed) {
            return;
        }
        let (before, before_warps) = (block.thread_instructions, block.warp_instructions);
        if let Err(fault) = block.run(grid, number) {
            first_bad.fetch_min(number, Ordering::Relaxed);
            if let Ok(mut worst) = worst.lock()
                && worst.as_ref().is_none_or(|(other, _)| number < *other)
            {
                *worst = Some((number, fault));
            }
        }
        threads.fetch_add(block.thread_instructions - before, Ordering::Relaxed);
        warps.fetch_add(block.warp_instructions - before_warps, Ordering::Relaxed);
    };
    if parallel && blocks > 1 {
        (0..blocks).into_par_iter().for_each_init(|| Block::new(grid), one);
    } else {
        let mut block = Block::new(grid);
        (0..blocks).for_each(|number| one(&mut block, number));
    }
    match worst.into_inner() {
        Ok(Some(fault)) => Err(fault),
        _ => Ok((threads.into_inner(), warps.into_inner())),
    }
}

fn parameters(entry: &Entry, values: &[Vec<u8>]) -> Image {
    let mut image = Image::default();
    for (param, value) in entry.params.iter().zip(values) {
        image.data.resize(param.offset, 0);
        image.data.extend_from_slice(value);
        let place = Place { name: param.name.clone(), start: param.offset as u64, bytes: param.size as u64 };
        image.places.push(place);
    }
    image
}

/// Compares a launch with what the entry and the hardware allow.
fn check(entry: &Entry, code: &Code, launch: Launch<'_>) -> Result<(), String> {
    let Launch { grid, block, shared_bytes, params } = launch;
    if params.len() != entry.params.len() {
        return Err(format!("{} arguments for {} parameters", params.len(), entry.params.len()));
    }
    for (value, param) in params.iter().zip(&entry.params) {
        if value.len() != param.size {
            return Err(format!(
                "parameter `{}` has {} bytes, its argument {}",
                param.name,
                param.size,
                value.len()
            ));
        }
    }
    for (extents, limits, name) in
        [(grid, [i32::MAX as u32, 65_535, 65_535], "grid"), (block, [1024, 1024, 64], "block")]
    {
        if extents.iter().zip(limits).any(|(&extent, limit)| extent == 0 || extent > limit) {
            return Err(format!("{name} {extents:?} is outside 1..={limits:?}"));
        }
    }
    let threads: u64 = block.iter().map(|&extent| u64::from(extent)).product();
    if threads > 1024 {
        return Err(format!("{threads} threads in a block; the limit is 1024"));
    }
    let blocks = grid.iter().map(|&extent| u64::from(extent)).try_fold(1_u64, u64::checked_mul);
    if blocks.is_none_or(|blocks| blocks > MAX_BLOCK) {
        return Err(format!("a grid of {grid:?} is more than the machine's {MAX_BLOCK} blocks"));
    }
    if let Some((wanted, exact)) = entry.threads {
        let most: u64 = wanted.iter().map(|&extent| u64::from(extent)).product();
        if (exact && block != wanted) || threads > most {
            return Err(format!("a block of {block:?} where the entry says {wanted:?}"));
        }
    }
    let total = entry.shared_bytes + shared_bytes;
    if total > MAX_SHARED {
        return Err(format!("{total} bytes of shared memory; the limit is {MAX_SHARED}"));
    }
    if shared_bytes > 0 && code.dynamic_shared.is_none() {
        return Err(format!("{shared_bytes} bytes of dynamic shared memory, which the entry does not use"));
    }
    Ok(())
}
