//! A stand-in for the CUDA driver: runs a test again in a child process that finds it as `libcuda.so.1`.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// Set in the child: the folder with the library.
pub(crate) const FOLDER: &str = "COTANGENT_TEST_FAKE_DRIVER";

/// What a child finds as `libcuda.so.1`.
#[derive(Clone, Copy)]
pub(crate) enum Driver {
    /// The stand-in.
    Fake,
    /// A file that is no library, as if there were no driver. (A machine with a GPU has one elsewhere.)
    None,
}

/// True in a child process that has the driver; otherwise runs the test `name` in such a child, with the
/// variables set, and is false once it has passed.
pub(crate) fn in_child(name: &str, driver: Driver, variables: &[(&str, &str)]) -> bool {
    if env::var_os(FOLDER).is_some() {
        return true;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("libcuda.so.1");
    match driver {
        Driver::Fake => fs::write(&library, fake_library()).expect("write to the temporary folder"),
        Driver::None => fs::write(&library, "no library").expect("write to the temporary folder"),
    }
    let output = Command::new(env::current_exe().expect("the test's own path"))
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(FOLDER, folder.path())
        .envs(variables.iter().copied())
        .output()
        .expect("run the test again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("test result: ok. 1 passed"),
        "{name} in a child process: {}\n{text}\n{errors}",
        output.status
    );
    false
}

/// The stand-in, compiled once for all tests of this process.
fn fake_library() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let library = folder.path().join("libcuda.so.1");
        compile("fake_cuda.c", &library, &["-Wl,-soname,libcuda.so.1", "-pthread"]);
        fs::read(library).expect("what the compiler wrote")
    })
}

/// Compiles a C file of this folder to a shared library.
pub(crate) fn compile(source: &str, library: &Path, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver").join(source);
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-O1", "-fPIC", "-shared", "-o"])
        .arg(library)
        .arg(&source)
        .args(options)
        .output()
        .unwrap_or_else(|error| panic!("this test needs a C compiler, `cc`, on the PATH: {error}"));
    assert!(output.status.success(), "cc {}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
}
