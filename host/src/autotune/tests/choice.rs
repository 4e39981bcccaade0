//! What is sampled, what wins, and what an answer is used for.

use std::cell::RefCell;
use std::collections::HashMap;

use super::*;

#[test]
fn the_lowest_median_wins_and_is_kept() {
    let autotune = Autotune::in_memory();
    assert_eq!(answer(&autotune, 4), Algorithm::Auto);
    let samples = RefCell::new(HashMap::<Algorithm, Vec<u32>>::new());
    let options = LaunchOptions::new();
    let sample = |algorithm, launches: &[crate::launch::Launch], runs| {
        assert!(!launches.is_empty());
        let mut samples = samples.borrow_mut();
        let of = samples.entry(algorithm).or_default();
        of.push(runs);
        // Some samples of the fastest are disturbed, and the first of all are cold.
        let disturbed = of.len() % 3 == 1;
        Ok(match algorithm {
            Algorithm::Tiled => {
                if disturbed {
                    900.0
                } else {
                    60.0
                }
            }
            Algorithm::Patches => 70.0,
            Algorithm::Portable => 5000.0,
            _ => 100.0,
        })
    };
    let fastest = autotune.tune_with(&h200(), &forward(), &images(4), &options, take, sample);
    assert_eq!(fastest.expect("an answer"), Algorithm::Tiled);
    let samples = samples.into_inner();
    // Auto is the kernel for small problems, and Large the blocked format, which are not sampled again by those names.
    let mut names: Vec<_> = samples.keys().map(|algorithm| algorithm.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["auto", "large", "patches", "portable", "tiled"]);
    assert_eq!(samples[&Algorithm::Portable].len(), 1, "far slower when cold, and not tried again");
    for algorithm in [Algorithm::Auto, Algorithm::Patches, Algorithm::Tiled] {
        assert_eq!(samples[&algorithm].len(), 11, "{algorithm:?}");
        assert!(samples[&algorithm][2..].iter().all(|&runs| (4..=6).contains(&runs)), "{samples:?}");
    }
    assert_eq!(answer(&autotune, 4), Algorithm::Tiled);
    // What is kept is not measured again.
    let never = |_, _: &[_], _| -> Result<f64> { panic!("this is known") };
    let again = autotune.tune_with(&h200(), &forward(), &images(4), &options, take, never);
    assert_eq!(again.expect("an answer"), Algorithm::Tiled);
}

#[test]
fn autos_way_wins_within_noise() {
    for (us, fastest) in [(97.5, Algorithm::Auto), (100.0, Algorithm::Auto), (96.5, Algorithm::Patches)] {
        let autotune = Autotune::in_memory();
        let patches = |algorithm| if algorithm == Algorithm::Patches { us } else { 100.0 };
        assert_eq!(tune(&autotune, 4, patches).expect("an answer"), fastest, "{us}");
        assert_eq!((answer(&autotune, 4), autotune.len()), (fastest, 1));
    }
    // Auto is measured to the end, however slow, so that what beats it has done so by medians.
    let autotune = Autotune::in_memory();
    let slow = |algorithm| if algorithm == Algorithm::Auto { 1e6 } else { 100.0 };
    assert_eq!(tune(&autotune, 4, slow).expect("an answer"), Algorithm::Portable);
}

#[test]
fn nothing_is_kept_where_measuring_fails() {
    let autotune = Autotune::in_memory();
    let options = LaunchOptions::new();
    for failing in [1, 2, 7, 20] {
        let mut samples = 0;
        let sample = |_, _: &[_], _| {
            samples += 1;
            if samples == failing { Err(Error::Device("it broke".to_owned())) } else { Ok(10.0) }
        };
        let error = autotune.tune_with(&h200(), &forward(), &images(4), &options, take, sample);
        assert!(matches!(error, Err(Error::Device(_))), "{error:?}");
    }
    let full = |_| Err(Error::OutOfMemory { bytes: 1 });
    let error = autotune.tune_with(&h200(), &forward(), &images(4), &options, full, |_, _, _| Ok(1.0));
    assert!(matches!(error, Err(Error::OutOfMemory { .. })), "{error:?}");
    // Times that are none: Auto's decides nothing, and another's does not win.
    for none in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        assert_eq!(tune(&autotune, 4, |_| none).expect("an answer"), Algorithm::Auto);
        assert!(autotune.is_empty());
        let other = |algorithm| if algorithm == Algorithm::Auto { 100.0 } else { none };
        assert_eq!(tune(&Autotune::in_memory(), 4, other).expect("an answer"), Algorithm::Auto);
    }
    // A call that is wrong is an error before anything is sampled.
    let mut args = images(4);
    args.8 += 1;
    let never = |_, _: &[_], _| -> Result<f64> { panic!("this call is wrong") };
    assert!(autotune.tune_with(&h200(), &forward(), &args, &options, take, never).is_err());
    assert!(autotune.answer(&h200(), &forward(), &args, &options).is_err());
}

