//! What results do not depend on.

use cotangent::DType;
use cotangent::verify::{Grid, kernels};
use cotangent_tests::executor::Place;
use cotangent_tests::random::{grid, offsets};
use proptest::prelude::*;

use crate::common::{any_case, at, bits, everywhere, floats, input_bytes, results};

/// The bits of a result depend on no block constant, grid or base, sums of floats included.
#[test]
fn blocks_grids_and_bases_do_not_change_a_bit() {
    for name in kernels() {
        let others = (1..300_i32, grid(), offsets());
        everywhere(&(any_case(name), others, any::<u64>()), |place, (case, (block, grid, offsets), seed)| {
            // Plans know no block.
            let (case, mut other) = (case.clone().grid(Grid::Own), case.clone());
            if !place.adds(&case, DType::F32) {
                return Ok(());
            }
            *other.constants.last_mut().expect("every kernel has a block") = *block;
            if name.starts_with("flatten") {
                other.constants[0] = 1 + block % 7;
            }
            // A grid of one's own is one for the portable kernel, whose sums have another order than a plan's.
            let plans = match place {
                Place::Gpu(device) => device.is_gpu() && name.starts_with("conv2d"),
                Place::Portable(_) => false,
                Place::Planned { .. } => true,
            };
            let grid = if plans { Grid::Own } else { *grid };
            let other = other.grid(grid).offsets(offsets);
            let inputs: Vec<Vec<u8>> = input_bytes(&case, DType::F32)
                .iter()
                .zip(*seed..)
                .map(|(&n, seed)| floats(seed, n).iter().flat_map(|value| value.to_le_bytes()).collect())
                .collect();
            let [one, two] = [&case, &other].map(|case| results(place, case, DType::F32, &inputs));
            prop_assert_eq!(one?, two?, "{} and {}", case, other);
            Ok(())
        });
    }
}

/// The same call gives the same bits, for any bits.
#[test]
fn the_same_call_gives_the_same_bits() {
    for name in kernels() {
        let dtypes = prop_oneof![Just(DType::F16), Just(DType::Bf16), Just(DType::F32), Just(DType::F64)];
        everywhere(&(any_case(name), dtypes, any::<u64>()), |place, (case, dtype, seed)| {
            let case = &at(place, case);
            if !place.adds(case, *dtype) {
                return Ok(());
            }
            let inputs: Vec<_> =
                input_bytes(case, *dtype).iter().zip(*seed..).map(|(&n, seed)| bits(seed, n)).collect();
            let first = results(place, case, *dtype, &inputs)?;
            for _ in 0..3 {
                prop_assert_eq!(&first, &results(place, case, *dtype, &inputs)?, "{}, {}", case, dtype);
            }
            Ok(())
        });
    }
}
