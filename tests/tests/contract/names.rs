//! What a kernel says of itself: names, ids and source texts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cotangent::{Conv2dBackward, Kernel, kernels};
use sha2::{Digest, Sha256};

use crate::catalogue::{SUBJECTS, launches};

/// The last arguments of the call inside an entry point, as many as there are constants.
fn literals(entry_point: &str, count: usize) -> Vec<&str> {
    let call = entry_point.lines().find_map(|line| line.trim().strip_prefix("unsafe { ")).expect("a call");
    let (_, arguments) = call.split_once(">(").expect("a generic call");
    let arguments: Vec<_> = arguments.strip_suffix(") }").expect("the call's end").split(", ").collect();
    arguments[arguments.len() - count..].to_vec()
}

#[test]
fn fields_and_methods_agree() {
    for subject in SUBJECTS.iter() {
        assert_eq!(subject.fields, subject.methods, "{}", subject.label());
        assert_eq!(subject.fields.name, subject.info.name);
    }
}

#[test]
fn id_field_is_name_type_and_constants() {
    let example = Conv2dBackward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 64);
    assert_eq!(example.id, "conv2d_backward__f32__3__3__1__1__1__1__1__64");
    for subject in SUBJECTS.iter() {
        let mut parts = vec![subject.fields.name.to_owned(), subject.dtype.name().to_owned()];
        parts.extend(subject.constants.iter().map(|(_, value)| value.to_string()));
        assert_eq!(subject.ids[0], parts.join("__"));
    }
    let ids: BTreeSet<_> = SUBJECTS.iter().map(|subject| &subject.ids[0]).collect();
    assert_eq!(ids.len(), SUBJECTS.len());
}

#[test]
fn id_method_is_the_hash_of_the_source() {
    for subject in SUBJECTS.iter() {
        let digest = Sha256::digest(&subject.fields.source);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(subject.ids[1], hex, "{}", subject.label());
    }
    let ids: BTreeSet<_> = SUBJECTS.iter().map(|subject| &subject.ids[1]).collect();
    assert_eq!(ids.len(), SUBJECTS.len(), "two kernels have the same source");
    let other = Conv2dBackward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 65);
    assert_ne!(other.id(), Conv2dBackward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 64).id());
}

#[test]
fn source_is_both_parts_with_an_empty_line_between() {
    for subject in SUBJECTS.iter() {
        let said = &subject.fields;
        assert_eq!(said.source, format!("{}\n\n{}", said.kernel_source, said.entry_point_source));
    }
}

#[test]
fn kernel_source_is_in_the_device_crate_verbatim() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../device/src");
    let files = fs::read_dir(&folder).expect("the device crate").map(|entry| entry.expect("a file").path());
    let device: Vec<_> = files.map(|path| fs::read_to_string(path).expect("a source file")).collect();
    for kernel in kernels::KERNELS {
        let found = device.iter().filter(|text| text.contains(kernel.source)).count();
        assert_eq!(found, 1, "{} is in {found} files", kernel.name);
        let function = format!("pub unsafe fn {}<E: ", kernel.name);
        assert!(kernel.source.contains(&function), "{}", kernel.name);
        // Doc comments belong to the function; the body ends it.
        assert!(kernel.source.starts_with("/// ") && kernel.source.ends_with("\n}"), "{}", kernel.name);
    }
    for subject in SUBJECTS.iter() {
        assert_eq!(subject.fields.kernel_source, subject.info.source);
    }
}

#[test]
fn entry_point_has_the_constants_as_literals() {
    for subject in SUBJECTS.iter() {
        let (said, label) = (&subject.fields, subject.label());
        let symbol = format!("{}_entry_point", said.name);
        assert_eq!(subject.entry_point_name, symbol);
        let declaration = format!("pub unsafe extern \"ptx-kernel\" fn {symbol}(");
        assert!(said.entry_point_source.contains(&declaration), "{label}");
        let names: Vec<_> = subject.constants.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, subject.info.constants.iter().map(|c| c.name).collect::<Vec<_>>(), "{label}");
        let expected = subject.info.constants.iter().zip(&subject.constants).map(|(info, (_, value))| {
            if info.divisor { format!("const {{ FastDivmod::new({value}) }}") } else { value.to_string() }
        });
        assert_eq!(literals(&said.entry_point_source, names.len()), expected.collect::<Vec<_>>(), "{label}");
    }
}

/// A kernel that is missing in the catalogue would be missing in every test here, and a module that no launch uses
/// would be dead weight.
#[test]
fn every_shipped_module_is_reached_by_a_launch() {
    let used: BTreeSet<_> =
        launches().map(|(_, _, launch)| (launch.kernel().name, launch.module().kind)).collect();
    for kernel in kernels::KERNELS {
        for module in kernel.modules {
            let key = (kernel.name, module.kind);
            assert!(used.contains(&key), "no launch of the catalogue uses {key:?}");
        }
    }
}
