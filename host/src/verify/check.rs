//! The checks themselves: reference, literal and adjoint.

use std::num::NonZeroU32;

use super::case::{Case, Check, Data, Grid, Literal};
use super::data::{SplitMix64, bits, decode, encode, generate, show};
use super::erased::{AnyKernel, Call};
use super::failure::Failure;
use super::memory::{Executor, HostBuffer};
use super::reference::{Expected, expected, rounded, sums};
use super::subject::{Role, Spec, Subject, find};
use crate::element::DType;
use crate::kernel::LaunchOptions;
use crate::launch::{Access, MAX_GRID};

/// What outputs hold before the first and the second run, so that an element which was not written shows.
const POISON: [u8; 2] = [0x6b, 0x94];

/// The element of a check's results that came closest to its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Its error.
    pub error: f64,
    /// The largest error allowed there; zero where results are exact.
    pub bound: f64,
}

impl Measured {
    /// Error over bound; one is the most that passes.
    pub fn ratio(self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.bound }
    }

    /// The one closer to its bound; of two without error, the one with the larger bound.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        let key = |of: Self| (of.ratio(), of.bound);
        if key(other) > key(self) { other } else { self }
    }
}

/// Runs one check for one element type.
///
/// # Errors
/// What it found wrong.
pub fn run(executor: &dyn Executor, check: &Check, dtype: DType) -> Result<Measured, Failure> {
    match check {
        Check::Reference(case) => reference(executor, case, dtype),
        Check::Literal(literal) => worked(executor, literal, dtype),
        Check::Adjoint(case) => adjoint(executor, case, dtype),
    }
}

/// A case made ready for an element type.
struct Ready<'a> {
    subject: &'static Subject,
    case: &'a Case,
    dtype: DType,
    specs: Vec<Spec>,
    kernel: Box<dyn AnyKernel>,
    options: LaunchOptions<'static>,
}

impl<'a> Ready<'a> {
    /// Builds the kernel and compares what its launch touches with the contract.
    fn new(case: &'a Case, dtype: DType) -> Result<Self, Failure> {
        let subject = find(case.kernel)?;
        let kernel = (subject.build)(dtype, &case.constants)?;
        let mut options = LaunchOptions::new().accumulate(case.accumulate);
        options.rows = case.rows;
        // Addresses far apart, where nothing is: the launch is planned, not carried out.
        let addresses: Vec<u64> = (1..=kernel.pointers() as u64).map(|i| i << 48).collect();
        let scalar = vec![0; kernel.scalar_bytes()];
        let call = Call { kernel: &*kernel, extents: &case.extents, scalar: &scalar, options };
        let launch = call.prepare(&addresses)?;
        let specs = (subject.specs)(case);
        for (touched, spec) in launch.touched().iter().zip(specs.iter().filter(|spec| is_buffer(spec))) {
            let contract = (spec.elements * dtype.size()) as u64;
            if touched.bytes != contract {
                return Err(Failure::Planned { buffer: spec.name, planned: touched.bytes, contract });
            }
        }
        let own = u64::from(launch.geometry().grid_x);
        options.grid = match case.grid {
            Grid::Own => None,
            Grid::One => Some(NonZeroU32::MIN),
            Grid::Twice => NonZeroU32::new((2 * own).min(MAX_GRID) as u32),
        };
        Ok(Self { subject, case, dtype, specs, kernel, options })
    }

    fn random(&self) -> SplitMix64 {
        SplitMix64::from_text(&format!("{} {}", self.case, self.dtype))
    }

    /// Random contents for every argument; what outputs hold matters only when they are added to.
    fn contents(&self, data: Data, sums: bool) -> Vec<Vec<u8>> {
        let random = &mut self.random();
        let contents = self.specs.iter().enumerate().map(|(i, spec)| {
            // One tiny factor is enough, since products of two would all be zero; outputs that are added to
            // take tiny numbers too.
            let first = i == 0 || data == Data::Tiny && matches!(spec.role, Role::Output { .. });
            let data = if first || data == Data::Special { data } else { Data::Plain };
            generate(self.dtype, spec.elements, data, sums, random)
        });
        contents.collect()
    }

