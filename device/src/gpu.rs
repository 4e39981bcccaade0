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
        #[allow(unused_unsafe, reason = "entry points expand this inside their own unsafe block")]
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
    use core::arch::{asm, global_asm, nvptx};

    // The one dynamic shared array; a module that does not use it is not charged for it.
    global_asm!(".extern .shared .align 128 .b8 cotangent_shared[];");

    #[inline(always)]
    pub(super) fn sync_threads() {
        // SAFETY: a barrier touches no memory of its own; the compiler keeps it convergent.
        unsafe { nvptx::_syncthreads() }
    }

    #[inline(always)]
    fn shared_address(byte: u32) -> u32 {
        let base: u32;
        // SAFETY: reads an address.
        unsafe {
            asm!("mov.u32 {b}, cotangent_shared;", b = out(reg32) base, options(pure, nomem, nostack));
        }
        base + byte
    }

    #[inline(always)]
    pub(super) unsafe fn shared_load<E: Copy>(byte: u32) -> E {
        let at = shared_address(byte);
        // SAFETY: by this function's contract; each arm moves exactly the element's bytes.
        unsafe {
            macro_rules! load {
                ($word:ty, $register:ident, $ty:literal) => {{
                    let value: $word;
                    asm!(concat!("ld.shared.", $ty, " {v}, [{a}];"), v = out($register) value,
                        a = in(reg32) at, options(readonly, nostack));
                    value
                }};
            }
            match size_of::<E>() {
                8 => core::mem::transmute_copy(&load!(u64, reg64, "b64")),
                4 => core::mem::transmute_copy(&load!(u32, reg32, "b32")),
                2 => core::mem::transmute_copy(&load!(u16, reg16, "b16")),
                _ => core::mem::transmute_copy(&(load!(u16, reg16, "u8") as u8)),
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn shared_store16(byte: u32, words: [u32; 4]) {
        let at = shared_address(byte);
        // SAFETY: by this function's contract.
        unsafe {
            asm!("st.shared.v4.b32 [{at}], {{{a}, {b}, {c}, {d}}};", a = in(reg32) words[0],
                b = in(reg32) words[1], c = in(reg32) words[2], d = in(reg32) words[3], at = in(reg32) at,
                options(nostack));
        }
    }

    #[inline(always)]
    pub(super) fn opaque(number: u32) -> u32 {
        let value: u32;
        // SAFETY: register to register.
        unsafe {
            asm!("mov.b32 {v}, {n};", v = out(reg32) value, n = in(reg32) number,
                options(pure, nomem, nostack));
        }
        value
    }

    #[inline(always)]
    pub(super) fn fresh(number: u32) -> u32 {
        let value: u32;
        // SAFETY: register to register.
        unsafe {
            asm!("mov.b32 {v}, {n};", v = out(reg32) value, n = in(reg32) number, options(nomem, nostack))
        };
        value
    }

    #[inline(always)]
    pub(super) fn f16_pair(low: f32, high: f32) -> u32 {
        let pair: u32;
        // SAFETY: register to register.
        unsafe {
            asm!("cvt.rn.f16x2.f32 {p}, {h}, {l};", p = out(reg32) pair, h = in(reg32) high, l = in(reg32) low,
                options(pure, nomem, nostack));
        }
        pair
    }

    #[inline(always)]
    pub(super) fn bf16_pair(low: f32, high: f32) -> u32 {
        let pair: u32;
        // SAFETY: register to register.
        unsafe {
            asm!("cvt.rn.bf16x2.f32 {p}, {h}, {l};", p = out(reg32) pair, h = in(reg32) high, l = in(reg32) low,
                options(pure, nomem, nostack));
        }
        pair
    }

    #[inline(always)]
    pub(super) fn to_tf32(value: f32) -> f32 {
        let rounded: f32;
        // SAFETY: register to register.
        unsafe {
            asm!("cvt.rna.tf32.f32 {r}, {v};", r = out(reg32) rounded, v = in(reg32) value,
                options(pure, nomem, nostack));
        }
        rounded
    }

    /// One `mma` with f32 sums. Not `pure`: the instruction must stay where all lanes of the warp reach it.
    macro_rules! mma {
        ($shape:literal, $ty:literal, $a:ident, $b:ident, $sum:ident) => {{
            let [mut d0, mut d1, mut d2, mut d3] = $sum;
            asm!(
                concat!("mma.sync.aligned.", $shape, ".row.col.f32.", $ty, ".", $ty, ".f32 \
                 {{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{d0}, {d1}, {d2}, {d3}}};"),
                d0 = inout(reg32) d0,
                d1 = inout(reg32) d1,
                d2 = inout(reg32) d2,
                d3 = inout(reg32) d3,
                a0 = in(reg32) $a[0],
                a1 = in(reg32) $a[1],
                a2 = in(reg32) $a[2],
                a3 = in(reg32) $a[3],
                b0 = in(reg32) $b[0],
                b1 = in(reg32) $b[1],
                options(nomem, nostack)
            );
            [d0, d1, d2, d3]
        }};
    }

    #[inline(always)]
    pub(super) unsafe fn mma_tf32(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
        // SAFETY: by this function's contract.
        unsafe { mma!("m16n8k8", "tf32", a, b, sum) }
    }

    #[inline(always)]
    pub(super) unsafe fn mma_f16(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
        // SAFETY: by this function's contract.
        unsafe { mma!("m16n8k16", "f16", a, b, sum) }
    }

    #[inline(always)]
    pub(super) unsafe fn mma_bf16(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
        // SAFETY: by this function's contract.
        unsafe { mma!("m16n8k16", "bf16", a, b, sum) }
    }

    #[inline(always)]
    pub(super) unsafe fn load_matrices<const TRANSPOSED: bool>(byte: u32) -> [u32; 4] {
        let at = shared_address(byte);
        let (a, b, c, d): (u32, u32, u32, u32);
        macro_rules! load {
            ($layout:literal) => {
                asm!(concat!("ldmatrix.sync.aligned.m8n8.x4", $layout, ".shared.b16 {{{a}, {b}, {c}, {d}}}, [{at}];"),
                    a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d, at = in(reg32) at,
                    options(readonly, nostack))
            };
        }
        // SAFETY: by this function's contract.
        unsafe {
            if TRANSPOSED {
                load!(".trans");
            } else {
                load!("");
            }
        }
        [a, b, c, d]
    }

    #[inline(always)]
    pub(super) unsafe fn copy16_async(byte: u32, from: *const u8) {
        let at = shared_address(byte);
        // SAFETY: by this function's contract.
        unsafe {
            asm!("cp.async.cg.shared.global [{at}], [{from}], 16;", at = in(reg32) at, from = in(reg64) from,
                options(nostack));
        }
    }

    #[inline(always)]
    pub(super) unsafe fn copy16_async_if<const KEEP: bool>(take: bool, byte: u32, from: *const u8) {
        let at = shared_address(byte);
        let bytes = if take { 16_u32 } else { 0 };
        macro_rules! copy {
            ($cache:literal) => {
                asm!(concat!("cp.async.", $cache, ".shared.global [{at}], [{from}], 16, {bytes};"),
                    at = in(reg32) at, from = in(reg64) from, bytes = in(reg32) bytes, options(nostack))
            };
        }
        // SAFETY: by this function's contract.
        unsafe {
            if KEEP {
                copy!("ca");
            } else {
                copy!("cg");
            }
        }
    }

    #[inline(always)]
    pub(super) fn commit_copies() {
        // SAFETY: groups the copies issued before.
        unsafe { asm!("cp.async.commit_group;", options(nostack)) };
    }

    #[inline(always)]
    pub(super) fn wait_copies<const PENDING: u32>() {
        // SAFETY: waits; the number is an immediate.
        unsafe { asm!("cp.async.wait_group {n};", n = const PENDING, options(nostack)) };
    }

    #[inline(always)]
    pub(super) unsafe fn shared_load16(byte: u32) -> [u32; 4] {
        let at = shared_address(byte);
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: by this function's contract.
        unsafe {
            asm!("ld.shared.v4.b32 {{{a}, {b}, {c}, {d}}}, [{at}];", a = out(reg32) a, b = out(reg32) b,
                c = out(reg32) c, d = out(reg32) d, at = in(reg32) at, options(readonly, nostack));
        }
        [a, b, c, d]
    }

    #[inline(always)]
    pub(super) unsafe fn shared_store<E: Copy>(byte: u32, value: E) {
        let at = shared_address(byte);
        // SAFETY: by this function's contract; each arm moves exactly the element's bytes.
        unsafe {
            macro_rules! store {
                ($word:ty, $register:ident, $ty:literal) => {{
                    let word: $word = core::mem::transmute_copy(&value);
                    asm!(concat!("st.shared.", $ty, " [{a}], {v};"), v = in($register) word,
                        a = in(reg32) at, options(nostack));
                }};
            }
            match size_of::<E>() {
                8 => store!(u64, reg64, "b64"),
                4 => store!(u32, reg32, "b32"),
                2 => store!(u16, reg16, "b16"),
                _ => {
                    let byte: u8 = core::mem::transmute_copy(&value);
                    asm!("st.shared.u8 [{a}], {v};", v = in(reg16) u16::from(byte), a = in(reg32) at,
                        options(nostack));
                }
            }
        }
    }

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

    #[inline(always)]
    pub(super) unsafe fn load16_if(take: bool, from: *const u8) -> [u32; 4] {
        let (mut a, mut b, mut c, mut d) = (0_u32, 0_u32, 0_u32, 0_u32);
        // SAFETY: by this function's contract; the predicate keeps a load that is not taken off the bus.
        unsafe {
            asm!(
                "{{",
                ".reg .pred take;",
                "setp.ne.u32 take, {take}, 0;",
                "@take ld.global.v4.b32 {{{a}, {b}, {c}, {d}}}, [{from}];",
                "}}",
                a = inout(reg32) a,
                b = inout(reg32) b,
                c = inout(reg32) c,
                d = inout(reg32) d,
                take = in(reg32) u32::from(take),
                from = in(reg64) from,
                options(readonly, nostack)
            );
        }
        [a, b, c, d]
    }

    #[inline(always)]
    pub(super) unsafe fn load_if<E: Copy>(take: bool, from: *const E, otherwise: E) -> E {
        let take = u32::from(take);
        // SAFETY: by this function's contract; each arm moves exactly the element's bytes.
        unsafe {
            macro_rules! load {
                ($word:ty, $register:ident, $ty:literal) => {{
                    let mut value: $word = core::mem::transmute_copy(&otherwise);
                    asm!(
                        "{{",
                        ".reg .pred take;",
                        "setp.ne.u32 take, {take}, 0;",
                        concat!("@take ld.global.", $ty, " {value}, [{from}];"),
                        "}}",
                        value = inout($register) value,
                        take = in(reg32) take,
                        from = in(reg64) from,
                        options(readonly, nostack)
                    );
                    core::mem::transmute_copy(&value)
                }};
            }
            match size_of::<E>() {
                8 => load!(u64, reg64, "b64"),
                4 => load!(u32, reg32, "b32"),
                2 => load!(u16, reg16, "b16"),
                _ => {
                    let byte: u8 = core::mem::transmute_copy(&otherwise);
                    let mut value = u16::from(byte);
                    asm!(
                        "{{",
                        ".reg .pred take;",
                        "setp.ne.u32 take, {take}, 0;",
                        "@take ld.global.u8 {value}, [{from}];",
                        "}}",
                        value = inout(reg16) value,
                        take = in(reg32) take,
                        from = in(reg64) from,
                        options(readonly, nostack)
                    );
                    core::mem::transmute_copy(&(value as u8))
                }
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn store_if<E: Copy>(take: bool, to: *mut E, element: E) {
        let take = u32::from(take);
        // SAFETY: by this function's contract; each arm moves exactly the element's bytes.
        unsafe {
            macro_rules! store {
                ($word:ty, $register:ident, $ty:literal, $value:expr) => {{
                    let value: $word = $value;
                    asm!(
                        "{{",
                        ".reg .pred take;",
                        "setp.ne.u32 take, {take}, 0;",
                        concat!("@take st.global.", $ty, " [{to}], {value};"),
                        "}}",
                        value = in($register) value,
                        take = in(reg32) take,
                        to = in(reg64) to,
                        options(nostack)
                    );
                }};
            }
            match size_of::<E>() {
                8 => store!(u64, reg64, "b64", core::mem::transmute_copy(&element)),
                4 => store!(u32, reg32, "b32", core::mem::transmute_copy(&element)),
                2 => store!(u16, reg16, "b16", core::mem::transmute_copy(&element)),
                _ => store!(u16, reg16, "u8", u16::from(core::mem::transmute_copy::<E, u8>(&element))),
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn store16_if(take: bool, to: *mut u8, words: [u32; 4]) {
        // SAFETY: by this function's contract; the predicate keeps a store that is not taken off the bus.
        unsafe {
            asm!(
                "{{",
                ".reg .pred take;",
                "setp.ne.u32 take, {take}, 0;",
                "@take st.global.v4.b32 [{to}], {{{a}, {b}, {c}, {d}}};",
                "}}",
                a = in(reg32) words[0],
                b = in(reg32) words[1],
                c = in(reg32) words[2],
                d = in(reg32) words[3],
                take = in(reg32) u32::from(take),
                to = in(reg64) to,
                options(nostack)
            );
        }
    }

    #[inline(always)]
    pub(super) fn funnel_right(low: u32, high: u32, bits: u32) -> u32 {
        let word: u32;
        // SAFETY: register to register.
        unsafe {
            asm!("shf.r.wrap.b32 {w}, {l}, {h}, {n};", w = out(reg32) word, l = in(reg32) low,
                h = in(reg32) high, n = in(reg32) bits, options(pure, nomem, nostack));
        }
        word
    }

    /// Not `pure`: the instruction must stay where all lanes of the warp reach it.
    #[inline(always)]
    pub(super) unsafe fn shuffle_xor(word: u32, mask: u32) -> u32 {
        let other: u32;
        // SAFETY: by this function's contract.
        unsafe {
            asm!("shfl.sync.bfly.b32 {o}, {w}, {m}, 31, -1;", o = out(reg32) other, w = in(reg32) word,
                m = in(reg32) mask, options(nomem, nostack));
        }
        other
    }

    #[inline(always)]
    pub(super) fn pick_bytes(low: u32, high: u32, selector: u32) -> u32 {
        let word: u32;
        // SAFETY: register to register.
        unsafe {
            asm!("prmt.b32 {w}, {l}, {h}, {s};", w = out(reg32) word, l = in(reg32) low,
                h = in(reg32) high, s = in(reg32) selector, options(pure, nomem, nostack));
        }
        word
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod imp {
    pub(super) fn sync_threads() {}

    pub(super) unsafe fn shared_load<E: Copy>(_: u32) -> E {
        unreachable!("shared memory belongs to a block of threads, and a host has one thread")
    }

    pub(super) unsafe fn shared_store16(_: u32, _: [u32; 4]) {
        unreachable!("shared memory belongs to a block of threads, and a host has one thread")
    }

    pub(super) fn opaque(number: u32) -> u32 {
        number
    }

    pub(super) fn fresh(number: u32) -> u32 {
        number
    }

    pub(super) fn f16_pair(low: f32, high: f32) -> u32 {
        u32::from(f32_to_f16(low)) | (u32::from(f32_to_f16(high)) << 16)
    }

    pub(super) fn bf16_pair(low: f32, high: f32) -> u32 {
        let round = |value: f32| {
            let bits = value.to_bits();
            let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
            if value.is_nan() { 0x7fff } else { rounded }
        };
        round(low) | (round(high) << 16)
    }

    pub(super) fn to_tf32(value: f32) -> f32 {
        let bits = value.to_bits();
        if value.is_finite() { f32::from_bits(bits.wrapping_add(0x1000) & !0x1fff) } else { value }
    }

    pub(super) unsafe fn mma_tf32(_: [u32; 4], _: [u32; 2], _: [f32; 4]) -> [f32; 4] {
        unreachable!("tensor cores belong to a warp of threads, and a host has one thread")
    }

    pub(super) unsafe fn mma_f16(_: [u32; 4], _: [u32; 2], _: [f32; 4]) -> [f32; 4] {
        unreachable!("tensor cores belong to a warp of threads, and a host has one thread")
    }

    pub(super) unsafe fn mma_bf16(_: [u32; 4], _: [u32; 2], _: [f32; 4]) -> [f32; 4] {
        unreachable!("tensor cores belong to a warp of threads, and a host has one thread")
    }

    pub(super) unsafe fn load_matrices<const TRANSPOSED: bool>(_: u32) -> [u32; 4] {
        unreachable!("shared memory belongs to a block of threads, and a host has one thread")
    }

    pub(super) unsafe fn shuffle_xor(_: u32, _: u32) -> u32 {
        unreachable!("lanes belong to a warp of threads, and a host has one thread")
    }

    pub(super) unsafe fn copy16_async(_: u32, _: *const u8) {
        unreachable!("shared memory belongs to a block of threads, and a host has one thread")
    }

    pub(super) unsafe fn copy16_async_if<const KEEP: bool>(_: bool, _: u32, _: *const u8) {
        unreachable!("shared memory belongs to a block of threads, and a host has one thread")
    }

    pub(super) fn commit_copies() {}

    pub(super) fn wait_copies<const PENDING: u32>() {}

    pub(super) unsafe fn shared_load16(_: u32) -> [u32; 4] {
        unreachable!("shared memory belongs to a block of threads, and a host has one thread")
    }

    pub(super) unsafe fn shared_store<E: Copy>(_: u32, _: E) {
        unreachable!("shared memory belongs to a block of threads, and a host has one thread")
    }

    pub(super) unsafe fn load16_if(take: bool, from: *const u8) -> [u32; 4] {
        // SAFETY: by this function's contract.
        if take { unsafe { from.cast::<[u32; 4]>().read() } } else { [0; 4] }
    }

    pub(super) unsafe fn load_if<E: Copy>(take: bool, from: *const E, otherwise: E) -> E {
        // SAFETY: by this function's contract.
        if take { unsafe { *from } } else { otherwise }
    }

    pub(super) unsafe fn store_if<E: Copy>(take: bool, to: *mut E, element: E) {
        if take {
            // SAFETY: by this function's contract.
            unsafe { *to = element };
        }
    }

    pub(super) unsafe fn store16_if(take: bool, to: *mut u8, words: [u32; 4]) {
        if take {
            // SAFETY: by this function's contract.
            unsafe { to.cast::<[u32; 4]>().write(words) };
        }
    }

    pub(super) fn funnel_right(low: u32, high: u32, bits: u32) -> u32 {
        let both = (u64::from(high) << 32) | u64::from(low);
        (both >> (bits & 31)) as u32
    }

    pub(super) fn pick_bytes(low: u32, high: u32, selector: u32) -> u32 {
        let both = (u64::from(high) << 32) | u64::from(low);
        (0..4).fold(0, |word, i| {
            let byte = (both >> (8 * ((selector >> (4 * i)) & 7))) as u8;
            word | (u32::from(byte) << (8 * i))
        })
    }

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

/// Four words from a 16-byte aligned address, or zeros. The load is predicated, not branched over, so that
/// several can be in flight.
///
/// # Safety
/// When taken, `from` is aligned to 16 bytes and valid for reads of 16 bytes of global memory.
#[inline(always)]
pub unsafe fn load16_if(take: bool, from: *const u8) -> [u32; 4] {
    // SAFETY: by this function's contract.
    unsafe { imp::load16_if(take, from) }
}

/// One element, or `otherwise`; predicated like [`load16_if`].
///
/// # Safety
/// When taken, `from` is valid for a read of one element of global memory.
#[inline(always)]
pub unsafe fn load_if<E: Copy>(take: bool, from: *const E, otherwise: E) -> E {
    // SAFETY: by this function's contract.
    unsafe { imp::load_if(take, from, otherwise) }
}

/// Stores one element, or nothing; predicated.
///
/// # Safety
/// When taken, `to` is valid for a write of one element of global memory.
#[inline(always)]
pub unsafe fn store_if<E: Copy>(take: bool, to: *mut E, element: E) {
    // SAFETY: by this function's contract.
    unsafe { imp::store_if(take, to, element) }
}

/// Four words to a 16-byte aligned address, or nothing.
///
/// # Safety
/// When taken, `to` is aligned to 16 bytes and valid for writes of 16 bytes of global memory.
#[inline(always)]
pub unsafe fn store16_if(take: bool, to: *mut u8, words: [u32; 4]) {
    // SAFETY: by this function's contract.
    unsafe { imp::store16_if(take, to, words) }
}

/// The low word of `high:low` shifted right by `bits` modulo 32 (`shf.r.wrap`).
#[inline(always)]
pub fn funnel_right(low: u32, high: u32, bits: u32) -> u32 {
    imp::funnel_right(low, high, bits)
}

/// The value of the lane whose number differs by the bits of `mask`.
///
/// # Safety
/// All lanes of the warp call this together; the value has four or eight bytes, and every bit pattern is one.
#[inline(always)]
pub unsafe fn shuffle_xor<A: Copy>(value: A, mask: u32) -> A {
    // SAFETY: by this function's contract; each arm moves exactly the value's bytes.
    unsafe {
        if size_of::<A>() == 8 {
            let [low, high]: [u32; 2] = core::mem::transmute_copy(&value);
            core::mem::transmute_copy(&[imp::shuffle_xor(low, mask), imp::shuffle_xor(high, mask)])
        } else {
            let word: u32 = core::mem::transmute_copy(&value);
            core::mem::transmute_copy(&imp::shuffle_xor(word, mask))
        }
    }
}

/// Four of the eight bytes of `high:low`, one for each nibble of the selector (`prmt`).
#[inline(always)]
pub fn pick_bytes(low: u32, high: u32, selector: u32) -> u32 {
    imp::pick_bytes(low, high, selector)
}

/// Waits for every thread of the block. All of them must get here (`bar.sync 0`).
#[inline(always)]
pub fn sync_threads() {
    imp::sync_threads();
}

/// An element of the block's dynamic shared memory, `byte` bytes from its start.
///
/// # Safety
/// The launch gave that much shared memory, the offset is aligned for the element, the element was stored
/// before the last barrier, and no thread stores to it before the next.
#[inline(always)]
pub unsafe fn shared_load<E: Copy>(byte: u32) -> E {
    // SAFETY: by this function's contract.
    unsafe { imp::shared_load(byte) }
}

/// Four words of the block's dynamic shared memory, `byte` bytes from its start.
///
/// # Safety
/// As for [`shared_load`], for 16 bytes at a multiple of 16.
#[inline(always)]
pub unsafe fn shared_load16(byte: u32) -> [u32; 4] {
    // SAFETY: by this function's contract.
    unsafe { imp::shared_load16(byte) }
}

/// Stores an element to the block's dynamic shared memory, `byte` bytes from its start.
///
/// # Safety
/// The launch gave that much shared memory, the offset is aligned for the element, and no other thread
/// touches the element between the barriers around this.
#[inline(always)]
pub unsafe fn shared_store<E: Copy>(byte: u32, value: E) {
    // SAFETY: by this function's contract.
    unsafe { imp::shared_store(byte, value) }
}

/// Stores four words to the block's dynamic shared memory, `byte` bytes from its start.
///
/// # Safety
/// As for [`shared_store`], for 16 bytes at a multiple of 16.
#[inline(always)]
pub unsafe fn shared_store16(byte: u32, words: [u32; 4]) {
    // SAFETY: by this function's contract.
    unsafe { imp::shared_store16(byte, words) }
}

/// The same number, of which the compiler knows nothing before this place: what follows from it is computed here, and
/// takes no registers in a loop around.
#[inline(always)]
pub fn fresh(number: u32) -> u32 {
    imp::fresh(number)
}

/// Two numbers' nearest halves, ties to even, in one word. Needs `sm_80`.
#[inline(always)]
pub fn f16_pair(low: f32, high: f32) -> u32 {
    imp::f16_pair(low, high)
}

/// As [`f16_pair`] for bfloat16.
#[inline(always)]
pub fn bf16_pair(low: f32, high: f32) -> u32 {
    imp::bf16_pair(low, high)
}

/// The nearest TF32 value (10 bits of fraction), ties away from zero. Needs `sm_80`.
#[inline(always)]
pub fn to_tf32(value: f32) -> f32 {
    imp::to_tf32(value)
}

/// `sum + a · b` for a 16 × 8 by 8 × 8 product of TF32 values with f32 sums, spread over a warp as the PTX ISA
/// says for `mma.m16n8k8`. Needs `sm_80`.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
pub unsafe fn mma_tf32(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
    // SAFETY: by this function's contract.
    unsafe { imp::mma_tf32(a, b, sum) }
}

/// As [`mma_tf32`] for 16 × 16 by 16 × 8 halves (`mma.m16n8k16`).
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
pub unsafe fn mma_f16(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
    // SAFETY: by this function's contract.
    unsafe { imp::mma_f16(a, b, sum) }
}

/// As [`mma_f16`] for bfloat16.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
pub unsafe fn mma_bf16(a: [u32; 4], b: [u32; 2], sum: [f32; 4]) -> [f32; 4] {
    // SAFETY: by this function's contract.
    unsafe { imp::mma_bf16(a, b, sum) }
}

/// Four matrices of 8 rows of 16 bytes from shared memory, spread over the warp (`ldmatrix.x4`): lane `l` says where
/// row `l % 8` of matrix `l / 8` lies. Transposed, the matrices hold 16-bit elements. Needs `sm_75`.
///
/// # Safety
/// As for [`shared_load16`]; all lanes of the warp call this together.
#[inline(always)]
pub unsafe fn load_matrices<const TRANSPOSED: bool>(byte: u32) -> [u32; 4] {
    // SAFETY: by this function's contract.
    unsafe { imp::load_matrices::<TRANSPOSED>(byte) }
}

/// Starts a copy of 16 bytes from global to shared memory (`cp.async`). Needs `sm_80`.
///
/// # Safety
/// `from` is valid for reads of 16 bytes and both sides are aligned to 16; nobody touches the shared bytes before
/// this thread's [`wait_copies`] and a barrier behind it.
#[inline(always)]
pub unsafe fn copy16_async(byte: u32, from: *const u8) {
    // SAFETY: by this function's contract.
    unsafe { imp::copy16_async(byte, from) }
}

/// As [`copy16_async`], or 16 bytes of zeros where the copy is not taken. Bytes that others of the multiprocessor read soon
/// are kept in its cache.
///
/// # Safety
/// As for [`copy16_async`], but that `from` only has to be valid where the copy is taken.
#[inline(always)]
pub unsafe fn copy16_async_if<const KEEP: bool>(take: bool, byte: u32, from: *const u8) {
    // SAFETY: by this function's contract.
    unsafe { imp::copy16_async_if::<KEEP>(take, byte, from) }
}

/// Closes the group of the copies that this thread started since the last call.
#[inline(always)]
pub fn commit_copies() {
    imp::commit_copies();
}

/// Waits until at most `PENDING` of this thread's groups of copies are under way.
#[inline(always)]
pub fn wait_copies<const PENDING: u32>() {
    imp::wait_copies::<PENDING>();
}

/// The same number, hidden from rustc but not from ptxas: a loop bounded by it is unrolled by ptxas alone,
/// which keeps the PTX short.
#[inline(always)]
pub fn opaque(number: u32) -> u32 {
    imp::opaque(number)
}
