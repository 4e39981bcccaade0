//! Plans that were made before, for the next call that differs in its addresses alone.
//!
//! To plan takes longer than to launch: a convolution weighs many tiles. What comes out is the same for every call of
//! one shape, but for the addresses, and those only matter to a plan by how they lie on boundaries. So a plan is kept
//! with each address as a distance from one of the call's, and put together again for the addresses of the next call.
#![cfg_attr(not(feature = "cuda"), allow(unused, reason = "plans are for GPUs alone"))]

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{PoisonError, RwLock};

use rustc_hash::FxBuildHasher;

use super::{Constants, Launch, MAX_BUFFERS, Target, Touched, overlap};
use crate::element::DType;
use crate::error::Result;
use crate::kernel::{Algorithm, Kernel, LaunchOptions, MathMode, Workspace};
use crate::kernels::KernelInfo;

/// A plan may know an address modulo so many bytes, and whether it is null.
const BOUNDARY: u64 = 256;

/// How many plans are kept. Few programs have as many shapes; one that does plans some of them again.
const MOST_PLANS: usize = 1024;

/// How many arguments a kernel whose plans are kept may have.
const MAX_ARGS: usize = 12;

/// The workspace's place behind the arguments' addresses, and that of null.
const WORKSPACE: usize = MAX_ARGS;
const NULL: usize = MAX_ARGS + 1;

/// Everything that a plan depends on: the kernel, the numbers among its arguments, the options, and each address
/// modulo 256 bytes.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// The address of what ships of the kernel.
    kernel: usize,
    dtype: DType,
    constants: Constants,
    args: [u64; MAX_ARGS],
    count: usize,
    rows: Option<i64>,
    accumulate: bool,
    grid: Option<NonZeroU32>,
    math: MathMode,
    algorithm: Algorithm,
    /// What is known of the address, and the bytes.
    workspace: Option<[u64; 2]>,
}

/// What a plan may know of an address.
fn known_part(address: u64) -> u64 {
    address % BOUNDARY + if address == 0 { 0 } else { BOUNDARY }
}

impl PlanKey {
    pub(crate) fn new(
        kernel: &'static KernelInfo,
        dtype: DType,
        constants: Constants,
        options: &LaunchOptions<'_>,
    ) -> Self {
        // Every field is named, so that a new option cannot be forgotten here.
        let LaunchOptions { stream: _, rows, accumulate, grid, math, algorithm, workspace } = *options;
        let kernel = std::ptr::from_ref(kernel).addr();
        let workspace = workspace.map(|Workspace { address, bytes }| [known_part(address), bytes]);
        let (args, count) = ([0; MAX_ARGS], 0);
        Self { kernel, dtype, constants, args, count, rows, accumulate, grid, math, algorithm, workspace }
    }

    /// The kernel's constants, of which there are so many.
    pub(crate) fn constants(&self, count: usize) -> &[i32] {
        &self.constants[..count]
    }

    /// The numbers among the arguments, which follow the addresses.
    pub(crate) fn numbers(&self, addresses: &Addresses) -> impl Iterator<Item = i32> {
        self.args[addresses.count..self.count].iter().map(|&word| word as i32)
    }

    fn push(&mut self, word: u64) {
        self.args[self.count] = word;
        self.count += 1;
    }
}

/// A call's addresses: the arguments' in their order, the workspace's, and null.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    all: [u64; MAX_ARGS + 2],
    count: usize,
}

impl Addresses {
    pub(crate) fn new(options: &LaunchOptions<'_>) -> Self {
        let mut all = [0; MAX_ARGS + 2];
        all[WORKSPACE] = options.workspace.map_or(0, |workspace| workspace.address);
        Self { all, count: 0 }
    }

    /// The arguments' addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.all[..self.count].iter().copied()
    }

    /// Addresses far apart that lie on the same boundaries, so that sums tell which one they began with.
    fn apart(&self) -> Self {
        let mut apart = *self;
        for (place, address) in apart.all.iter_mut().enumerate().filter(|(_, address)| **address != 0) {
            *address = ((place as u64 + 1) << Self::DISTANCE) + *address % BOUNDARY;
        }
        apart
    }

    /// The power of two between addresses that are far apart. All of them are below 2⁶³.
    const DISTANCE: u32 = 58;

    /// Which of these addresses, all far apart, a sum began with.
    fn place(&self, sum: u64) -> Option<Place> {
        if sum == 0 {
            return Some(Place { base: NULL, distance: 0 });
        }
        let base = ((sum >> Self::DISTANCE) as usize).checked_sub(1).filter(|&base| base <= WORKSPACE)?;
        let distance = sum.checked_sub(self.all[base]).filter(|_| self.all[base] != 0)?;
        Some(Place { base, distance })
    }
}

