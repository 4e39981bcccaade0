//! Impossible constants: `new` panics with a message that names the constant, `try_new` returns the error.

use std::panic::catch_unwind;

use cotangent::Error;

use crate::catalogue::{SUBJECTS, Subject};

/// The largest magnitude of any constant.
const LARGEST: i32 = 1 << 29;

/// The least value that a constant may have.
fn least(subject: &Subject, constant: &str) -> i32 {
    match constant {
        "pad_left" | "pad_right" => -LARGEST,
        "pad_h" | "pad_w" => 0,
        _ => {
            assert!(!constant.starts_with("pad"), "{}: {constant}", subject.label());
            1
        }
    }
}

/// The subject's constants with one of them replaced.
fn with(subject: &Subject, index: usize, value: i32) -> Vec<i32> {
    let mut values: Vec<_> = subject.constants.iter().map(|&(_, value)| value).collect();
    values[index] = value;
    values
}

#[test]
fn impossible_constants_are_named_by_the_panic_and_by_the_error() {
    for subject in SUBJECTS.iter() {
        for (index, &(constant, _)) in subject.constants.iter().enumerate() {
            let least = least(subject, constant);
            for bad in [i32::MIN, least - 1, LARGEST + 1, i32::MAX] {
                let values = with(subject, index, bad);
                let error = (subject.try_new)(&values).expect_err("an impossible constant");
                let Error::Constant { kernel, name, value, .. } = error else { panic!("{error}") };
                assert_eq!((kernel, name, value), (subject.info.name, constant, i64::from(bad)));
                let new = subject.new;
                let panic = catch_unwind(move || new(&values)).expect_err("new panics where try_new fails");
                let message = panic.downcast_ref::<String>().expect("a formatted message");
                for part in [subject.info.name, constant, &bad.to_string()] {
                    assert!(message.contains(part), "{message:?} does not say {part:?}");
                }
            }
        }
    }
}

#[test]
fn the_edges_of_what_is_possible_are_accepted() {
    for subject in SUBJECTS.iter() {
        for (index, &(constant, _)) in subject.constants.iter().enumerate() {
            for good in [least(subject, constant), LARGEST] {
                let built = (subject.try_new)(&with(subject, index, good));
                assert!(built.is_ok(), "{} with {constant} = {good}: {built:?}", subject.label());
            }
        }
    }
}
