//! The GPU's own vocabulary: the only file with compiler intrinsics or inline PTX.
//!
//! On a host each function has a stand-in that plays a grid of one thread.

/// A named hole in the PTX (`mov.b32 r, <token>;`) that the host fills with a plain decimal.
///
/// `pure` is right here and nowhere else: the value depends on nothing, so it may move or merge freely.
#[doc(hidden)]
#[macro_export]
macro_rules! hole {
    ($token:expr) => {{
        let value: u32;
        // SAFETY: the instruction writes one register and touches nothing else.
        unsafe {
            core::arch::asm!(
                concat!("mov.b32 {value}, ", $token, ";"),
                value = out(reg32) value,
                options(pure, nomem, nostack)
            );
        }
        value
    }};
}

#[cfg(target_arch = "nvptx64")]
mod imp {
    use core::arch::{asm, nvptx};

    #[inline(always)]
    pub(super) fn thread_idx_x() -> u32 {
        // SAFETY: reads a special register.
        unsafe { nvptx::_thread_idx_x() as u32 }
    }

    #[inline(always)]
    pub(super) fn block_dim_x() -> u32 {
        // SAFETY: reads a special register.
        unsafe { nvptx::_block_dim_x() as u32 }
    }

    #[inline(always)]
    pub(super) fn block_idx_x() -> u32 {
        // SAFETY: reads a special register.
        unsafe { nvptx::_block_idx_x() as u32 }
    }

    #[inline(always)]
    pub(super) fn grid_dim_x() -> u32 {
        // SAFETY: reads a special register.
        unsafe { nvptx::_grid_dim_x() as u32 }
    }

    #[inline(always)]
    pub(super) fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
        core::intrinsics::fmaf32(a, b, c)
    }

    #[inline(always)]
    pub(super) fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
        core::intrinsics::fmaf64(a, b, c)
    }

    #[inline(always)]
    pub(super) fn f16_to_f32(bits: u16) -> f32 {
        let value: f32;
        // SAFETY: register to register.
        unsafe {
            asm!("cvt.f32.f16 {v}, {b};", v = out(reg32) value, b = in(reg16) bits,
                options(pure, nomem, nostack));
        }
        value
    }

    #[inline(always)]
    pub(super) fn f32_to_f16(value: f32) -> u16 {
        let bits: u16;
        // SAFETY: register to register.
        unsafe {
            asm!("cvt.rn.f16.f32 {b}, {v};", b = out(reg16) bits, v = in(reg32) value,
                options(pure, nomem, nostack));
        }
        bits
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod imp {
    pub(super) fn thread_idx_x() -> u32 {
        0
    }

    pub(super) fn block_dim_x() -> u32 {
        1
    }

    pub(super) fn block_idx_x() -> u32 {
        0
    }

    pub(super) fn grid_dim_x() -> u32 {
        1
    }

    /// Exact in `f64` and then rounded once more: equal to a fused multiply-add but for rare double
    /// rounding, which a stand-in may have.
    pub(super) fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
        (f64::from(a) * f64::from(b) + f64::from(c)) as f32
    }

    pub(super) fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }

    pub(super) fn f16_to_f32(bits: u16) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let magnitude = u32::from(bits & 0x7fff);
        let value = if magnitude >= 0x7c00 {
            f32::from_bits(0x7f80_0000 | (magnitude << 13))
        } else {
            // Shifting the exponent field into place leaves it 112 too small; the product mends that,
            // subnormals included.
            f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23)
        };
        f32::from_bits(value.to_bits() | sign)
    }

    pub(super) fn f32_to_f16(value: f32) -> u16 {
        let bits = value.to_bits();
        let sign = ((bits >> 16) & 0x8000) as u16;
        let magnitude = bits & 0x7fff_ffff;
        if magnitude > 0x7f80_0000 {
            return 0x7fff;
        }
        if magnitude >= 0x4780_0000 {
            return sign | 0x7c00;
        }
        let exponent = (magnitude >> 23) as i32 - 127;
        // The number of low bits that the 10-bit fraction drops; more below the normal range.
        let drop = if exponent < -14 { 13 + (-14 - exponent) } else { 13 };
        if drop > 24 {
            return sign;
        }
        let significand = (magnitude & 0x007f_ffff) | 0x0080_0000;
        let kept = significand >> drop;
        let rest = significand & ((1 << drop) - 1);
        let half = 1 << (drop - 1);
        let rounded = kept + u32::from(rest > half || (rest == half && kept & 1 == 1));
        let biased = if exponent < -14 { rounded } else { rounded + (((exponent + 14) as u32) << 10) };
        sign | biased as u16
    }
}

/// `threadIdx.x`.
#[inline(always)]
pub fn thread_idx_x() -> u32 {
    imp::thread_idx_x()
}

/// `blockDim.x`: threads in a block.
#[inline(always)]
pub fn block_dim_x() -> u32 {
    imp::block_dim_x()
}

/// `blockIdx.x`.
#[inline(always)]
pub fn block_idx_x() -> u32 {
    imp::block_idx_x()
}

/// `gridDim.x`: blocks in the grid.
#[inline(always)]
pub fn grid_dim_x() -> u32 {
    imp::grid_dim_x()
}

/// `a · b + c` with one rounding. rustc never contracts a product and a sum by itself.
#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    imp::fma_f32(a, b, c)
}

/// `a · b + c` with one rounding.
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    imp::fma_f64(a, b, c)
}

/// The value of an IEEE half; exact.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    imp::f16_to_f32(bits)
}

/// The nearest IEEE half, ties to even; every NaN becomes `0x7fff`.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    imp::f32_to_f16(value)
}
