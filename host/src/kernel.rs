//! The contract of a kernel: a struct with its constants, its source, and its launch.

use std::num::NonZeroU32;

use crate::element::DType;
use crate::error::{Error, Result};
use crate::kernels::KernelInfo;
use crate::launch::{Addresses, Constants, Launch, PlanKey, Target};

/// A typed kernel: constants chosen, element type fixed, ready for any number of launches.
///
/// The struct's constants are specialization constants: the shipped PTX has named holes, and the numbers are
/// written in before the driver assembles the module.
pub trait Kernel {
    /// The caller's arguments. Pointers are device addresses (host addresses on the CPU) of contiguous
    /// buffers unless strides are given; extents and strides count elements.
    type Args<'a>;

    /// SHA-256 of [`source`](Kernel::source), in hexadecimal.
    fn id(&self) -> String;

    /// The kernel function's name.
    fn name(&self) -> &'static str;

    /// The kernel function and its entry point as Rust source that the builder compiles to PTX.
    fn source(&self) -> &str;

    /// The kernel function's own Rust source, verbatim.
    fn kernel_source(&self) -> &str;

    /// The entry point's Rust source, with the constants as literals.
    fn entry_point_source(&self) -> &str;

    /// The symbol that the module exports: `{name}_entry_point`.
    fn entry_point_name(&self) -> String;

    /// The element type.
    fn dtype(&self) -> DType;

    /// What ships of this kernel.
    fn info(&self) -> &'static KernelInfo;

    /// Checks the fields, the arguments and the options against each other, and says what a GPU would run.
    ///
    /// # Errors
    /// Whatever [`Error`] names: nothing contradictory gets as far as a launch.
    fn prepare(&self, args: &Self::Args<'_>, options: &LaunchOptions<'_>) -> Result<Launch>;

    /// Bytes of workspace with which [`plan`](Kernel::plan) can choose freely on this target.
    ///
    /// # Errors
    /// As [`prepare`](Kernel::prepare).
    fn workspace_bytes(
        &self,
        args: &Self::Args<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<u64> {
        let _ = target;
        self.prepare(args, options).map(|_| 0)
    }

    /// The launches that compute this fastest on a target, in order: the portable kernel's, or tuned variants'.
    ///
    /// The choice depends on the shape, the target, the workspace and how the addresses lie within 256 bytes alone,
    /// so that the same call gives the same bits each time.
    ///
    /// # Errors
    /// As [`prepare`](Kernel::prepare).
    fn plan(
        &self,
        args: &Self::Args<'_>,
        options: &LaunchOptions<'_>,
        target: &Target,
    ) -> Result<Vec<Launch>> {
        let _ = target;
        Ok(vec![self.prepare(args, options)?])
    }

    /// Whether there are plans beside the portable kernel's launch, which may have use for a workspace.
    #[doc(hidden)]
    fn has_variants(&self) -> bool {
        true
    }

    /// What [`plan`](Kernel::plan) depends on, and the call's addresses, of which it may depend on what
    /// [`PlanKey`] says alone; none where plans are not worth keeping.
    ///
    /// # Errors
    /// As [`prepare`](Kernel::prepare), for the fields alone.
    #[doc(hidden)]
    fn plan_key(
        &self,
        args: &Self::Args<'_>,
        options: &LaunchOptions<'_>,
    ) -> Result<Option<(PlanKey, Addresses)>> {
        let _ = (args, options);
        Ok(None)
    }

    /// The arguments with other addresses, where there is a [`plan_key`](Kernel::plan_key).
    #[doc(hidden)]
    fn moved<'a>(&self, args: &Self::Args<'a>, addresses: &Addresses) -> Option<Self::Args<'a>> {
        let _ = (args, addresses);
        None
    }

    /// Runs the CPU reference on host memory, after the same checks as [`prepare`](Kernel::prepare).
    ///
    /// # Errors
    /// As [`prepare`](Kernel::prepare).
    ///
    /// # Safety
    /// Every pointer is valid for the elements that the kernel's docs name, in host memory, and nothing else
    /// writes to them meanwhile.
    unsafe fn run_on_cpu(&self, args: &Self::Args<'_>, options: &LaunchOptions<'_>) -> Result<()>;
}

