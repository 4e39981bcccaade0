//! Verification passes on the CPU, and fails for every fault that is planted.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::device::Device;
use crate::launch::Access;

/// The CPU with a fault: what happens to a buffer before a launch, and to an output after it, given what it
/// held before.
struct Faulty {
    before: fn(&Call<'_>, &mut HostBuffer),
    after: fn(&Call<'_>, &mut HostBuffer, &[u8]),
}

impl Executor for Faulty {
    fn name(&self) -> String {
        "a faulty device".to_owned()
    }

    fn run(&self, call: &Call<'_>, buffers: &mut [HostBuffer]) -> Result<(), Failure> {
        let mut copies = buffers.to_vec();
        for buffer in &mut copies {
            (self.before)(call, buffer);
        }
        Device::cpu().run(call, &mut copies)?;
        for (buffer, copy) in buffers.iter_mut().zip(&mut copies) {
            if buffer.access != Access::Read {
                (self.after)(call, copy, &buffer.bytes);
                buffer.bytes.copy_from_slice(&copy.bytes);
            }
        }
        Ok(())
    }
}

fn nothing_before(_: &Call<'_>, _: &mut HostBuffer) {}

fn nothing_after(_: &Call<'_>, _: &mut HostBuffer, _: &[u8]) {}

/// The kernels of which some check of this kind fails, and the failures.
fn failing(
    executor: &dyn Executor,
    dtype: DType,
    kind: fn(&Check) -> bool,
) -> (Vec<&'static str>, Vec<Failure>) {
    let (mut names, mut failures) = (Vec::new(), Vec::new());
    for kernel in kernels() {
        let checks = checks(kernel).expect("a known kernel").into_iter().filter(kind);
        let found: Vec<_> = checks.filter_map(|check| run(executor, &check, dtype).err()).collect();
        if !found.is_empty() {
            names.push(kernel);
            failures.extend(found);
        }
    }
    (names, failures)
}

fn is_reference(check: &Check) -> bool {
    matches!(check, Check::Reference(_))
}

fn is_literal(check: &Check) -> bool {
    matches!(check, Check::Literal(_))
}

fn is_adjoint(check: &Check) -> bool {
    matches!(check, Check::Adjoint(_))
}

fn backwards() -> Vec<&'static str> {
    kernels().into_iter().filter(|name| name.contains("backward")).collect()
}

#[test]
fn the_cpu_passes() {
    let scope = Scope::new(None, None).expect("everything");
    let mut heard = 0;
    let rows = verify(&Device::cpu(), &scope, |_, _| heard += 1);
    assert_eq!(heard, scope.len());
    assert_eq!(rows.len(), 12 * 12);
    for row in rows {
        assert!(row.passed(), "{}", row.findings[0]);
        assert!(row.worst.ratio() <= 1.0);
    }
}

#[test]
fn every_forward_and_backward_of_the_twelve_is_verified() {
    let verified = kernels();
    assert!(verified.iter().all(|name| crate::kernels::find(name).is_some()));
    for op in ["flatten", "channel_cat", "constant_pad1d", "conv2d", "upsample_nearest2d"] {
        let shipped = crate::kernels::KERNELS.iter().map(|kernel| kernel.name);
        // Tuned variants are reached through their kernels.
        let shipped = shipped.filter(|name| {
            name.starts_with(&format!("{op}_forward")) || name.starts_with(&format!("{op}_backward"))
        });
        for name in shipped {
            assert!(verified.contains(&name), "{name}");
        }
    }
}

#[test]
fn zeroing_both_directions_fails_the_literals_alone() {
    fn zero(_: &Call<'_>, buffer: &mut HostBuffer) {
        if buffer.access == Access::Read {
            buffer.bytes.fill(0);
        }
    }
    let zeroed = Faulty { before: zero, after: nothing_after };
    for dtype in [DType::I16, DType::F32] {
        assert_eq!(failing(&zeroed, dtype, is_adjoint).0, [""; 0]);
        assert_eq!(failing(&zeroed, dtype, is_literal).0, kernels());
    }
}

/// Whether a kernel's rows are dense on the side of `x`; those of channel cat are, those of flatten need not be.
fn dense_side(call: &Call<'_>) -> [&'static str; 2] {
    if call.kernel.name().starts_with("channel_cat") { ["x", "dx"] } else { ["dy", "y"] }
}

#[test]
fn shifting_both_directions_fails_the_literals_alone() {
    fn before(call: &Call<'_>, buffer: &mut HostBuffer) {
        if buffer.name == dense_side(call)[0] {
            let step = buffer.element_bytes.min(buffer.bytes.len());
            buffer.bytes.rotate_right(step);
        }
    }
    fn after(call: &Call<'_>, buffer: &mut HostBuffer, _: &[u8]) {
        if [dense_side(call)[1], "output"].contains(&buffer.name) {
            let step = buffer.element_bytes.min(buffer.bytes.len());
            buffer.bytes.rotate_left(step);
        }
    }
    let shifted = Faulty { before, after };
    for dtype in [DType::I16, DType::F32] {
        assert_eq!(failing(&shifted, dtype, is_adjoint).0, [""; 0]);
        assert_eq!(failing(&shifted, dtype, is_literal).0, kernels());
    }
}

#[test]
fn zeroing_one_direction_fails_the_identity() {
    fn zero(_: &Call<'_>, buffer: &mut HostBuffer) {
        if buffer.name == "dy" {
            buffer.bytes.fill(0);
        }
    }
    let zeroed = Faulty { before: zero, after: nothing_after };
    for dtype in DType::ALL {
        assert_eq!(failing(&zeroed, dtype, is_adjoint).0, backwards(), "{dtype}");
    }
}

#[test]
fn an_element_that_is_not_written_fails() {
    fn after(_: &Call<'_>, buffer: &mut HostBuffer, before: &[u8]) {
        let end = buffer.element_bytes.min(before.len());
        buffer.bytes[..end].copy_from_slice(&before[..end]);
    }
    let (names, failures) = failing(&Faulty { before: nothing_before, after }, DType::U8, is_reference);
    assert_eq!(names, kernels());
    assert!(failures.iter().any(|failure| matches!(failure, Failure::Unwritten { element: 0, .. })));
}

#[test]
fn an_element_that_should_be_left_alone_fails() {
    fn after(_: &Call<'_>, buffer: &mut HostBuffer, before: &[u8]) {
        let size = buffer.element_bytes;
        for (element, before) in buffer.bytes.chunks_exact_mut(size).zip(before.chunks_exact(size)) {
            if buffer.access == Access::Write && element == before {
                element.fill(0);
            }
        }
    }
    let (names, failures) = failing(&Faulty { before: nothing_before, after }, DType::F64, is_reference);
    assert_eq!(names, ["flatten_backward", "channel_cat_forward"]);
    assert!(failures.iter().all(|failure| matches!(failure, Failure::Touched { .. })), "{failures:?}");
}

#[test]
fn two_runs_that_differ_fail() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    fn after(_: &Call<'_>, buffer: &mut HostBuffer, before: &[u8]) {
        let size = buffer.element_bytes;
        if RUNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
            for (element, before) in buffer.bytes.chunks_exact_mut(size).zip(before.chunks_exact(size)) {
                if element != before {
                    element[0] ^= 1;
                }
            }
        }
    }
    let (names, failures) = failing(&Faulty { before: nothing_before, after }, DType::I32, is_reference);
    assert_eq!(names, kernels());
    assert!(failures.iter().any(|failure| matches!(failure, Failure::Unsteady { .. })));
}

#[test]
fn the_last_bit_of_a_copy_and_a_thousandth_of_a_sum_fail() {
    fn after(_: &Call<'_>, buffer: &mut HostBuffer, before: &[u8]) {
        for (element, before) in buffer.bytes.chunks_exact_mut(4).zip(before.chunks_exact(4)) {
            if element != before {
                // Far more than an ulp of a sum, and the last bit of a copy.
                let bits = u32::from_le_bytes([element[0], element[1], element[2], element[3]]);
                element.copy_from_slice(&f32::from_bits(bits ^ 0x1fff).to_le_bytes());
            }
        }
    }
    let faulty = Faulty { before: nothing_before, after };
    let (names, failures) = failing(&faulty, DType::F32, is_reference);
    assert_eq!(names, kernels());
    assert!(failures.iter().all(|failure| matches!(failure, Failure::Wrong { .. })));
}

#[test]
fn an_infinity_that_spreads_fails() {
    fn after(_: &Call<'_>, buffer: &mut HostBuffer, _: &[u8]) {
        let infinite = |element: &[u8]| element[2] & 0x80 == 0x80 && element[3] & 0x7f == 0x7f;
        if buffer.bytes.chunks_exact(4).any(infinite) {
            let nan = f32::NAN.to_le_bytes();
            buffer.bytes.chunks_exact_mut(4).for_each(|element| element.copy_from_slice(&nan));
        }
    }
    let (names, _) = failing(&Faulty { before: nothing_before, after }, DType::F32, is_reference);
    let sums: Vec<_> = backwards().into_iter().filter(|name| name.contains("conv2d")).collect();
    assert!(sums.iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn unknown_names_and_counts_are_refused() {
    let error = |result: Result<Box<dyn AnyKernel>, Failure>| result.err().expect("a refusal").to_string();
    let unknown = error(kernel("conv3d", DType::F32, &[]));
    assert!(unknown.contains("conv3d") && unknown.contains("conv2d_forward"), "{unknown}");
    let count = error(kernel("flatten_forward", DType::F32, &[1, 2, 3]));
    assert_eq!(count, "flatten_forward takes 2 constants (block_b, block_n), but 3 were given");
    let value = error(kernel("flatten_forward", DType::F32, &[1, 0]));
    assert!(value.contains("block_n is 0"), "{value}");
    assert!(Scope::new(Some("conv3d"), None).is_err());
    let short = Case::new("flatten_forward", &[1, 1], &[3, 3, 3]);
    let failure =
        run(&Device::cpu(), &Check::Reference(short), DType::F32).expect_err("an extent is missing");
    assert!(failure.to_string().contains("takes 4 extents"), "{failure}");
}
