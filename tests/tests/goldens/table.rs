//! The errors of sums, ours and PyTorch's, against the right answers.
//!
//! An error is the root mean square of a result's elements' errors, over that of the elements. `goldens/errors.md` has
//! them all. With the variable `COTANGENT_WRITE_ERRORS` set, the test writes that file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

use cotangent::DType;
use cotangent::verify::decode;

use crate::data::{Case, Golden};
use crate::places::{Path, on_gpu};
use crate::{arithmetic, elementwise};

/// Sums of squares over many elements.
#[derive(Clone, Copy, Debug, Default)]
struct Squares {
    right: f64,
    torch: f64,
    ours: f64,
}

/// By result, element type and path.
#[derive(Debug, Default)]
pub(crate) struct Errors(BTreeMap<(String, DType, Path), Squares>);

impl Errors {
    /// Compares a result with the right answer, element by element, and counts its error.
    pub(crate) fn sum(
        &mut self,
        golden: &Golden,
        case: &Case,
        result: &str,
        dtype: DType,
        (row, path, place): (&str, Path, &str),
        got: &[u8],
        bound: impl Fn(f64) -> f64,
    ) {
        let torch = decode(dtype, golden.result(case, result, dtype));
        let right = decode(DType::F64, golden.result(case, &format!("{result}.f64"), DType::F64));
        let got = decode(dtype, got);
        assert_eq!([got.len(), torch.len()], [right.len(); 2], "{}, {result}", case.id);
        let squares = self.0.entry((row.to_owned(), dtype, path)).or_default();
        for (i, ((&ours, torch), &right)) in got.iter().zip(torch).zip(&right).enumerate() {
            let (error, bound) = ((ours - right).abs(), bound(right));
            assert!(
                error <= bound,
                "{}, {row} on {place}, element {i}: {ours} is not {right} (error {error:e}, bound {bound:e})",
                case.id
            );
            squares.right += right * right;
            squares.torch += (torch - right).powi(2);
            squares.ours += error * error;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.0.extend(other.0.iter().map(|(key, squares)| (key.clone(), *squares)));
    }
}

/// One operation's errors, computed once, whichever test comes first.
pub(crate) type Once = LazyLock<Errors>;

static ALL: LazyLock<Errors> = LazyLock::new(|| {
    let mut all = Errors::default();
    for op in arithmetic::ALL.iter().chain(elementwise::ALL) {
        all.merge(op);
    }
    all
});

/// The most that our error may be of PyTorch's.
const MOST: f64 = 1.1;

#[test]
fn errors_are_at_most_pytorchs() {
    println!("{}", table());
    let mut wrong = Vec::new();
    // For f64 itself there is no wider type to be right in; its bound is checked with the others.
    for ((row, dtype, path), squares) in ALL.0.iter().filter(|((_, dtype, _), _)| *dtype != DType::F64) {
        let (ours, torch) = (squares.ours.sqrt(), squares.torch.sqrt());
        if ours > MOST * torch {
            wrong.push(format!("{row}, {dtype}, {path:?}: {:.3} times", ours / torch));
        }
    }
    assert!(wrong.is_empty(), "{MOST} times PyTorch's error is the most: {wrong:#?}");
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens/errors.md")
}

const HEAD: &str = "\
# Errors of sums

The root mean square error of each result over the goldens' cases, relative to the root mean square of the right
answers: PyTorch's, and ours on the CPU path and as device code on the PTX machine. \"Tuned\" has the convolutions that
a large or a small GPU runs on its kernels for large problems, \"small\" those that it runs on the kernel for small ones, with
PyTorch's error of the same cases in brackets.

`cargo test --package cotangent-tests --test goldens` computes this table and compares it with this file. Ours is at most
1.1 times PyTorch's. The rows of f64 are against exact answers rounded to f64, and are not held to this.

";

fn table() -> String {
    let torch = Golden::open("conv2d").torch;
    let torch = torch.split('+').next().expect("a version");
    let mut text = format!(
        "{HEAD}PyTorch is {torch}, on a CPU.\n\n\
         | result | type | PyTorch | CPU path | portable kernels | tuned kernels | small kernel |\n|---|---|---|---|---|---|---|\n"
    );
    for ((row, dtype, path), squares) in &ALL.0 {
        if *path != Path::Cpu {
            continue;
        }
        let relative = |sum: f64| format!("{:.2e}", (sum / squares.right).sqrt());
        let of = |path| ALL.0.get(&(row.clone(), *dtype, path));
        let device = of(Path::Device).map_or(String::new(), |squares| relative(squares.ours));
        let [tuned, small] = [Path::Tuned, Path::Small].map(|path| {
            of(path).map_or(String::new(), |planned| {
                let relative = |sum: f64| format!("{:.2e}", (sum / planned.right).sqrt());
                format!("{} ({})", relative(planned.ours), relative(planned.torch))
            })
        });
        let (torch, cpu) = (relative(squares.torch), relative(squares.ours));
        writeln!(text, "| {row} | {dtype} | {torch} | {cpu} | {device} | {tuned} | {small} |")
            .expect("a String grows");
    }
    text
}

#[test]
fn the_table_of_errors_is_current() {
    if on_gpu() {
        println!("the committed table is the PTX machine's, and this is a GPU's:\n{}", table());
        return;
    }
    if std::env::var_os("COTANGENT_WRITE_ERRORS").is_some() {
        std::fs::write(file(), table()).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(file()).expect("the file is committed");
    let current = table();
    let (committed, current) = (words(&committed), words(&current));
    assert_eq!(committed.len(), current.len(), "tests/goldens/errors.md has other rows");
    for (committed, current) in committed.iter().zip(&current) {
        // Other versions of the platform's exp and ln may move a last digit.
        let near = match (committed.parse::<f64>(), current.parse::<f64>()) {
            (Ok(one), Ok(other)) => (one - other).abs() <= 0.02 * other.abs(),
            _ => committed == current,
        };
        assert!(near, "tests/goldens/errors.md says {committed}, where {current} was computed");
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| word.trim_matches(['(', ')'])).collect()
}
