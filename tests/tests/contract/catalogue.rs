//! Every public kernel for every element type that it takes, with calls that reach each of its ways.

use std::sync::LazyLock;

use cotangent::kernels::KernelInfo;
use cotangent::launch::{Launch, Target};
use cotangent::{
    Algorithm, BiasAddBackward, BiasAddForward, CastToBf16, CastToF16, CastToF32, CastToF64,
    ChannelCatBackward, ChannelCatForward, ConstantPad1dBackward, ConstantPad1dForward, Conv2dBackward,
    Conv2dBackwardDw, Conv2dBackwardDx, Conv2dForward, DType, Device, FlattenBackward, FlattenForward,
    Kernel, LaunchOptions, MathMode, Num, ReluBackward, ReluForward, Result, SgdStep,
    SoftmaxCrossEntropyBackward, SoftmaxCrossEntropyForward, UpsampleNearest2dBackward,
    UpsampleNearest2dForward, Workspace,
};
use half::{bf16, f16};

/// What a kernel says of itself: by its public fields, or by the trait's methods.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) name: &'static str,
    pub(crate) kernel_source: String,
    pub(crate) entry_point_source: String,
    pub(crate) source: String,
}

/// The extents and options of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) extents: Vec<i32>,
    pub(crate) rows: Option<i64>,
    pub(crate) accumulate: bool,
    pub(crate) math: MathMode,
    pub(crate) algorithm: Algorithm,
}

impl Call {
    fn new(extents: &[i32]) -> Self {
        Self { extents: extents.to_vec(), ..Self::default() }
    }

    /// The options, with this workspace.
    pub(crate) fn options(&self, workspace: Option<Workspace>) -> LaunchOptions<'static> {
        let mut options = LaunchOptions::new().accumulate(self.accumulate).math(self.math);
        options.algorithm = self.algorithm;
        options.rows = self.rows;
        options.workspace = workspace;
        options
    }
}

/// A kernel whose type has been forgotten.
pub(crate) trait Launches: Send + Sync {
    /// [`Kernel::prepare`].
    fn prepare(&self, addresses: &[u64], call: &Call) -> Result<Launch>;

    /// [`Kernel::workspace_bytes`].
    fn workspace_bytes(&self, addresses: &[u64], call: &Call, target: &Target) -> Result<u64>;

    /// [`Kernel::plan`].
    fn plan(
        &self,
        addresses: &[u64],
        call: &Call,
        workspace: Option<Workspace>,
        target: &Target,
    ) -> Result<Vec<Launch>>;

    /// [`Device::launch_ptx`] with the kernel's own options.
    ///
    /// # Safety
    /// As there.
    unsafe fn launch_ptx(&self, device: &Device, ptx: &str, addresses: &[u64], call: &Call) -> Result<()>;
}

struct Typed<K, A> {
    kernel: K,
    args: A,
}

impl<K, A> Launches for Typed<K, A>
where
    K: Kernel + Send + Sync,
    A: Fn(&[u64], &[i32]) -> K::Args<'static> + Send + Sync,
{
    fn prepare(&self, addresses: &[u64], call: &Call) -> Result<Launch> {
        self.kernel.prepare(&(self.args)(addresses, &call.extents), &call.options(None))
    }

    fn workspace_bytes(&self, addresses: &[u64], call: &Call, target: &Target) -> Result<u64> {
        let args = (self.args)(addresses, &call.extents);
        self.kernel.workspace_bytes(&args, &call.options(None), target)
    }

    fn plan(
        &self,
        addresses: &[u64],
        call: &Call,
        workspace: Option<Workspace>,
        target: &Target,
    ) -> Result<Vec<Launch>> {
        self.kernel.plan(&(self.args)(addresses, &call.extents), &call.options(workspace), target)
    }

    unsafe fn launch_ptx(&self, device: &Device, ptx: &str, addresses: &[u64], call: &Call) -> Result<()> {
        let args = (self.args)(addresses, &call.extents);
        // SAFETY: by this function's contract.
        unsafe { device.launch_ptx(&self.kernel, ptx, args, &call.options(None)) }
    }
}

/// One kernel of one element type.
pub(crate) struct Subject {
    pub(crate) fields: Said,
    pub(crate) methods: Said,
    /// The field, and the method.
    pub(crate) ids: [String; 2],
    pub(crate) entry_point_name: String,
    pub(crate) constants: Vec<(&'static str, i32)>,
    pub(crate) dtype: DType,
    pub(crate) info: &'static KernelInfo,
    pub(crate) pointers: usize,
    pub(crate) calls: Vec<Call>,
    pub(crate) launches: Box<dyn Launches>,
    /// `new`, which may panic, and `try_new`.
    pub(crate) new: fn(&[i32]),
    pub(crate) try_new: fn(&[i32]) -> Result<()>,
}

impl Subject {
    /// Its name and element type, for messages.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.info.name, self.dtype)
    }

