//! The generated folder against the device crate and against its own manifest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cotangent::kernels;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifest() -> Value {
    let text = fs::read_to_string(root().join("host/kernels/manifest.json")).expect("the manifest");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn ptx_belongs_to_the_device_sources() {
    let sources = cotangent_builder::sources_hash(&root().join("device")).expect("the device crate");
    assert_eq!(
        manifest()["sources_sha256"],
        Value::from(sources),
        "device/ was changed after host/kernels/ was made from it: run `cargo ptx`"
    );
}

#[test]
fn modules_are_those_of_the_manifest() {
    let manifest = manifest();
    let mut listed = BTreeSet::new();
    for kernel in manifest["kernels"].as_array().expect("a list") {
        let name = kernel["name"].as_str().expect("a name");
        let shipped = kernels::find(name).unwrap_or_else(|| panic!("{name} is not in kernels.rs"));
        for module in kernel["modules"].as_array().expect("a list") {
            let kind = module["kind"].as_str().expect("a kind");
            let shipped =
                shipped.module(kind).unwrap_or_else(|| panic!("{name} {kind} is not in kernels.rs"));
            let hash: String = Sha256::digest(shipped.ptx).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(module["sha256"], Value::from(hash), "{name} {kind} was edited by hand");
            assert_eq!(kernel["target"], Value::from(shipped.target), "{name} {kind}");
            listed.insert((name.to_owned(), kind.to_owned()));
        }
    }
    let shipped = kernels::KERNELS.iter().flat_map(|kernel| {
        kernel.modules.iter().map(|module| (kernel.name.to_owned(), module.kind.to_owned()))
    });
    assert_eq!(listed, shipped.collect());
}
