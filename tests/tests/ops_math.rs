//! The device's exp and ln against f64, over dense sweeps. The bodies run as ordinary Rust here, where a fused
//! multiply-add is exact but for rare double rounding.

use cotangent_device::math::Real;

/// The error of a result in units of the last place of the f32 nearest to the exact value.
fn ulps(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if got.to_bits() == nearest.to_bits() {
        return 0.0;
    }
    let step = (f64::from(f32::from_bits(nearest.to_bits() + 1)) - f64::from(nearest)).abs();
    (f64::from(got) - exact).abs() / step
}

fn sweep(from: f32, to: f32, step: u32, error: impl Fn(f32) -> f64) -> f64 {
    let (mut bits, end) = (from.to_bits(), to.to_bits());
    let mut worst = 0.0_f64;
    while bits < end {
        worst = worst.max(error(f32::from_bits(bits)));
        bits += step;
    }
    worst
}

#[test]
fn exp_f32_is_within_one_unit_of_the_last_place() {
    let error = |x: f32| ulps(Real::exp(x), f64::from(x).exp());
    // Down to where results are normal numbers.
    let (up, down) = (sweep(1e-8, 88.7, 499, error), sweep(1e-8, 87.3, 499, |x| error(-x)));
    println!("exp f32: {up:.3} and {down:.3} units of the last place at most");
    assert!(up.max(down) < 1.0, "{up} {down}");
    let subnormal =
        sweep(87.4, 103.9, 499, |x| (f64::from(Real::exp(-x)) - f64::from(-x).exp()).abs() / 1.4e-45);
    assert!(subnormal < 1.01, "{subnormal}");
    for (x, expected) in [
        (0.0, 1.0),
        (-0.0, 1.0),
        (f32::NEG_INFINITY, 0.0),
        (f32::INFINITY, f32::INFINITY),
        (-200.0, 0.0),
        (89.0, f32::INFINITY),
    ] {
        assert_eq!(Real::exp(x), expected, "{x}");
    }
    assert!(Real::exp(f32::NAN).is_nan());
}

#[test]
fn ln_f32_is_within_one_unit_of_the_last_place() {
    let worst = sweep(f32::MIN_POSITIVE, f32::MAX, 499, |x| ulps(Real::ln(x), f64::from(x).ln()));
    println!("ln f32: {worst:.3} units of the last place at most");
    assert!(worst < 1.0, "{worst}");
    let near_one = sweep(0.9, 1.1, 7, |x| ulps(Real::ln(x), f64::from(x).ln()));
    assert!(near_one < 1.0, "{near_one}");
    let small = sweep(1e-45, f32::MIN_POSITIVE, 499, |x| ulps(Real::ln(x), f64::from(x).ln()));
    assert!(small < 1.0, "{small}");
    assert_eq!(Real::ln(0.0_f32), f32::NEG_INFINITY);
    assert_eq!(Real::ln(f32::INFINITY), f32::INFINITY);
    assert!(Real::ln(-1.0_f32).is_nan() && Real::ln(f32::NAN).is_nan());
}

#[test]
fn f64_functions_agree_with_the_standard_library() {
    let (mut exp, mut ln) = (0.0_f64, 0.0_f64);
    for i in 1..400_000 {
        let x = f64::from(i) * 1.77e-3;
        for x in [x, -x] {
            let exact = x.exp();
            if exact.is_normal() {
                exp = exp.max((Real::exp(x) - exact).abs() / (exact * f64::EPSILON));
            }
        }
        let exact = x.ln();
        ln = ln.max((Real::ln(x) - exact).abs() / (exact.abs().max(1e-3) * f64::EPSILON));
    }
    println!("f64: exp {exp:.3}, ln {ln:.3} times 2^-52 at most");
    // On a host the product and the sum of a multiply-add are rounded apart.
    assert!(exp < 3.0 && ln < 3.0, "{exp} {ln}");
}