/// Everything about a launch that is not an argument of the kernel.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LaunchOptions<'a> {
    /// The stream to launch on; the device's own if none is given.
    pub stream: Option<&'a crate::Stream>,
    /// Channel cat: how many rows.
    pub rows: Option<i64>,
    /// Gradients: add to what the output holds instead of overwriting it.
    pub accumulate: bool,
    /// The number of blocks of the portable kernel, instead of its own choice. Any number is right.
    pub grid: Option<NonZeroU32>,
    /// Convolutions of f32: how products are formed.
    pub math: MathMode,
    /// Convolutions: which kernels of a GPU compute it.
    pub algorithm: Algorithm,
    /// Memory for partial results. Without it a device takes some of its own for the length of the launch.
    pub workspace: Option<Workspace>,
}

/// Which kernels compute a convolution on a GPU. Each gives the same bits every time; they differ from each other in
/// the last bits, as their sums have other orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// What suits the shape best, by rules that depend on nothing else.
    #[default]
    Auto,
    /// The portable kernel: a thread an element of the result.
    Portable,
    /// One launch for forward, or for both gradients, without a workspace: for f64, and for other floats and at most
    /// 2^25 products. It is an error for others.
    Small,
    /// Those that large problems run on, whatever the size; the portable kernel where none suits.
    Large,
    /// Planes in shared memory: one input channel a group, with few output channels each; wgrad also by pairs of
    /// channels, however many. This one and those below are each an error where they do not fit, for a problem or for
    /// the workspace that is given; [`Conv2dBackward`](crate::Conv2dBackward) takes one if it fits both gradients.
    Depthwise,
    /// Few channels of the result, as dgrad and wgrad of a first layer have, and forward of a last one.
    Few,
    /// 1×1 filters on tensor cores, with neither stride nor pad, and tensors on 16-byte boundaries.
    Pointwise,
    /// Tensor cores over a copy of the image with the channels of a pixel side by side. It needs a workspace.
    Blocked,
    /// Tensor cores over patches of the image as it lies. It needs a workspace.
    Patches,
    /// Tiles of the product by fused multiply-adds. wgrad needs a workspace.
    Tiled,
}

impl Algorithm {
    /// Every algorithm, [`Auto`](Self::Auto) first.
    pub const ALL: [Self; 10] = [
        Self::Auto,
        Self::Portable,
        Self::Small,
        Self::Large,
        Self::Depthwise,
        Self::Few,
        Self::Pointwise,
        Self::Blocked,
        Self::Patches,
        Self::Tiled,
    ];

