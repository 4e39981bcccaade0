//! Entry points and their parameters: the modules' declarations against the contract and against what launches
//! pack.

use cotangent::kernels::{self, KernelInfo, Module};

use crate::catalogue::{SUBJECTS, launches};

/// A parameter as PTX declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Declared {
    /// `.u64 .ptr`, `.u32`, …; `.b8` for a structure.
    ty: String,
    bytes: usize,
    align: usize,
}

impl Declared {
    fn new(ty: &str, bytes: usize, align: usize) -> Self {
        Self { ty: ty.to_owned(), bytes, align }
    }

    /// From a line such as `.param .align 8 .b8 name_param_7[24]`.
    fn parse(line: &str) -> Self {
        let words: Vec<_> = line.trim().trim_end_matches(',').split_whitespace().collect();
        assert_eq!(words[0], ".param", "{line}");
        match words[1] {
            ".align" => {
                let (_, bytes) = words[4].split_once('[').expect("an array");
                let bytes = bytes.trim_end_matches(']').parse().expect("a length");
                Self::new(words[3], bytes, words[2].parse().expect("an alignment"))
            }
            ty => {
                let bits: usize = ty[2..].parse().expect("a width in bits");
                let pointer = if words[2] == ".ptr" { " .ptr" } else { "" };
                Self::new(&format!("{ty}{pointer}"), bits / 8, bits / 8)
            }
        }
    }
}

/// The parameters of a module's one entry point.
fn declared(kernel: &KernelInfo, module: &Module) -> Vec<Declared> {
    let ptx = module.ptx;
    assert_eq!(ptx.matches(".entry").count(), 1, "{} {}", kernel.name, module.kind);
    let head = format!(".visible .entry {}_entry_point(\n", kernel.name);
    let (_, rest) =
        ptx.split_once(&head).unwrap_or_else(|| panic!("{} {}: {head}", kernel.name, module.kind));
    let (list, _) = rest.split_once("\n)").expect("the list's end");
    list.lines().map(Declared::parse).collect()
}

/// The device's arguments by the contract, in its words: pointers, then extents and strides in elements.
const CONTRACT: [(&str, &str, &str); 12] = [
    ("flatten_forward", "input output", "b n stride_ib stride_in"),
    ("flatten_backward", "dy dx", "b n stride_dxb stride_dxn"),
    ("channel_cat_forward", "x y", "chunk_c c_total chunk_offset"),
    ("channel_cat_backward", "dy dx", "chunk_c c_total chunk_offset"),
    ("constant_pad1d_forward", "input output", "b c l ol"),
    ("constant_pad1d_backward", "dy dx", "b c l ol"),
    ("conv2d_forward", "x w y", "b c_in c_out h wd oh ow"),
    ("conv2d_backward", "dy x w dx dw", "b c_in c_out h wd oh ow"),
    ("conv2d_backward_dx", "dy w dx", "b c_in c_out h wd oh ow"),
    ("conv2d_backward_dw", "dy x dw", "b c_in c_out h wd oh ow"),
    ("upsample_nearest2d_forward", "x y", "b c h w oh ow"),
    ("upsample_nearest2d_backward", "dy dx", "b c h w oh ow"),
];

#[test]
fn args_are_the_contracts() {
    for (name, pointers, extents) in CONTRACT {
        let mut expected: Vec<_> = pointers.split(' ').map(|name| (name, "*mut E")).collect();
        expected.extend(extents.split(' ').map(|name| (name, "i32")));
        if name == "constant_pad1d_forward" {
            expected.push(("value", "E"));
        }
        let kernel = kernels::find(name).expect("a kernel of the contract");
        assert_eq!(kernel.args.iter().map(|arg| (arg.name, arg.ty)).collect::<Vec<_>>(), expected, "{name}");
    }
}

/// What a device type becomes, for an element of this many bytes; nothing for structures, which vary.
fn expected(ty: &str, element: usize) -> Option<Declared> {
    Some(match ty {
        "i32" | "u32" => Declared::new(".u32", 4, 4),
        "i64" | "u64" => Declared::new(".u64", 8, 8),
        "f64" => Declared::new(".f64", 8, 8),
        "E" => Declared::new(&format!(".u{}", 8 * element), element, element),
        "FastDivmod" => Declared::new(".b8", 12, 4),
        "FastDivmod64" => Declared::new(".b8", 24, 8),
        pointer if pointer.starts_with('*') => Declared::new(".u64 .ptr", 8, 8),
        _ => return None,
    })
}

#[test]
fn ptx_parameters_are_args_and_then_the_hidden_words() {
    for kernel in kernels::KERNELS {
        for module in kernel.modules {
            let place = format!("{} {}", kernel.name, module.kind);
            let element = module.kind.trim_start_matches(char::is_alphabetic).parse::<usize>();
            let element = element.expect("a kind ends with its bits") / 8;
            let declared = declared(kernel, module);
            assert_eq!(declared.len(), kernel.args.len() + kernel.hidden.len(), "{place}");
            for (param, declared) in kernel.args.iter().chain(kernel.hidden).zip(declared) {
                match expected(param.ty, element) {
                    Some(expected) => assert_eq!(declared, expected, "{place}: {param:?}"),
                    None => assert_eq!(declared.ty, ".b8", "{place}: {param:?}"),
                }
            }
        }
    }
}

#[test]
fn packed_parameters_lie_where_the_ptx_expects_them() {
    for (_, call, launch) in launches() {
        let place = format!("{} {} {call:?}", launch.kernel().name, launch.module().kind);
        let declared = declared(launch.kernel(), launch.module());
        assert_eq!(launch.params().len(), declared.len(), "{place}");
        let (mut packed, mut end) = (0, 0);
        for (bytes, declared) in launch.params().iter().zip(&declared) {
            let start = usize::next_multiple_of(end, declared.align);
            assert_eq!(packed, start, "{place}: {declared:?}");
            packed += bytes.len();
            end = start + declared.bytes;
            // Padding up to the next parameter may follow, so a parameter that is too short shows there.
            assert!(bytes.len() >= declared.bytes, "{place}: {declared:?} holds {} bytes", bytes.len());
        }
        assert_eq!(launch.params().packed().len(), end, "{place}");
    }
}

#[test]
fn arguments_are_packed_in_the_callers_order() {
    for subject in SUBJECTS.iter() {
        for call in &subject.calls {
            let launch = subject.portable(call);
            let mut packed = launch.params().iter();
            for address in subject.nowhere() {
                assert_eq!(packed.next(), Some(&address.to_ne_bytes()[..]), "{} {call:?}", subject.label());
            }
            for extent in &call.extents {
                let bytes = packed.next().expect("an extent");
                assert_eq!(bytes[..4], extent.to_ne_bytes(), "{} {call:?}", subject.label());
            }
        }
    }
}