/// A caller's argument, or all of them, as a key takes note of them.
pub(crate) trait Argument: Copy {
    fn note(self, key: &mut PlanKey, addresses: &mut Addresses);

    /// The next address in the place of an address; other values stay as they are.
    fn moved(self, addresses: &mut impl Iterator<Item = u64>) -> Self;
}

impl Argument for i32 {
    fn note(self, key: &mut PlanKey, _: &mut Addresses) {
        key.push(self as u64);
    }

    fn moved(self, _: &mut impl Iterator<Item = u64>) -> Self {
        self
    }
}

impl<D> Argument for *mut D {
    fn note(self, key: &mut PlanKey, addresses: &mut Addresses) {
        let address = self as u64;
        key.push(known_part(address));
        addresses.all[addresses.count] = address;
        addresses.count += 1;
    }

    fn moved(self, addresses: &mut impl Iterator<Item = u64>) -> Self {
        addresses.next().map_or(self, |address| address as Self)
    }
}

macro_rules! tuple_argument {
    ($($name:ident)+) => {
        #[allow(non_snake_case, reason = "a value is named as its type")]
        impl<$($name: Argument),+> Argument for ($($name,)+) {
            fn note(self, key: &mut PlanKey, addresses: &mut Addresses) {
                let ($($name,)+) = self;
                $( $name.note(key, addresses); )+
            }

            fn moved(self, addresses: &mut impl Iterator<Item = u64>) -> Self {
                let ($($name,)+) = self;
                ($( $name.moved(addresses), )+)
            }
        }
    };
}

tuple_argument!(A B C D E F G H I J);
tuple_argument!(A B C D E F G H I J K L);

/// An address as a distance from one of a call's.
#[derive(Clone, Copy)]
struct Place {
    base: usize,
    distance: u64,
}

impl Place {
    const NONE: Self = Self { base: NULL, distance: 0 };

    fn at(self, addresses: &Addresses) -> u64 {
        addresses.all[self.base] + self.distance
    }
}

/// Buffers whose addresses are places.
struct Buffers {
    touched: [Touched; MAX_BUFFERS],
    places: [Place; MAX_BUFFERS],
    count: usize,
}

impl Buffers {
    fn new(launch: &Launch, apart: &Addresses) -> Option<Self> {
        let mut places = [Place::NONE; MAX_BUFFERS];
        for (place, touched) in places.iter_mut().zip(launch.touched()) {
            *place = apart.place(touched.address)?;
        }
        Some(Self { touched: launch.touched, places, count: launch.buffers })
    }

    fn at(&self, addresses: &Addresses) -> [Touched; MAX_BUFFERS] {
        let mut touched = self.touched;
        for (touched, place) in touched.iter_mut().zip(&self.places).take(self.count) {
            touched.address = place.at(addresses);
        }
        touched
    }
}

/// A launch whose addresses are places.
struct Template {
    launch: Launch,
    buffers: Buffers,
    /// Where the parameters have an address, and which.
    params: Vec<(usize, Place)>,
}

impl Template {
    fn new(launch: Launch, apart: &Addresses) -> Option<Self> {
        let buffers = Buffers::new(&launch, apart)?;
        let place = |(start, address)| Some((start, apart.place(address)?));
        let params = launch.params.addresses().map(place).collect::<Option<_>>()?;
        Some(Self { launch, buffers, params })
    }

    fn at(&self, addresses: &Addresses) -> Launch {
        let mut launch = self.launch.clone();
        launch.touched = self.buffers.at(addresses);
        for &(start, place) in &self.params {
            launch.params.set_address(start, place.at(addresses));
        }
        launch
    }
}

/// What was planned, with places for addresses.
struct Planned {
    /// The buffers of the kernel's own launch, whose checks look at addresses.
    buffers: Buffers,
    workspace_bytes: u64,
    launches: Vec<Template>,
}

impl Planned {
    /// Plans for addresses far apart. None where something cannot be told from them.
    fn new<K: Kernel>(
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
        addresses: &Addresses,
    ) -> Option<Self> {
        let apart = addresses.apart();
        let args = kernel.moved(args, &apart)?;
        let workspace = options.workspace.map(|known| Workspace { address: apart.all[WORKSPACE], ..known });
        let options = LaunchOptions { workspace, ..*options };
        let portable = kernel.prepare(&args, &options).ok()?;
        let launches = kernel.plan(&args, &options, target).ok()?;
        Some(Self {
            buffers: Buffers::new(&portable, &apart)?,
            workspace_bytes: kernel.workspace_bytes(&args, &options, target).ok()?,
            launches: launches
                .into_iter()
                .map(|launch| Template::new(launch, &apart))
                .collect::<Option<_>>()?,
        })
    }