    /// Launches once, and returns what every argument then holds. Outputs that are not added to hold the
    /// poison before.
    fn run(&self, executor: &dyn Executor, before: &[Vec<u8>], poison: u8) -> Result<Vec<Vec<u8>>, Failure> {
        let mut buffers = Vec::new();
        let mut scalar = &[][..];
        for (spec, bytes) in self.specs.iter().zip(before) {
            let (access, bytes) = match spec.role {
                Role::Scalar => {
                    scalar = bytes;
                    continue;
                }
                Role::Input => (Access::Read, bytes.clone()),
                Role::Output { .. } if self.case.accumulate => (Access::Accumulate, bytes.clone()),
                Role::Output { .. } => (Access::Write, vec![poison; bytes.len()]),
            };
            let offset = self.case.offsets.get(buffers.len()).copied().unwrap_or(0);
            buffers.push(HostBuffer {
                name: spec.name,
                element_bytes: self.dtype.size(),
                offset,
                access,
                bytes,
            });
        }
        let call = Call { kernel: &*self.kernel, extents: &self.case.extents, scalar, options: self.options };
        executor.run(&call, &mut buffers)?;
        let mut buffers = buffers.into_iter();
        let after = self.specs.iter().zip(before).map(|(spec, bytes)| {
            if is_buffer(spec) {
                buffers.next().map_or_else(Vec::new, |buffer| buffer.bytes)
            } else {
                bytes.clone()
            }
        });
        Ok(after.collect())
    }

    fn outputs(&self) -> impl Iterator<Item = (usize, &Spec, Option<&[bool]>)> {
        self.specs.iter().enumerate().filter_map(|(i, spec)| match &spec.role {
            Role::Output { written, .. } => Some((i, spec, written.as_deref())),
            _ => None,
        })
    }

    /// The index of the argument of this name.
    fn index(&self, name: &str) -> usize {
        self.specs.iter().position(|spec| spec.name == name).expect("subjects name their own arguments")
    }
}

fn is_buffer(spec: &Spec) -> bool {
    !matches!(spec.role, Role::Scalar)
}

/// The result against the wide reference, what is written and what is left alone, and a second run.
fn reference(executor: &dyn Executor, case: &Case, dtype: DType) -> Result<Measured, Failure> {
    let ready = Ready::new(case, dtype)?;
    let before = ready.contents(case.data, sums(&ready.specs));
    let first = ready.run(executor, &before, POISON[0])?;
    let second = ready.run(executor, &before, POISON[1])?;
    let mut measured = Measured::default();
    let answers = expected(ready.subject, case, dtype, &ready.specs, &before)?;
    for ((i, spec, written), answer) in ready.outputs().zip(&answers) {
        let untouched = |run: usize, element: usize| {
            let range = element * dtype.size()..(element + 1) * dtype.size();
            let bytes = &[&first, &second][run][i][range.clone()];
            if case.accumulate { *bytes == before[i][range] } else { bytes.iter().all(|&b| b == POISON[run]) }
        };
        let buffer = spec.name;
        for element in 0..spec.elements {
            let still = [untouched(0, element), untouched(1, element)];
            if written.is_some_and(|written| !written[element]) {
                if still != [true; 2] {
                    return Err(Failure::Touched { buffer, element });
                }
                continue;
            }
            if still == [true; 2] && !case.accumulate {
                return Err(Failure::Unwritten { buffer, element });
            }
            let range = element * dtype.size()..(element + 1) * dtype.size();
            let [one, two] = [&first[i][range.clone()], &second[i][range.clone()]];
            if one != two {
                let [first, second] = [show(dtype, one), show(dtype, two)];
                return Err(Failure::Unsteady { buffer, element, first, second });
            }
            measured = measured.worst(compare(buffer, element, dtype, one, answer)?);
        }
    }
    Ok(measured)
}

