//! What goes wrong in kernels of any kind, for every kernel of the five operations.

use cotangent::verify::{Case, Check, Data, Failure, kernel, kernels, run};
use cotangent::{DType, Device};
use cotangent_tests::suite::refused;

use crate::common::{PLACES, matches};

/// Cases of a kernel whose rows are so long, in blocks of so many elements.
pub(crate) fn sized(name: &'static str, n: i32, block: i32) -> Vec<Case> {
    let case = |constants: &[i32], extents: &[i32]| Case::new(name, constants, extents);
    if name.starts_with("flatten") {
        return vec![case(&[2, block], &[3, n, n, 1]), case(&[4, block], &[n, 3, 1, n])];
    }
    vec![if name.starts_with("channel_cat") {
        case(&[block], &[n, n + 2, 1]).rows(3)
    } else if name.starts_with("constant_pad1d") {
        case(&[2, 1, block], &[1, 2, n, n + 3])
    } else if name.starts_with("conv2d") {
        case(&[1, 3, 1, 1, 0, 1, 1, block], &[1, 2, 2, 2, n, 2, n])
    } else {
        case(&[2, 3, block], &[1, 2, 2, n, 4, 3 * n])
    }]
}

/// Which extents a case may have as it likes; the others follow from these.
fn free_extents(name: &str) -> &'static [usize] {
    match name {
        _ if name.starts_with("flatten") => &[0, 1],
        _ if name.starts_with("channel_cat") => &[0],
        _ if name.starts_with("constant_pad1d") => &[0, 1, 2],
        _ if name.starts_with("conv2d") => &[0, 1, 2, 3, 4],
        _ => &[0, 1, 2, 3],
    }
}

/// A case with other extents, and what follows from them.
fn with_extents(case: &Case, free: impl Fn(usize, i32) -> i32) -> Case {
    let mut case = case.clone();
    let name = case.kernel;
    for &i in free_extents(name) {
        case.extents[i] = free(i, case.extents[i]);
    }
    let (c, e) = (&case.constants, &mut case.extents);
    if name.starts_with("flatten") {
        let columns = e[2] == 1;
        (e[2], e[3]) = if columns { (1, e[0]) } else { (e[1], 1) };
    } else if name.starts_with("channel_cat") {
        e[1] = e[0] + 2;
    } else if name.starts_with("constant_pad1d") {
        e[3] = e[2] + c[0] + c[1];
    } else if name.starts_with("conv2d") {
        // A filter needs an image: without one it is a single pixel.
        (e[3], e[4]) = (e[3].max(1), e[4].max(1));
        (e[5], e[6]) = ((e[3] + 2 * c[4] - c[0]) / c[2] + 1, (e[4] + 2 * c[5] - c[1]) / c[3] + 1);
    } else {
        (e[4], e[5]) = (e[2] * c[0], e[3] * c[1]);
    }
    case
}

fn extents_of_zero_and_one(name: &'static str) {
    for case in sized(name, 5, 32) {
        for value in [0, 1] {
            matches(with_extents(&case, |_, _| value));
            for &changed in free_extents(name) {
                matches(with_extents(&case, |i, extent| if i == changed { value } else { extent }));
            }
        }
        if case.rows.is_some() {
            matches(case.clone().rows(0));
            matches(case.rows(1));
        }
    }
}

fn extents_around_vectors_warps_and_blocks(name: &'static str) {
    // One below, at and one above: 16-byte vectors of every element's size, a warp, a block, and several blocks.
    for edge in [2, 4, 8, 16, 32, 48, 96] {
        for n in [edge - 1, edge, edge + 1] {
            sized(name, n, 48).into_iter().for_each(matches);
        }
    }
}

fn bases_off_by_one_element(name: &'static str) {
    let buffers = kernel(name, DType::F32, &sized(name, 5, 32)[0].constants).expect("a good case").pointers();
    // n mod 4 is 1, 2 and 3: a vector too many would end beyond the buffer.
    for n in [33, 34, 35] {
        for case in sized(name, n, 64) {
            for moved in 0..buffers {
                let offsets: Vec<_> = (0..buffers).map(|i| usize::from(i == moved)).collect();
                matches(case.clone().offsets(&offsets));
            }
            matches(case.offsets(&vec![1; buffers]));
        }
    }
}

fn special_numbers(name: &'static str) {
    for data in [Data::Special, Data::Tiny, Data::Overflow] {
        for case in sized(name, 37, 32) {
            let check = Check::Reference(case.data(data));
            for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
                run(&Device::cpu(), &check, dtype)
                    .unwrap_or_else(|failure| panic!("{check}, {dtype}: {failure}"));
                for place in PLACES.iter().filter(|place| place.adds(check.case(), dtype)) {
                    run(place, &check, dtype).unwrap_or_else(|failure| panic!("{check}, {dtype}: {failure}"));
                }
            }
        }
    }
}

fn more_rows_than_a_grid_has_in_y(name: &'static str) {
    for rows in [65_535, 65_537] {
        let case = match name {
            _ if name.starts_with("flatten") => Case::new(name, &[64, 1], &[rows, 1, 1, 1]),
            _ if name.starts_with("channel_cat") => Case::new(name, &[64], &[1, 2, 1]).rows(rows.into()),
            _ if name.starts_with("constant_pad1d") => Case::new(name, &[1, 0, 64], &[rows, 1, 1, 2]),
            _ if name.starts_with("conv2d") => {
                Case::new(name, &[1, 1, 1, 1, 0, 0, 1, 64], &[rows, 1, 1, 1, 1, 1, 1])
            }
            _ => Case::new(name, &[1, 2, 64], &[rows, 1, 1, 1, 1, 2]),
        };
        let check = Check::Reference(case);
        for dtype in [DType::I16, DType::F32] {
            run(&Device::cpu(), &check, dtype).unwrap_or_else(|failure| panic!("{check}: {failure}"));
        }
        for place in PLACES.iter().filter(|place| place.adds(check.case(), DType::I16)) {
            run(place, &check, DType::I16).unwrap_or_else(|failure| panic!("{check}: {failure}"));
        }
    }
}

