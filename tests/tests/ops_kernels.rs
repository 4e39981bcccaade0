//! The kernels beside the five operations: device code against the CPU references, over awkward shapes, types, grids and
//! bases; and what is refused.

use cotangent::{Kernel, LaunchOptions, ReluForward, SgdStep};
use cotangent_tests::suite::matches_reference;

#[test]
fn relu_matches_reference() {
    matches_reference("relu_forward");
    matches_reference("relu_backward");
}

#[test]
fn bias_add_matches_reference() {
    matches_reference("bias_add_forward");
    matches_reference("bias_add_backward");
}

#[test]
fn softmax_cross_entropy_matches_reference() {
    matches_reference("softmax_cross_entropy_forward");
    matches_reference("softmax_cross_entropy_backward");
}

#[test]
fn sgd_step_matches_reference() {
    matches_reference("sgd_step");
}

#[test]
fn cast_matches_reference() {
    for kernel in ["cast_to_f16", "cast_to_bf16", "cast_to_f32", "cast_to_f64"] {
        matches_reference(kernel);
    }
}

#[test]
fn kernels_reject_what_contradicts_itself() {
    let kernel = ReluForward::<f32>::new(64);
    let somewhere = |at: usize| std::ptr::without_provenance_mut::<f32>(at << 20);
    assert!(kernel.prepare(&(somewhere(1), somewhere(2), -1, 4), &LaunchOptions::new()).is_err());
    assert!(kernel.prepare(&(somewhere(1), somewhere(1), 1, 4), &LaunchOptions::new()).is_err());
    assert!(kernel.prepare(&(std::ptr::null_mut(), somewhere(1), 1, 4), &LaunchOptions::new()).is_err());
    assert!(
        kernel.prepare(&(somewhere(1), somewhere(2), 1, 4), &LaunchOptions::new().accumulate(true)).is_err()
    );
    assert!(kernel.prepare(&(somewhere(1), somewhere(2), 1, 4), &LaunchOptions::new().rows(2)).is_err());
    assert!(ReluForward::<f32>::try_new(0).is_err());
    let step = SgdStep::<f32>::new(64);
    let same = (somewhere(1), somewhere(1), somewhere(2), somewhere(3), somewhere(4), 1, 4);
    assert!(step.prepare(&same, &LaunchOptions::new()).is_err(), "weights that are their own velocity");
}