    /// Addresses that are never touched, 2⁴⁴ bytes apart and aligned to 256 bytes.
    pub(crate) fn nowhere(&self) -> Vec<u64> {
        (1..=self.pointers as u64).map(|i| i << 44).collect()
    }

    /// The portable launch of a call.
    pub(crate) fn portable(&self, call: &Call) -> Launch {
        let launch = self.launches.prepare(&self.nowhere(), call);
        launch.unwrap_or_else(|error| panic!("{} {call:?}: {error}", self.label()))
    }

    /// What is planned for a target, with and without a workspace.
    pub(crate) fn planned(&self, call: &Call, target: &Target) -> Vec<Launch> {
        let addresses = self.nowhere();
        let plan = || {
            let mut launches = Vec::new();
            for algorithm in [Algorithm::Auto, Algorithm::Large] {
                let call = &Call { algorithm, ..call.clone() };
                let bytes = self.launches.workspace_bytes(&addresses, call, target)?;
                let workspace = Workspace { address: 1 << 50, bytes };
                launches.extend(self.launches.plan(&addresses, call, None, target)?);
                launches.extend(self.launches.plan(&addresses, call, Some(workspace), target)?);
            }
            Ok(launches)
        };
        plan().unwrap_or_else(|error: cotangent::Error| panic!("{} {call:?}: {error}", self.label()))
    }
}

/// The targets that launches are planned for: large and small GPUs with and without tensor cores that serve.
pub(crate) const TARGETS: [Target; 4] = [
    Target { capability: (9, 0), multiprocessors: 132 },
    Target { capability: (8, 6), multiprocessors: 1 },
    Target { capability: (7, 0), multiprocessors: 80 },
    Target { capability: (7, 5), multiprocessors: 1 },
];

/// Every launch of every call: the portable one, then those planned for each target.
pub(crate) fn launches() -> impl Iterator<Item = (&'static Subject, &'static Call, Launch)> {
    SUBJECTS.iter().flat_map(|subject| {
        subject.calls.iter().flat_map(move |call| {
            let planned = TARGETS.iter().flat_map(move |target| subject.planned(call, target));
            std::iter::once(subject.portable(call)).chain(planned).map(move |launch| (subject, call, launch))
        })
    })
}

/// Adds a kernel of one element type. The arguments are an expression in `$p`, the addresses, and `$e`,
/// the extents; addresses become pointers of whatever type the kernel takes.
macro_rules! subject {
    (
        $list:ident, $kernel:ident<$ty:ty> { $($constant:ident: $value:literal),+ }
        |$p:ident: $pointers:literal, $e:ident| $args:expr, $calls:expr
    ) => {{
        let kernel = $kernel::<$ty>::new($($value),+);
        let (fields, methods) = (
            Said {
                name: kernel.name,
                kernel_source: kernel.kernel_source.clone(),
                entry_point_source: kernel.entry_point_source.clone(),
                source: kernel.source.clone(),
            },
            Said {
                name: kernel.name(),
                kernel_source: kernel.kernel_source().to_owned(),
                entry_point_source: kernel.entry_point_source().to_owned(),
                source: kernel.source().to_owned(),
            },
        );
        $list.push(Subject {
            fields,
            methods,
            ids: [kernel.id.clone(), kernel.id()],
            entry_point_name: kernel.entry_point_name(),
            constants: vec![$((stringify!($constant), kernel.$constant)),+],
            dtype: kernel.dtype(),
            info: kernel.info(),
            pointers: $pointers,
            calls: $calls.to_vec(),
            launches: Box::new(Typed { kernel, args: |$p: &[u64], $e: &[i32]| $args }),
            new: |values| {
                let &[$($constant),+] = values else { panic!("as many as the kernel has") };
                $kernel::<$ty>::new($($constant),+);
            },
            try_new: |values| {
                let &[$($constant),+] = values else { panic!("as many as the kernel has") };
                $kernel::<$ty>::try_new($($constant),+).map(drop)
            },
        });
    }};
}

/// [`subject!`] for the floating-point types.
macro_rules! for_floats {
    ($list:ident, $kernel:ident $($rest:tt)*) => {
        subject!($list, $kernel<f16> $($rest)*);
        subject!($list, $kernel<bf16> $($rest)*);
        subject!($list, $kernel<f32> $($rest)*);
        subject!($list, $kernel<f64> $($rest)*);
    };
}