/// One element of a result against its right answer.
fn compare(
    buffer: &'static str,
    element: usize,
    dtype: DType,
    got: &[u8],
    answer: &Expected,
) -> Result<Measured, Failure> {
    let (want, error, bound) = match answer {
        Expected::Exact(bytes) => {
            let want = &bytes[element * dtype.size()..][..dtype.size()];
            (show(dtype, want), if got == want { 0.0 } else { f64::INFINITY }, 0.0)
        }
        Expected::Near(values) => {
            let (want, bound) = values[element];
            let bound = if rounded(dtype, want).is_finite() { bound } else { 0.0 };
            (format!("{want:?}"), distance(dtype, got, want), bound)
        }
    };
    if error <= bound {
        return Ok(Measured { error, bound });
    }
    Err(Failure::Wrong { buffer, element, got: show(dtype, got), want, error, bound })
}

/// How far an element is from a value; infinitely where the two are numbers of different classes.
fn distance(dtype: DType, got: &[u8], want: f64) -> f64 {
    let (got, class) = (decode(dtype, got)[0], rounded(dtype, want));
    if class.is_finite() {
        return if got.is_finite() { (got - want).abs() } else { f64::INFINITY };
    }
    let same_sign = got.is_sign_negative() == class.is_sign_negative();
    let same_class = if class.is_nan() { got.is_nan() } else { got.is_infinite() && same_sign };
    if same_class { 0.0 } else { f64::INFINITY }
}

