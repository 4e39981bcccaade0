//! Stamps the C-ABI entry points of the kernels.
//!
//! The block below a body is data twice over: the compiler checks it against the body's signature, and the
//! builder parses it for the manifest, from which the host knows every kernel's parameters and constants.

/// Names a body's parameters by group and stamps `<name>_entry_point__<kind>` for each element kind.
///
/// `copy` kernels move bits and have one entry per element width (`b8` … `b64`); `arithmetic` kernels have
/// one per integer width (signed and unsigned wrap alike) and one per float type; `float` kernels have one
/// per float type, `single` kernels one for each float type whose sums are f32, `f32` kernels that one. `E` stands for
/// the element type. Constants are `i32` or [`FastDivmod`](crate::divmod::FastDivmod); `= n` after the type is the
/// value that the resource table is made with.
///
/// Two groups may follow, which the builder compares with the PTX: `barriers(n)`, the number of barrier
/// instructions (0 if left out), and `allow(…)`, what is rejected otherwise: `local`, `global`, `division`,
/// `float_atomics`.
#[macro_export]
macro_rules! entry {
    (sm_80 $family:ident $name:ident $groups:tt) => {
        $crate::stamp! { "entries_sm_80"; $family $name $groups }
    };
    ($family:ident $name:ident $groups:tt) => {
        $crate::stamp! { "entries"; $family $name $groups }
    };
}

/// One entry point per element kind of a family; used by [`entry!`] alone.
#[doc(hidden)]
#[macro_export]
macro_rules! stamp {
    ($feature:literal; copy $name:ident $groups:tt) => {
        $crate::stamp! { $feature; $name $groups b8 u8, b16 u16, b32 u32, b64 u64 }
    };
    ($feature:literal; single $name:ident $groups:tt) => {
        $crate::stamp! { $feature; $name $groups f16 $crate::num::F16, bf16 $crate::num::Bf16, f32 f32 }
    };
    ($feature:literal; f32 $name:ident $groups:tt) => {
        $crate::stamp! { $feature; $name $groups f32 f32 }
    };
    ($feature:literal; float $name:ident $groups:tt) => {
        $crate::stamp! {
            $feature; $name $groups f16 $crate::num::F16, bf16 $crate::num::Bf16, f32 f32, f64 f64
        }
    };
    ($feature:literal; arithmetic $name:ident $groups:tt) => {
        $crate::stamp! {
            $feature; $name $groups
            i8 u8, i16 u16, i32 u32, i64 u64,
            f16 $crate::num::F16, bf16 $crate::num::Bf16, f32 f32, f64 f64
        }
    };
    ($feature:literal; $name:ident $groups:tt $($kind:ident $ty:ty),+) => {
        $( $crate::stamp_one! { $feature; $name $kind $ty; $groups } )+
    };
}

/// One entry point; used by [`stamp!`] alone.
#[doc(hidden)]
#[macro_export]
macro_rules! stamp_one {
    (
        $feature:literal; $name:ident $kind:ident $ty:ty; {
            args($($arg:ident: $arg_ty:ty),* $(,)?)
            hidden($($hidden:ident: $hidden_ty:ty),* $(,)?)
            constants($($constant:ident: $constant_ty:ident $(= $canonical:literal)?),* $(,)?)
            $(barriers($barriers:literal))?
            $(threads($threads:literal, $blocks:literal))?
            $(allow($($exception:ident),* $(,)?))?
        }
    ) => {
        #[cfg(all(target_arch = "nvptx64", feature = $feature))]
        const _: () = {
            type E = $ty;
            #[unsafe(export_name = concat!(stringify!($name), "_entry_point__", stringify!($kind)))]
            unsafe extern "ptx-kernel" fn entry_point($($arg: $arg_ty,)* $($hidden: $hidden_ty,)*) {
                // SAFETY: the launch proves the body's contract before it gets here.
                unsafe { $name::<E>($($arg,)* $($hidden,)* $($crate::spec!($constant: $constant_ty)),*) }
            }
        };
    };
}

/// A specialization constant's value: the hole `__spec_<name>`, filled by the host before the JIT.
#[doc(hidden)]
#[macro_export]
macro_rules! spec {
    ($name:ident: i32) => {
        $crate::hole!(concat!("__spec_", stringify!($name))) as i32
    };
    ($name:ident: FastDivmod) => {
        $crate::divmod::FastDivmod::from_parts(
            $crate::hole!(concat!("__spec_", stringify!($name))),
            $crate::hole!(concat!("__spec_", stringify!($name), "_magic")),
            $crate::hole!(concat!("__spec_", stringify!($name), "_shift")),
        )
    };
}
