//! Sums of products and of elements.

use cotangent::DType;
use cotangent::verify::{self, HostBuffer, bound};

use crate::data::{Case, Golden, input, output, volume};
use crate::places::case_everywhere;
use crate::table::{Errors, Once};

pub(crate) static ALL: &[&Once] = &[&CONV2D, &UPSAMPLE];

static CONV2D: Once = Once::new(conv2d);
static UPSAMPLE: Once = Once::new(upsample_nearest2d);

/// One kernel of a convolution: its name, its buffers, and of each output the result and its number of terms.
fn product(
    golden: &Golden,
    case: &Case,
    name: &'static str,
    buffers: &[HostBuffer],
    outputs: &[(&str, i32)],
    errors: &mut Errors,
) {
    let dtype = case.dtype();
    let constants = [&case.constants[..], &[64]].concat();
    let kernel = verify::Case::new(name, &constants, &case.extents);
    case_everywhere(&case.id, &kernel, dtype, &[], buffers, |path, place, after| {
        for &(result, terms) in outputs {
            let at = after.iter().find(|buffer| buffer.name == result).expect("an output");
            let row = if outputs.len() > 1 { format!("{name} {result}") } else { name.to_owned() };
            let bound = |value| bound(dtype, terms as u64, case.magnitude(result), value);
            errors.sum(golden, case, result, dtype, (&row, path, place), &at.bytes, bound);
        }
    });
}

fn conv2d() -> Errors {
    let golden = Golden::open("conv2d");
    let mut errors = Errors::default();
    for case in &golden.cases {
        let dtype = case.dtype();
        let [kh, kw, _, _, _, _, g] = <[i32; 7]>::try_from(&*case.constants).expect("seven constants");
        let [b, c_in, c_out, h, wd, oh, ow] = <[i32; 7]>::try_from(&*case.extents).expect("seven extents");
        let image = volume(&[b, c_in, h, wd]);
        let (filter, result) = (volume(&[c_out, c_in / g, kh, kw]), volume(&[b, c_out, oh, ow]));
        let x = input("x", dtype, case.unit("x", image));
        let w = input("w", dtype, case.unit("w", filter));
        let dy = input("dy", dtype, case.unit("dy", result));
        let y = output("y", dtype, result);
        let (dx, dw) = (output("dx", dtype, image), output("dw", dtype, filter));
        let y_terms = ("y", c_in / g * kh * kw);
        let (dx_terms, dw_terms) = (("dx", c_out / g * kh * kw), ("dw", b * oh * ow));
        let mut product = |name, buffers: &[&HostBuffer], outputs: &[(&str, i32)]| {
            // Of long sums, a case has the short result alone.
            if outputs.iter().any(|(result, _)| golden.find(case, result, dtype).is_none()) {
                return;
            }
            let buffers: Vec<_> = buffers.iter().map(|&buffer| buffer.clone()).collect();
            product(&golden, case, name, &buffers, outputs, &mut errors);
        };
        product("conv2d_forward", &[&x, &w, &y], &[y_terms]);
        product("conv2d_backward_dx", &[&dy, &w, &dx], &[dx_terms]);
        product("conv2d_backward_dw", &[&dy, &x, &dw], &[dw_terms]);
        product("conv2d_backward", &[&dy, &x, &w, &dx, &dw], &[dx_terms, dw_terms]);
    }
    errors
}

#[test]
fn conv2d_matches_golden() {
    Once::force(&CONV2D);
}

fn upsample_nearest2d() -> Errors {
    let golden = Golden::open("upsample_nearest2d");
    let mut errors = Errors::default();
    for case in golden.cases.iter().filter(|case| case.dtype().is_float()) {
        let dtype: DType = case.dtype();
        let [scale_h, scale_w] = <[i32; 2]>::try_from(&*case.scales).expect("two scales");
        let [b, c, h, w, oh, ow] = <[i32; 6]>::try_from(&*case.extents).expect("six extents");
        let name = "upsample_nearest2d_backward";
        let kernel = verify::Case::new(name, &[scale_h, scale_w, 64], &case.extents);
        let dy = case.unit("dy", volume(&[b, c, oh, ow]));
        let buffers = [input("dy", dtype, dy), output("dx", dtype, volume(&[b, c, h, w]))];
        case_everywhere(&case.id, &kernel, dtype, &[], &buffers, |path, place, after| {
            let bound = |value| bound(dtype, (scale_h * scale_w) as u64, case.magnitude("dx"), value);
            errors.sum(&golden, case, "dx", dtype, (name, path, place), &after[1].bytes, bound);
        });
    }
    errors
}

#[test]
fn upsample_nearest2d_bwd_matches_golden() {
    Once::force(&UPSAMPLE);
}