    /// Its name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Portable => "portable",
            Self::Small => "small",
            Self::Large => "large",
            Self::Depthwise => "depthwise",
            Self::Few => "few",
            Self::Pointwise => "pointwise",
            Self::Blocked => "blocked",
            Self::Patches => "patches",
            Self::Tiled => "tiled",
        }
    }

    /// Whether the kernels of a family may serve: one of those that large problems choose among, in their order, or the
    /// one that was asked for.
    pub(crate) fn allows(self, family: Self) -> bool {
        !self.is_family() || self == family
    }

    /// Whether one family was asked for.
    pub(crate) fn is_family(self) -> bool {
        !matches!(self, Self::Auto | Self::Portable | Self::Small | Self::Large)
    }

    /// What an error says of an algorithm that does not fit; nothing for those that always do.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        Some(match self {
            Self::Auto | Self::Portable | Self::Large => return None,
            Self::Small => {
                "is Small, which is for floats, at most 2^25 products (f64: any), and the kernel's own grid"
            }
            Self::Depthwise => {
                "is Depthwise, which is for f16, bf16 and f32, one input channel and at most 8 output channels a group \
                 (wgrad: any), filters of at most 7 × 7, and the kernel's own grid; wgrad needs its workspace"
            }
            Self::Few => {
                "is Few, which is for f16, bf16 and f32, at most 15 channels of the result a group (wgrad: of x), and \
                 the kernel's own grid; wgrad needs its workspace"
            }
            Self::Pointwise => {
                "is Pointwise, which is for tensor cores, 1 × 1 filters, stride 1 without pads, tensors on 16-byte \
                 boundaries, its workspace, and the kernel's own grid"
            }
            Self::Blocked => {
                "is Blocked, which is for tensor cores, filters of more than one tap, at least 16 channels on both \
                 sides, images within its bounds, its workspace, and the kernel's own grid"
            }
            Self::Patches => {
                "is Patches, which is for tensor cores, at least 16 channels of the result, its workspace, and the \
                 kernel's own grid"
            }
            Self::Tiled => {
                "is Tiled, which is for f16, bf16 and f32, at most 64 taps, at least 16 channels of the result, and \
                 the kernel's own grid; wgrad needs its workspace"
            }
        })
    }
}

/// How a convolution of f32 forms its products. Other element types have one way each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MathMode {
    /// As f32 fused multiply-adds do.
    #[default]
    Ieee,
    /// On tensor cores, with operands rounded to TF32 (10 bits of fraction) and sums in f32.
    Tf32,
}

/// Device memory that a launch may use as it likes, and that nothing else touches meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Its address, a multiple of 256 bytes.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl<'a> LaunchOptions<'a> {
    /// The defaults: the device's own stream, overwrite, the kernel's own grid.
    pub fn new() -> Self {
        Self::default()
    }

    /// Launches on this stream.
    #[must_use]
    pub fn stream(mut self, stream: &'a crate::Stream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Sets the number of rows of a channel cat.
    #[must_use]
    pub fn rows(mut self, rows: i64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Adds to the output instead of overwriting it.
    #[must_use]
    pub fn accumulate(mut self, accumulate: bool) -> Self {
        self.accumulate = accumulate;
        self
    }

    /// Chooses how a convolution of f32 forms its products.
    #[must_use]
    pub fn math(mut self, math: MathMode) -> Self {
        self.math = math;
        self
    }

    /// Chooses the kernels of a convolution.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Gives memory for partial results.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Sets the number of blocks.
    #[must_use]
    pub fn grid(mut self, blocks: NonZeroU32) -> Self {
        self.grid = Some(blocks);
        self
    }
}

/// The largest magnitude of a constant; sums of a few of them stay inside 32 bits.
pub(crate) const LARGEST_CONSTANT: i32 = 1 << 29;

/// What values a constant may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Positive,
    NotNegative,
    Any,
}

impl Rule {
    fn check(self, kernel: &'static str, name: &'static str, value: i32) -> Result<()> {
        let (least, rule) = match self {
            Self::Positive => (1, "must be between 1 and 2^29"),
            Self::NotNegative => (0, "must be between 0 and 2^29"),
            Self::Any => (-LARGEST_CONSTANT, "must be between -2^29 and 2^29"),
        };
        if (least..=LARGEST_CONSTANT).contains(&value) {
            return Ok(());
        }
        Err(Error::Constant { kernel, name, value: i64::from(value), rule })
    }
}

/// Whether a kernel is out of reach of those who could edit its fields. A copy is in reach again.
#[derive(Debug, Default)]
pub(crate) struct Sealed(bool);

impl Sealed {
    pub(crate) fn seal(&mut self) {
        self.0 = true;
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.0
    }
}

impl Clone for Sealed {
    fn clone(&self) -> Self {
        Self(false)
    }
}