/// [`subject!`] for every element type.
macro_rules! for_all {
    ($list:ident, $kernel:ident $($rest:tt)*) => {
        subject!($list, $kernel<i8> $($rest)*);
        subject!($list, $kernel<i16> $($rest)*);
        subject!($list, $kernel<i32> $($rest)*);
        subject!($list, $kernel<i64> $($rest)*);
        subject!($list, $kernel<u8> $($rest)*);
        subject!($list, $kernel<u16> $($rest)*);
        subject!($list, $kernel<u32> $($rest)*);
        subject!($list, $kernel<u64> $($rest)*);
        for_floats!($list, $kernel $($rest)*);
    };
}

/// All of them, built once.
pub(crate) static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let mut list = Vec::new();
    flatten_and_cat(&mut list);
    pad_and_upsample(&mut list);
    convolutions(&mut list);
    elementwise(&mut list);
    list
});

fn accumulated(calls: &[Call]) -> Vec<Call> {
    let added = calls.iter().map(|call| Call { accumulate: true, ..call.clone() });
    calls.iter().cloned().chain(added).collect()
}

fn flatten_and_cat(list: &mut Vec<Subject>) {
    // Rows, columns on 16-byte boundaries, columns off them, neither, and nothing; then rows and a run by vectors.
    let matrices = [
        [9, 40, 44, 1],
        [64, 64, 1, 64],
        [40, 70, 1, 41],
        [5, 7, 14, 2],
        [0, 7, 14, 2],
        [3, 1501, 1510, 1],
        [3, 1501, 1501, 1],
    ];
    let calls = matrices.map(|extents| Call::new(&extents));
    for_all!(list, FlattenForward { block_b: 5, block_n: 48 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2], e[3]), calls);
    for_all!(list, FlattenBackward { block_b: 5, block_n: 48 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2], e[3]), accumulated(&calls));
    let calls =
        [(3, 40, 100, 7), (9, 1, 3, 2), (3, 1501, 1600, 7)].map(|(rows, chunk_c, c_total, chunk_offset)| {
            Call { rows: Some(rows), ..Call::new(&[chunk_c, c_total, chunk_offset]) }
        });
    for_all!(list, ChannelCatForward { block_size: 200 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2]), calls);
    for_all!(list, ChannelCatBackward { block_size: 200 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2]), accumulated(&calls));
}

fn pad_and_upsample(list: &mut Vec<Subject>) {
    let calls = [[2, 3, 50, 51], [1, 1, 2, 3], [1, 3, 1500, 1501]].map(|extents| Call::new(&extents));
    for_all!(list, ConstantPad1dForward { pad_left: 3, pad_right: -2, block_ol: 96 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2], e[3], Num::from_f64(7.0)), calls);
    for_all!(list, ConstantPad1dBackward { pad_left: 3, pad_right: -2, block_ol: 96 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2], e[3]), accumulated(&calls));
    let calls = [[2, 3, 4, 20, 12, 40], [1, 1, 1, 1, 3, 2]].map(|extents| Call::new(&extents));
    for_all!(list, UpsampleNearest2dForward { scale_h: 3, scale_w: 2, block_ow: 96 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2], e[3], e[4], e[5]), calls);
    for_all!(list, UpsampleNearest2dBackward { scale_h: 3, scale_w: 2, block_iw: 96 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2], e[3], e[4], e[5]), accumulated(&calls));
}

/// Calls of a convolution with a 3 × 2 filter, strides 2 and 1, pads 1 and 0 and two groups: few channels, then
/// enough for tiles, with both reductions small and large, then one input channel a group, three, and four, in both math
/// modes.
fn convolution_calls(gradients: bool) -> Vec<Call> {
    let mut calls = Vec::new();
    let tiles = [[1, 32, 32, 9, 9], [2, 256, 288, 12, 13], [1, 40, 384, 30, 31], [1, 6, 64, 8, 8]];
    let special = [[2, 2, 4, 9, 8], [1, 6, 64, 16, 16], [1, 8, 64, 16, 16]];
    for [b, c_in, c_out, h, wd] in [[2, 4, 6, 5, 7]].into_iter().chain(tiles).chain(special) {
        let call = Call::new(&[b, c_in, c_out, h, wd, (h - 1) / 2 + 1, wd - 1]);
        for math in [MathMode::Ieee, MathMode::Tf32] {
            calls.push(Call { math, ..call.clone() });
        }
    }
    if gradients { accumulated(&calls) } else { calls }
}

