//! The command line as a user meets it.
#![cfg(feature = "cli")]

use std::io::Read;
use std::process::{Command, Output, Stdio};

use cotangent::verify::{kernel, kernels};
use cotangent::{DType, Device};

fn cotangent(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cotangent"));
    command.args(args).env_remove("RUST_LOG");
    command
}

fn run(args: &[&str]) -> Output {
    cotangent(args).output().expect("the binary runs")
}

/// What a command printed; it must succeed and have nothing to complain about.
fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What a command said when it refused its arguments.
fn refusal(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{args:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn devices_lists_the_cpu_and_says_what_there_is_of_gpus() {
    let text = stdout(&["devices"]);
    assert!(text.contains("| cpu ") && text.contains("threads"), "{text}");
    assert_eq!(text.contains("| cuda:0 "), Device::cuda(0).is_ok(), "{text}");
    assert_eq!(
        text.contains("No GPU can be used: ") || text.contains("but no GPU"),
        Device::cuda(0).is_err(),
        "{text}"
    );
}

#[test]
fn list_has_every_kernel_with_its_constants_types_and_modules() {
    let text = stdout(&["list"]);
    let line = |name: &str| {
        let found = text.lines().find(|line| line.contains(&format!("| {name} ")));
        found.unwrap_or_else(|| panic!("{name} is not in {text}")).to_owned()
    };
    for name in kernels() {
        line(name);
    }
    let pad = line("constant_pad1d_forward");
    for part in ["pad_left, pad_right, block_ol", "i8, i16, i32", "bf16, f32, f64", "sm_70: b8 b16 b32 b64"] {
        assert!(pad.contains(part), "{pad}");
    }
}

#[test]
fn show_prints_what_the_kernel_has() {
    let shown = |what: &[&str]| {
        let mut args = vec!["show", "constant_pad1d_forward", "--constants", "-1,2,64", "--dtype", "f32"];
        args.extend(what);
        stdout(&args)
    };
    let kernel = kernel("constant_pad1d_forward", DType::F32, &[-1, 2, 64]).expect("good constants");
    assert_eq!(shown(&[]).trim_end(), kernel.source().trim_end());
    assert_eq!(shown(&["--source"]).trim_end(), kernel.source().trim_end());
    assert_eq!(shown(&["--entry-point"]).trim_end(), kernel.entry_point_source().trim_end());
    let ptx = shown(&["--ptx"]);
    assert!(ptx.contains(".entry constant_pad1d_forward_entry_point(") && ptx.contains(", -1;"), "{ptx}");
    assert!(!ptx.contains("__spec_"), "a hole is left: {ptx}");
}

#[test]
fn show_has_every_kernel_of_the_list() {
    for kernel in cotangent::kernels::KERNELS {
        let constants = vec!["4"; kernel.constants.len()].join(",");
        let mut args = vec!["show", kernel.name, "--dtype", "f32"];
        if !constants.is_empty() {
            args.extend(["--constants", &constants]);
        }
        let source = stdout(&args);
        assert!(source.contains(&format!("fn {}_entry_point(", kernel.name)), "{source}");
        args.push("--ptx");
        let ptx = stdout(&args);
        assert!(ptx.contains(".entry") && !ptx.contains("__spec_"), "{}", kernel.name);
    }
}

#[test]
fn what_is_unknown_is_refused_with_what_is_known() {
    let unknown = refusal(&["show", "conv3d", "--constants", "1", "--dtype", "f32"]);
    assert!(unknown.contains("\"conv3d\"") && unknown.contains("conv2d_backward_dw"), "{unknown}");
    let dtype = refusal(&["show", "conv2d_forward", "--constants", "1", "--dtype", "f8"]);
    assert!(dtype.contains("\"f8\"") && dtype.contains("bf16, f32, f64"), "{dtype}");
    let count = refusal(&["show", "conv2d_forward", "--constants", "3,3", "--dtype", "f32"]);
    assert!(
        count.contains("takes 8 constants (kh, kw, stride_h,") && count.contains("2 were given"),
        "{count}"
    );
    let value = refusal(&["show", "flatten_forward", "--constants", "0,64", "--dtype", "f32"]);
    assert!(value.contains("block_b is 0, but must be between 1 and 2^29"), "{value}");
    let unknown = refusal(&["verify", "--kernel", "conv3d"]);
    assert!(unknown.contains("\"conv3d\"") && unknown.contains("flatten_forward"), "{unknown}");
    let dtype = refusal(&["verify", "--dtype", "f8"]);
    assert!(dtype.contains("\"f8\"") && dtype.contains("u64"), "{dtype}");
    let device = refusal(&["verify", "--device", "tpu", "--kernel", "flatten_forward"]);
    assert!(device.contains("\"tpu\"") && device.contains("auto, cpu, cuda and cuda:N"), "{device}");
    let device = refusal(&["verify", "--device", "cuda:9999", "--kernel", "flatten_forward"]);
    assert!(device.contains("error: "), "{device}");
    let two =
        refusal(&["show", "flatten_forward", "--constants", "1,64", "--dtype", "f32", "--ptx", "--source"]);
    assert!(two.contains("cannot be used with"), "{two}");
}

#[test]
fn verify_prints_a_table_and_writes_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("verify.json");
    let file = path.to_str().expect("UTF-8");
    let text =
        stdout(&["verify", "--device", "cpu", "--kernel", "upsample_nearest2d_backward", "--json", file]);
    for part in
        ["| kernel ", "| dtype ", "| cases ", "| largest error ", "| bound ", "| verdict ", "all passed"]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert_eq!(text.matches("| pass ").count(), 12, "{text}");
    assert!(!text.contains('\u{1b}'), "there are escape codes where there is no terminal: {text}");
    let json = std::fs::read_to_string(&path).expect("the file is there");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["passed"], true);
    assert_eq!(json["device"], "cpu");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12);
    assert!(
        rows.iter().all(|row| row["passed"] == true && row["findings"].as_array().is_some_and(Vec::is_empty))
    );
    let exact = rows.iter().filter(|row| row["bound"] == 0.0).count();
    assert_eq!(exact, 8, "the integers are exact, and the floats are bounded: {json:#}");
}

#[test]
fn verify_says_when_it_cannot_write() {
    let output =
        run(&["verify", "--device", "cpu", "--kernel", "flatten_forward", "--dtype", "u8", "--json", "/"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: / cannot be written"), "{output:?}");
}

#[test]
fn verify_auto_says_when_there_is_no_gpu() {
    let text = stdout(&["verify", "--kernel", "flatten_forward", "--dtype", "i32"]);
    let (found, on) = if Device::cuda(0).is_ok() { (false, " on cuda:0") } else { (true, " on cpu") };
    assert_eq!(text.starts_with("No GPU was found ("), found, "{text}");
    assert!(text.contains(on) && text.contains("all passed"), "{text}");
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for args in [
        &["devices"][..],
        &["list"],
        &["show", "conv2d_forward", "--constants", "3,3,1,1,1,1,1,64", "--dtype", "f32", "--ptx"],
        &["verify", "--device", "cpu", "--kernel", "flatten_forward", "--dtype", "u8"],
    ] {
        let mut child =
            cotangent(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        drop(child.stdout.take());
        let mut complaints = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut complaints).expect("UTF-8");
        assert!(child.wait().expect("it ends").success(), "{args:?}");
        assert_eq!(complaints, "", "{args:?}");
    }
}