/// A worked literal: every element equals the answer, and those that are left alone keep their poison.
fn worked(executor: &dyn Executor, literal: &Literal, dtype: DType) -> Result<Measured, Failure> {
    let ready = Ready::new(&literal.case, dtype)?;
    let given = |list: &[(&'static str, Vec<f64>)], spec: &Spec| {
        list.iter().find(|(name, _)| *name == spec.name).map(|(_, values)| values.clone())
    };
    let before: Vec<_> = ready
        .specs
        .iter()
        .map(|spec| encode(dtype, &given(&literal.before, spec).unwrap_or_else(|| vec![0.0; spec.elements])))
        .collect();
    let after = ready.run(executor, &before, POISON[0])?;
    for (i, spec, _) in ready.outputs() {
        let want = given(&literal.after, spec).expect("a literal has the answer for every output");
        for (element, &value) in want.iter().enumerate() {
            let range = element * dtype.size()..(element + 1) * dtype.size();
            let got = &after[i][range.clone()];
            let buffer = spec.name;
            if value.is_nan() {
                let alone =
                    if literal.case.accumulate { &before[i][range] } else { &[POISON[0]; 8][..got.len()] };
                if got != alone {
                    return Err(Failure::Touched { buffer, element });
                }
                continue;
            }
            let error = distance(dtype, got, value);
            if error > 0.0 {
                let (got, want) = (show(dtype, got), value.to_string());
                return Err(Failure::Wrong { buffer, element, got, want, error, bound: 0.0 });
            }
        }
    }
    Ok(Measured::default())
}

/// ⟨A x, y⟩ = ⟨x, Aᵀ y⟩ for a backward kernel's case, for each input that it has a gradient of.
///
/// Integers are compared in the ring that they wrap in, and so exactly. For floats the difference is bounded
/// by what the results' own bounds allow, and the rounding of the two sums.
fn adjoint(executor: &dyn Executor, case: &Case, dtype: DType) -> Result<Measured, Failure> {
    let backward = Ready::new(case, dtype)?;
    let Some(pairs) = backward.subject.adjoint else { return Ok(Measured::default()) };
    let forward_case = Case { kernel: pairs.forward, ..case.clone() };
    let forward = Ready::new(&forward_case, dtype)?;
    let x = forward.contents(Data::Plain, true);
    let (result, output, written) = forward.outputs().next().expect("a forward has an output");
    let x = forward.specs.iter().zip(x).map(|(spec, bytes)| match spec.role {
        // The identity is for linear operations: what a pad adds is left out.
        Role::Scalar => vec![0; bytes.len()],
        _ => bytes,
    });
    let x: Vec<_> = x.collect();
    let y = forward.run(executor, &x, POISON[0])?;
    let y_bounds = expected(forward.subject, &forward_case, dtype, &forward.specs, &x)?;

    let random = backward.contents(Data::Plain, true);
    let before = backward.specs.iter().zip(random).map(|(spec, bytes)| match spec.role {
        Role::Input if spec.name != "dy" => x[forward.index(spec.name)].clone(),
        _ => bytes,
    });
    let before: Vec<_> = before.collect();
    let gradients = backward.run(executor, &before, POISON[0])?;
    let gradient_bounds = expected(backward.subject, case, dtype, &backward.specs, &before)?;

    let dy = &before[backward.index("dy")];
    let left = Product::of(dtype, &y[result], dy, written, &y_bounds[0]);
    let mut measured = Measured::default();
    for &(input, gradient) in pairs.pairs {
        let outputs = backward.outputs().zip(&gradient_bounds);
        let (i, written, bounds) = outputs
            .filter(|((_, spec, _), _)| spec.name == gradient)
            .map(|((i, _, written), bounds)| (i, written, bounds))
            .next()
            .expect("subjects name their own arguments");
        let right = Product::of(dtype, &gradients[i], &x[forward.index(input)], written, bounds);
        let (error, bound) = left.difference(&right, dtype);
        if error.is_nan() || error > bound {
            let (output, forward, backward) = (output.name, left.show(dtype), right.show(dtype));
            return Err(Failure::NotAdjoint { input, output, forward, backward, bound });
        }
        measured = measured.worst(Measured { error, bound });
    }
    Ok(measured)
}

/// A scalar product of results and numbers, both wrapping and as `f64`, with what it may be wrong by.
struct Product {
    wrapped: u64,
    value: f64,
    bound: f64,
}

impl Product {
    fn of(dtype: DType, results: &[u8], others: &[u8], written: Option<&[bool]>, answer: &Expected) -> Self {
        let counts = |i: usize| written.is_none_or(|written| written[i]);
        let pairs = bits(dtype, results).into_iter().zip(bits(dtype, others)).enumerate();
        let wrapped = pairs
            .filter(|&(i, _)| counts(i))
            .fold(0_u64, |sum, (_, (a, b))| sum.wrapping_add(a.wrapping_mul(b)));
        let mut product = Self { wrapped, value: 0.0, bound: 0.0 };
        let mut terms = 0.0;
        let mut magnitude = 0.0;
        let values = decode(dtype, results).into_iter().zip(decode(dtype, others)).enumerate();
        for (i, (result, other)) in values.filter(|&(i, _)| counts(i)) {
            terms += 1.0;
            product.value += result * other;
            magnitude += (result * other).abs();
            if let Expected::Near(bounds) = answer {
                product.bound += bounds[i].1 * other.abs();
            }
        }
        product.bound += (terms + 1.0) * f64::EPSILON * magnitude;
        product
    }

    fn difference(&self, other: &Self, dtype: DType) -> (f64, f64) {
        if dtype.is_float() {
            return ((self.value - other.value).abs(), self.bound + other.bound);
        }
        let shift = 64 - 8 * dtype.size() as u32;
        let same = self.wrapped << shift == other.wrapped << shift;
        (if same { 0.0 } else { f64::INFINITY }, 0.0)
    }

    fn show(&self, dtype: DType) -> String {
        let shift = 64 - 8 * dtype.size() as u32;
        if dtype.is_float() { self.value.to_string() } else { (self.wrapped << shift >> shift).to_string() }
    }
}