fn convolutions(list: &mut Vec<Subject>) {
    macro_rules! convolution {
        ($kernel:ident, $pointers:literal, $gradients:literal, $($i:literal),+) => {
            for_all!(list, $kernel {
                kh: 3, kw: 2, stride_h: 2, stride_w: 1, pad_h: 1, pad_w: 0, g: 2, block_ow: 77
            } |p: $pointers, e| ($(p[$i] as *mut _,)+ e[0], e[1], e[2], e[3], e[4], e[5], e[6]),
                convolution_calls($gradients));
        };
    }
    convolution!(Conv2dForward, 3, false, 0, 1, 2);
    convolution!(Conv2dBackward, 5, true, 0, 1, 2, 3, 4);
    convolution!(Conv2dBackwardDx, 3, true, 0, 1, 2);
    convolution!(Conv2dBackwardDw, 3, true, 0, 1, 2);
    macro_rules! more {
        ($kernel:ident, $k:literal, $calls:expr) => {
            for_all!(list, $kernel {
                kh: $k, kw: $k, stride_h: 1, stride_w: 1, pad_h: 0, pad_w: 0, g: 1, block_ow: 77
            } |p: 3, e| (p[0] as *mut _, p[1] as *mut _, p[2] as *mut _, e[0], e[1], e[2], e[3], e[4], e[5], e[6]),
                $calls);
        };
    }
    let both = |extents: &[[i32; 7]]| -> Vec<Call> {
        let call = |math| move |extents: &[i32; 7]| Call { math, ..Call::new(extents) };
        extents.iter().map(call(MathMode::Ieee)).chain(extents.iter().map(call(MathMode::Tf32))).collect()
    };
    // wgrad of f32 splits products where there is no stride. Tiles of many channels and pixels, and an image too large for
    // the blocked format.
    let square = both(&[
        [1, 64, 64, 9, 9, 8, 8],
        [1, 16, 120, 11, 13, 10, 12],
        [8, 64, 64, 257, 257, 256, 256],
        [8, 64, 130, 257, 257, 256, 256],
    ]);
    more!(Conv2dForward, 2, square);
    more!(Conv2dBackwardDw, 2, square);
    // Products of matrices, on the boundary of vectors and off it.
    let pointwise = both(&[[1, 64, 130, 8, 16, 8, 16], [1, 140, 60, 8, 16, 8, 16], [1, 64, 64, 9, 9, 9, 9]]);
    more!(Conv2dForward, 1, pointwise);
    more!(Conv2dBackwardDw, 1, pointwise);
}

fn elementwise(list: &mut Vec<Subject>) {
    // In the last a thread has several batches.
    let calls = [[2, 3, 4, 5], [1, 70, 1, 1], [2, 3, 20, 60]].map(|extents| Call::new(&extents));
    for_all!(list, BiasAddForward { block_size: 200 }
        |p: 3, e| (p[0] as *mut _, p[1] as *mut _, p[2] as *mut _, e[0], e[1], e[2], e[3]), calls);
    for_all!(list, BiasAddBackward { block_size: 200 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1], e[2], e[3]), accumulated(&calls));
    let calls = [[3, 70], [1, 1]].map(|extents| Call::new(&extents));
    macro_rules! cast {
        ($($kernel:ident),+) => { $(
            for_floats!(list, $kernel { block_size: 200 }
                |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1]), calls);
        )+ };
    }
    cast!(CastToF16, CastToBf16, CastToF32, CastToF64);
    for_floats!(list, ReluForward { block_size: 200 }
        |p: 2, e| (p[0] as *mut _, p[1] as *mut _, e[0], e[1]), calls);
    for_floats!(list, ReluBackward { block_size: 200 }
        |p: 3, e| (p[0] as *mut _, p[1] as *mut _, p[2] as *mut _, e[0], e[1]), accumulated(&calls));
    let steps = [[3, 70], [1, 1], [3, 700]].map(|extents| Call::new(&extents));
    for_floats!(list, SgdStep { block_size: 2000 }
        |p: 5, e| (p[0] as *mut _, p[1] as *mut _, p[2] as *mut _, p[3] as *mut _, p[4] as *mut _, e[0], e[1]),
        steps);
    for_floats!(list, SoftmaxCrossEntropyForward { block_size: 64 }
        |p: 3, e| (p[0] as *mut _, p[1] as *mut _, p[2] as *mut _, e[0], e[1], 0.25), calls);
    for_floats!(list, SoftmaxCrossEntropyBackward { block_size: 64 }
        |p: 3, e| (p[0] as *mut _, p[1] as *mut _, p[2] as *mut _, e[0], e[1], 0.25), accumulated(&calls));
}