#[test]
fn where_there_is_no_choice_nothing_is_sampled() {
    let autotune = Autotune::in_memory();
    let model = h200();
    let never = |_, _: &[_], _| -> Result<f64> { panic!("there is no choice") };
    let options = LaunchOptions::new();
    let grid = options.grid(std::num::NonZeroU32::new(7).expect("seven"));
    for (b, options) in [(4, &grid), (0, &options)] {
        let answer = autotune.tune_with(&model, &forward(), &images(b), options, take, never);
        assert_eq!(answer.expect("an answer"), Algorithm::Auto);
    }
    let kernel = crate::ReluForward::<f32>::new(128);
    let args = ((1_u64 << 40) as *mut f32, (2_u64 << 40) as *mut f32, 3, 5);
    let answer = autotune.tune_with(&model, &kernel, &args, &options, take, never);
    assert_eq!(answer.expect("an answer"), Algorithm::Auto);
    let integers = Conv2dForward::<i32>::new(1, 1, 1, 1, 0, 0, 1, 64);
    let at = |number: u64| (number << 40) as *mut i32;
    let args = (at(1), at(2), at(3), 1, 1, 1, 5, 5, 5, 5);
    let answer = autotune.tune_with(&model, &integers, &args, &options, take, never);
    assert_eq!(answer.expect("an answer"), Algorithm::Auto);
    assert!(autotune.is_empty());
}

#[test]
fn an_answer_is_for_its_own_problem_alone() {
    let autotune = Autotune::in_memory();
    tune(&autotune, 4, prefer(Algorithm::Tiled)).expect("an answer");
    let (model, kernel, options) = (h200(), forward(), LaunchOptions::new());
    let of = |model: &GpuModel, args: &_, options: &_| {
        autotune.answer(model, &kernel, args, options).expect("a good call")
    };
    let mut lying = images(4);
    lying.1 = (9_u64 << 40) as *mut f32;
    assert_eq!(of(&model, &lying, &options), Algorithm::Tiled, "another address on the same boundary");
    lying.0 = ((1_u64 << 40) + 4) as *mut f32;
    assert_eq!(of(&model, &lying, &options), Algorithm::Auto, "another boundary");
    assert_eq!(of(&model, &images(5), &options), Algorithm::Auto);
    assert_eq!(of(&model, &images(4), &options.math(crate::MathMode::Tf32)), Algorithm::Auto);
    let workspace = |bytes| options.workspace(Workspace { address: 1 << 50, bytes });
    assert_eq!(of(&model, &images(4), &workspace(1 << 30)), Algorithm::Tiled, "more than enough");
    assert_eq!(of(&model, &images(4), &workspace(256)), Algorithm::Auto, "less");
    // What was asked for stays.
    assert_eq!(of(&model, &images(4), &options.algorithm(Algorithm::Portable)), Algorithm::Portable);
    let others: [fn(&mut GpuModel); 4] = [
        |model| model.name.push('e'),
        |model| model.target.capability = (9, 1),
        |model| model.target.multiprocessors = 131,
        |model| model.driver = (13, 1),
    ];
    for change in others {
        let mut other = h200();
        change(&mut other);
        assert_eq!(of(&other, &images(4), &options), Algorithm::Auto, "{other:?}");
    }
    let block = Forward::new(3, 3, 1, 1, 1, 1, 1, 64);
    assert_eq!(autotune.answer(&model, &block, &images(4), &options).expect("a call"), Algorithm::Auto);
}

#[test]
fn samples_overwrite_and_the_answer_serves_those_who_accumulate() {
    let autotune = Autotune::in_memory();
    let kernel = Conv2dBackward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 128);
    let at = |number: u64| (number << 40) as *mut f32;
    let args = (at(1), at(2), at(3), at(4), at(5), 4, 32, 32, 14, 14, 14, 14);
    let options = LaunchOptions::new().accumulate(true).algorithm(Algorithm::Portable);
    let sample = |algorithm, launches: &[crate::launch::Launch], _| {
        let adds = |touched: &crate::launch::Touched| touched.access == crate::launch::Access::Accumulate;
        assert!(!launches.iter().flat_map(crate::launch::Launch::touched).any(adds), "{algorithm:?}");
        Ok(prefer(Algorithm::Tiled)(algorithm))
    };
    let answer = autotune.tune_with(&h200(), &kernel, &args, &options, take, sample);
    assert_eq!(answer.expect("an answer"), Algorithm::Tiled);
    let options = options.algorithm(Algorithm::Auto);
    let answer = autotune.answer(&h200(), &kernel, &args, &options);
    assert_eq!(answer.expect("a good call"), Algorithm::Tiled);
}