    /// Whether these addresses pass the checks that passed for those of the plan. The others follow from the key.
    fn serves(&self, addresses: &Addresses) -> bool {
        let touched = self.buffers.at(addresses);
        let touched = &touched[..self.buffers.count];
        let fits = |touched: &Touched| touched.address.checked_add(touched.bytes).is_some();
        touched.iter().all(fits) && overlap(touched).is_none()
    }

    fn at(&self, addresses: &Addresses) -> Vec<Launch> {
        self.launches.iter().map(|template| template.at(addresses)).collect()
    }
}

/// The plans of one target.
pub(crate) struct Plans {
    target: Target,
    /// None for calls whose plans cannot be put together again.
    known: RwLock<HashMap<PlanKey, Option<Planned>, FxBuildHasher>>,
}

impl Plans {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, known: RwLock::default() }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// [`Kernel::plan`] for this target.
    pub(crate) fn plan<K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<Vec<Launch>> {
        let call = kernel.plan_key(args, options)?;
        self.plan_call(kernel, args, options, call.as_ref())
    }

    /// The same, with workspace that `take` gives where the caller gave none and the plan has use for so many bytes.
    pub(crate) fn plan_with<K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
        take: impl FnOnce(u64) -> Result<Workspace>,
    ) -> Result<Vec<Launch>> {
        let mut call = kernel.plan_key(args, options)?;
        // Where the portable kernel is the only plan, asking for its workspace would check the call twice.
        if options.workspace.is_some() || !kernel.has_variants() {
            return self.plan_call(kernel, args, options, call.as_ref());
        }
        let anew = || Ok((kernel.workspace_bytes(args, options, &self.target)?, None));
        let known = |planned: &Planned, addresses: &Addresses| {
            let bytes = planned.workspace_bytes;
            (bytes, (bytes == 0).then(|| planned.at(addresses)))
        };
        let mut options = *options;
        let bytes = match self.ask(kernel, args, &options, call.as_ref(), anew, known)? {
            (_, Some(launches)) => return Ok(launches),
            (bytes, None) => bytes,
        };
        if bytes > 0 {
            let workspace = take(bytes)?;
            options.workspace = Some(workspace);
            if let Some((key, addresses)) = &mut call {
                key.workspace = Some([known_part(workspace.address), bytes]);
                addresses.all[WORKSPACE] = workspace.address;
            }
        }
        self.plan_call(kernel, args, &options, call.as_ref())
    }

    /// [`Kernel::workspace_bytes`] for this target.
    pub(crate) fn workspace_bytes<K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<u64> {
        let call = kernel.plan_key(args, options)?;
        let anew = || kernel.workspace_bytes(args, options, &self.target);
        self.ask(kernel, args, options, call.as_ref(), anew, |planned, _| planned.workspace_bytes)
    }

    fn plan_call<K: Kernel>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
        call: Option<&(PlanKey, Addresses)>,
    ) -> Result<Vec<Launch>> {
        let anew = || kernel.plan(args, options, &self.target);
        self.ask(kernel, args, options, call, anew, Planned::at)
    }

    /// What `known` finds in the plan of this call, or `anew` where there is none.
    fn ask<K: Kernel, R>(
        &self,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
        call: Option<&(PlanKey, Addresses)>,
        anew: impl FnOnce() -> Result<R>,
        known: impl FnOnce(&Planned, &Addresses) -> R,
    ) -> Result<R> {
        let Some((key, addresses)) = call else { return anew() };
        let plans = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = plans.get(key);
        if let Some(Some(planned)) = found
            && planned.serves(addresses)
        {
            return Ok(known(planned, addresses));
        }
        let is_new = found.is_none();
        drop(plans);
        let answer = anew()?;
        if is_new {
            self.keep(key.clone(), kernel, args, options, addresses);
        }
        Ok(answer)
    }

    /// Plans once more, for addresses that can be told from all else, and keeps that.
    #[cold]
    fn keep<K: Kernel>(
        &self,
        key: PlanKey,
        kernel: &K,
        args: &K::Args<'_>,
        options: &LaunchOptions<'_>,
        addresses: &Addresses,
    ) {
        let Ok(launches) = kernel.plan(args, options, &self.target) else { return };
        let planned = Planned::new(kernel, args, options, &self.target, addresses);
        // A plan that knows more of its addresses than the key has cannot be kept.
        let planned = planned.filter(|planned| {
            let again = planned.at(addresses);
            again.len() == launches.len() && again.iter().zip(&launches).all(|(one, other)| one.is(other))
        });
        let mut plans = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        plans.insert(key, planned);
    }
}

#[cfg(test)]
mod tests;
