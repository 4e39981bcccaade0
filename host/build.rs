//! Lets `-lcuda`, which cust asks for, link on a machine without CUDA.
//!
//! The crate defines every driver function that cust calls (`src/driver/symbols.rs`), so the linker has to find
//! a file of the name `libcuda.so`, but nothing in it. An empty linker script is such a file. Its folder goes to
//! the linker of each program that depends on this crate, behind folders of a real CUDA installation.

use std::path::{Path, PathBuf};
use std::{env, fs};

const SCRIPT: &str =
    "/* An empty linker script: it satisfies -lcuda, and cotangent opens the real driver on demand. */\n";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if os != "linux" || !matches!(arch.as_str(), "x86_64" | "aarch64") {
        println!(
            "cargo::error=cotangent's feature `cuda` needs Linux on x86_64 or aarch64, but the target is {os} on \
             {arch}. Depend on cotangent with `default-features = false`: everything but GPUs works."
        );
        return;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("cuda-link");
    if let Err(error) =
        fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("libcuda.so"), SCRIPT))
    {
        println!("cargo::error=cannot write {}: {error}", folder.display());
        return;
    }
    println!("cargo::rustc-link-search=native={}", folder.display());
    if Path::new("tests/driver_symbols.rs").exists() {
        // That test asks whether other libraries of the process can see the symbols. Without this, a program
        // exports none, hidden or not.
        println!("cargo::rustc-link-arg-tests=-rdynamic");
    }
}