/// A kernel that can be put out of reach.
pub(crate) trait Seal {
    /// Says that nobody can edit the fields from now on, so that launches need not compare them.
    fn seal(&mut self);
}

/// The names and rules of a kernel's constants, with their values.
pub(crate) type Named = (&'static str, Rule, i32);

pub(crate) fn check_constants(kernel: &'static str, constants: &[Named]) -> Result<()> {
    constants.iter().try_for_each(|&(name, rule, value)| rule.check(kernel, name, value))
}

/// Fails if a public field no longer says what the kernel was built with.
pub(crate) fn check_unedited(
    info: &'static KernelInfo,
    constants: &[Named],
    built: &Constants,
    sources: [&str; 3],
) -> Result<()> {
    let edited = |field, change| Err(Error::Edited { kernel: info.name, field, change });
    for (&(name, _, value), &before) in constants.iter().zip(built) {
        if value != before {
            return edited(name, format!(" from {before} to {value}"));
        }
    }
    let [kernel_source, entry_point_source, source] = sources;
    if kernel_source != info.source {
        return edited("kernel_source", String::new());
    }
    let joined = source
        .strip_prefix(kernel_source)
        .and_then(|rest| rest.strip_prefix("\n\n"))
        .is_some_and(|rest| rest == entry_point_source);
    if joined { Ok(()) } else { edited("source", String::new()) }
}

/// `name__dtype__constants`, joined by two underscores.
pub(crate) fn identifier(name: &str, dtype: DType, constants: &[Named]) -> String {
    let mut id = format!("{name}__{dtype}");
    for (_, _, value) in constants {
        id.push_str("__");
        id.push_str(&value.to_string());
    }
    id
}

/// Rust source of the entry point that calls the kernel with these constants as literals.
pub(crate) fn entry_point_source(info: &KernelInfo, dtype: DType, constants: &[i32]) -> String {
    let element = dtype.device_name();
    let params: Vec<_> = info.args.iter().chain(info.hidden).collect();
    let signature: Vec<_> = params
        .iter()
        .map(|param| {
            let ty = if param.ty == "E" {
                element.to_owned()
            } else {
                param
                    .ty
                    .replace("*mut E", &format!("*mut {element}"))
                    .replace("<E as", &format!("<{element} as"))
            };
            format!("    {}: {ty},\n", param.name)
        })
        .collect();
    let literals = info.constants.iter().zip(constants).map(|(constant, value)| {
        if constant.divisor { format!("const {{ FastDivmod::new({value}) }}") } else { value.to_string() }
    });
    let call: Vec<_> = params.iter().map(|param| param.name.to_owned()).chain(literals).collect();
    format!(
        "#[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn {name}_entry_point(\n{}) {{\n    \
         // SAFETY: the launch proves the kernel's contract.\n    \
         unsafe {{ {name}::<{element}>({}) }}\n}}\n",
        signature.concat(),
        call.join(", "),
        name = info.name,
    )
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(text: &str) -> String {
    use sha2::{Digest, Sha256};
    use std::fmt::Write;
    Sha256::digest(text).iter().fold(String::with_capacity(64), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String cannot fail");
        hex
    })
}

/// Stamps a kernel's struct, its constructors and its [`Kernel`] implementation.
///
/// What a kernel alone knows stays in two functions of its file: `plan`, which checks the arguments and adds
/// the hidden words, and `reference`, which computes on the CPU.
macro_rules! kernel {
    (
        $(#[$doc:meta])*
        $kernel:ident($name:literal, $bound:ident) {
            $( $(#[$field_doc:meta])* $constant:ident: $rule:ident, )+
        }
        $(recommended($($shape:ident),*; $($block:expr),+))?
        args($($arg:ident: $arg_ty:ty),+ $(,)?)
        plan($plan:path)
        $(variants($workspace_bytes:path, $variants:path))?
        reference($reference:path)
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $kernel<D: $bound> {
            /// The kernel function's name.
            pub name: &'static str,
            /// Name, element type and constants, joined by two underscores.
            pub id: String,
            $( $(#[$field_doc])* pub $constant: i32, )+
            /// The kernel function's own Rust source, verbatim.
            pub kernel_source: String,
            /// Rust source of the entry point, with the constants as literals.
            pub entry_point_source: String,
            /// Both sources, an empty line between them.
            pub source: String,
            built: $crate::launch::Constants,
            sealed: $crate::kernel::Sealed,
            element: std::marker::PhantomData<fn(D)>,
        }

        impl<D: $bound> $kernel<D> {
            /// Builds the kernel for these constants.
            ///
            /// # Panics
            /// On a constant that the kernel cannot have; the message names it.
            pub fn new($($constant: i32),+) -> Self {
                match Self::try_new($($constant),+) {
                    Ok(kernel) => kernel,
                    Err(error) => panic!("{error}"),
                }
            }

            /// Builds the kernel for these constants.
            ///
            /// # Errors
            /// [`Error::Constant`](crate::Error::Constant) on a constant that the kernel cannot have.
            pub fn try_new($($constant: i32),+) -> $crate::Result<Self> {
                let info = Self::shipped();
                let named: &[$crate::kernel::Named] =
                    &[$((stringify!($constant), $crate::kernel::Rule::$rule, $constant)),+];
                $crate::kernel::check_constants(info.name, named)?;
                let kernel_source = info.source.to_owned();
                let entry_point_source = $crate::kernel::entry_point_source(info, D::DTYPE, &[$($constant),+]);
                Ok(Self {
                    name: info.name,
                    id: $crate::kernel::identifier(info.name, D::DTYPE, named),
                    $($constant,)+
                    source: format!("{kernel_source}\n\n{entry_point_source}"),
                    kernel_source,
                    entry_point_source,
                    built: $crate::kernel::padded(&[$($constant),+]),
                    sealed: $crate::kernel::Sealed::default(),
                    element: std::marker::PhantomData,
                })
            }

            $(
            /// Builds the kernel with the block that is fastest for this element type. Every other block
            /// gives the same results.
            ///
            /// # Panics
            /// As [`new`](Self::new).
            pub fn recommended($($shape: i32),*) -> Self {
                Self::new($($shape,)* $($block),+)
            }

            /// As [`recommended`](Self::recommended), with the error as a value.
            ///
            /// # Errors
            /// As [`try_new`](Self::try_new).
            pub fn try_recommended($($shape: i32),*) -> $crate::Result<Self> {
                Self::try_new($($shape,)* $($block),+)
            }
            )?

            fn shipped() -> &'static $crate::kernels::KernelInfo {
                static INFO: std::sync::LazyLock<&'static $crate::kernels::KernelInfo> =
                    std::sync::LazyLock::new(|| {
                        $crate::kernels::find($name).expect("the builder generated this kernel")
                    });
                &INFO
            }

            fn check_fields(&self) -> $crate::Result<()> {
                if self.sealed.is_sealed() {
                    return Ok(());
                }
                let named: &[$crate::kernel::Named] =
                    &[$((stringify!($constant), $crate::kernel::Rule::$rule, self.$constant)),+];
                $crate::kernel::check_constants($name, named)?;
                let sources = [&*self.kernel_source, &*self.entry_point_source, &*self.source];
                $crate::kernel::check_unedited(Self::shipped(), named, &self.built, sources)
            }
        }

        impl<D: $bound> $crate::kernel::Seal for $kernel<D> {
            fn seal(&mut self) {
                self.sealed.seal();
            }
        }

        impl<D: $bound> $crate::Kernel for $kernel<D> {
            type Args<'a> = ($($arg_ty,)+);

            fn id(&self) -> String {
                $crate::kernel::sha256(&self.source)
            }

            fn name(&self) -> &'static str {
                $name
            }

            fn source(&self) -> &str {
                &self.source
            }

            fn kernel_source(&self) -> &str {
                &self.kernel_source
            }

            fn entry_point_source(&self) -> &str {
                &self.entry_point_source
            }

            fn entry_point_name(&self) -> String {
                concat!($name, "_entry_point").to_owned()
            }

            fn dtype(&self) -> $crate::DType {
                D::DTYPE
            }

            fn info(&self) -> &'static $crate::kernels::KernelInfo {
                Self::shipped()
            }

            fn prepare(
                &self,
                args: &Self::Args<'_>,
                options: &$crate::LaunchOptions<'_>,
            ) -> $crate::Result<$crate::launch::Launch> {
                self.check_fields()?;
                let mut params = $crate::launch::Params::new();
                let ($($arg,)+) = args;
                $( $crate::launch::IntoParam::push_to($arg, &mut params); )+
                let mut plan = $crate::plan::Plan::new(Self::shipped(), D::DTYPE, self.built, params);
                $plan(self, args, options, &mut plan)?;
                plan.finish(options)
            }

            fn has_variants(&self) -> bool {
                let variants: &[&str] = &[$(stringify!($variants))?];
                !variants.is_empty()
            }

            $(
                fn workspace_bytes(
                    &self,
                    args: &Self::Args<'_>,
                    options: &$crate::LaunchOptions<'_>,
                    target: &$crate::launch::Target,
                ) -> $crate::Result<u64> {
                    $crate::Kernel::prepare(self, args, options)?;
                    Ok($workspace_bytes(self, args, options, target))
                }

                fn plan(
                    &self,
                    args: &Self::Args<'_>,
                    options: &$crate::LaunchOptions<'_>,
                    target: &$crate::launch::Target,
                ) -> $crate::Result<Vec<$crate::launch::Launch>> {
                    let portable = $crate::Kernel::prepare(self, args, options)?;
                    // A grid of the caller's own is one for the portable kernel.
                    let own = options.grid.is_some() || options.algorithm == $crate::Algorithm::Portable;
                    let tuned = if own { None } else { $variants(self, args, options, target, &portable) };
                    if let (None, Some(rule)) = (&tuned, options.algorithm.refusal()) {
                        return Err($crate::Error::Option { kernel: $name, option: "algorithm", rule });
                    }
                    Ok(tuned.unwrap_or_else(|| vec![portable]))
                }

                fn plan_key(
                    &self,
                    args: &Self::Args<'_>,
                    options: &$crate::LaunchOptions<'_>,
                ) -> $crate::Result<Option<($crate::launch::PlanKey, $crate::launch::Addresses)>> {
                    self.check_fields()?;
                    let mut key =
                        $crate::launch::PlanKey::new(Self::shipped(), D::DTYPE, self.built, options);
                    let mut addresses = $crate::launch::Addresses::new(options);
                    $crate::launch::Argument::note(*args, &mut key, &mut addresses);
                    Ok(Some((key, addresses)))
                }

                fn moved<'a>(
                    &self,
                    args: &Self::Args<'a>,
                    addresses: &$crate::launch::Addresses,
                ) -> Option<Self::Args<'a>> {
                    Some($crate::launch::Argument::moved(*args, &mut addresses.iter()))
                }
            )?

            unsafe fn run_on_cpu(
                &self,
                args: &Self::Args<'_>,
                options: &$crate::LaunchOptions<'_>,
            ) -> $crate::Result<()> {
                let launch = self.prepare(args, options)?;
                if launch.work() > 0 {
                    // SAFETY: by this function's contract; the arguments passed the kernel's checks.
                    unsafe { $reference(self, args, options) };
                }
                Ok(())
            }
        }
    };
}

pub(crate) use kernel;

/// Constants in their fixed-size place.
pub(crate) fn padded(values: &[i32]) -> Constants {
    let mut constants = Constants::default();
    constants[..values.len()].copy_from_slice(values);
    constants
}