/// A case is refused by the CPU and by device code, before anything runs.
#[track_caller]
fn nothing_runs(case: Case, parts: &[&str]) {
    let check = Check::Reference(case);
    let everywhere = PLACES.iter().map(|place| run(place, &check, DType::F32));
    for result in everywhere.chain([run(&Device::cpu(), &check, DType::F32)]) {
        assert!(matches!(result, Err(Failure::Launch(_))), "{check}: {result:?}");
        refused(result, parts);
    }
}

fn wrong_extents_are_refused(name: &'static str) {
    for case in sized(name, 6, 32) {
        let info = kernel(name, DType::F32, &case.constants).expect("a good case").info();
        // The extents come behind the pointers.
        let names: Vec<_> = info.args.iter().filter(|arg| arg.ty == "i32").map(|arg| arg.name).collect();
        assert_eq!(names.len(), case.extents.len(), "{names:?}");
        for (i, extent) in names.iter().enumerate() {
            let mut negative = case.clone();
            negative.extents[i] = -1;
            nothing_runs(negative, &[name, extent, "-1"]);
            let follows = !free_extents(name).contains(&i);
            if follows && !name.starts_with("flatten") && !name.starts_with("channel_cat") {
                for by in [-1, 1] {
                    let mut wrong = case.clone();
                    wrong.extents[i] += by;
                    nothing_runs(wrong.clone(), &[name, extent, &wrong.extents[i].to_string()]);
                }
            }
        }
        if name.starts_with("channel_cat") {
            let mut narrow = case.clone();
            narrow.extents[1] = case.extents[0];
            nothing_runs(narrow, &[name, "c_total"]);
        }
        if name == "flatten_backward" {
            let mut aliased = case;
            (aliased.extents[2], aliased.extents[3]) = (1, 1);
            nothing_runs(aliased, &[name, "strides 1 and 1"]);
        }
    }
}

fn impossible_constants_are_refused(name: &'static str) {
    let case = &sized(name, 6, 32)[0];
    let info = kernel(name, DType::F32, &case.constants).expect("a good case").info();
    for (i, constant) in info.constants.iter().enumerate() {
        let bad: &[i32] = match constant.name {
            "pad_left" | "pad_right" => &[i32::MIN, (1 << 29) + 1],
            "pad_h" | "pad_w" => &[-1, i32::MIN],
            _ => &[0, -1, i32::MIN],
        };
        for &value in bad {
            let mut constants = case.constants.clone();
            constants[i] = value;
            let built = kernel(name, DType::F32, &constants).map(|kernel| kernel.name());
            refused(built, &[name, constant.name, &value.to_string()]);
        }
    }
}

macro_rules! hazards {
    ($($kernel:ident),+) => {
        #[test]
        fn hazards_of_every_kernel_are_tested() {
            assert_eq!(kernels(), [$(stringify!($kernel)),+]);
        }

        $(mod $kernel {
            const NAME: &str = stringify!($kernel);

            #[test]
            fn extents_of_zero_and_one() {
                super::extents_of_zero_and_one(NAME);
            }

            #[test]
            fn extents_around_vectors_warps_and_blocks() {
                super::extents_around_vectors_warps_and_blocks(NAME);
            }

            #[test]
            fn bases_off_by_one_element() {
                super::bases_off_by_one_element(NAME);
            }

            #[test]
            fn special_numbers() {
                super::special_numbers(NAME);
            }

            #[test]
            fn more_rows_than_a_grid_has_in_y() {
                super::more_rows_than_a_grid_has_in_y(NAME);
            }

            #[test]
            fn wrong_extents_are_refused() {
                super::wrong_extents_are_refused(NAME);
            }

            #[test]
            fn impossible_constants_are_refused() {
                super::impossible_constants_are_refused(NAME);
            }
        })+
    };
}

hazards!(
    flatten_forward,
    flatten_backward,
    channel_cat_forward,
    channel_cat_backward,
    constant_pad1d_forward,
    constant_pad1d_backward,
    conv2d_forward,
    conv2d_backward,
    conv2d_backward_dx,
    conv2d_backward_dw,
    upsample_nearest2d_forward,
    upsample_nearest2d_backward
);

/// Strides of zero, of one, of an extent, and with gaps.
#[test]
fn strides_of_every_kind() {
    let (b, n) = (9, 13);
    for strides in
        [[0, 1], [1, 0], [0, 0], [n, 1], [1, b], [n + 5, 1], [2, 2 * b + 3], [1, 1], [1, n], [b, 1]]
    {
        matches(Case::new("flatten_forward", &[2, 32], &[b, n, strides[0], strides[1]]));
    }
    for strides in [[n, 1], [1, b], [n + 5, 1], [1, b + 7], [2, 2 * b + 3], [3 * n, 3]] {
        let case = Case::new("flatten_backward", &[2, 32], &[b, n, strides[0], strides[1]]);
        matches(case.clone());
        matches(case.accumulate(true));
    }
}
