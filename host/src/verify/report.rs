//! Running many checks, and what came of them.

use super::case::Check;
use super::check::{Measured, run};
use super::failure::{Failure, Finding};
use super::memory::{Choosing, Executor};
use super::{checks, kernels};
use crate::element::DType;
use crate::kernel::Algorithm;

/// What to verify.
#[derive(Clone, Debug)]
pub struct Scope {
    kernels: Vec<&'static str>,
    dtypes: Vec<DType>,
    plans: bool,
}

impl Scope {
    /// Every kernel, or the one of this name; every element type, or this one.
    ///
    /// # Errors
    /// An unknown name.
    pub fn new(kernel: Option<&str>, dtype: Option<DType>) -> Result<Self, Failure> {
        let kernels = match kernel {
            Some(name) => vec![super::subject::find(name)?.name],
            None => kernels(),
        };
        Ok(Self {
            kernels,
            dtypes: dtype.map_or_else(|| DType::ALL.to_vec(), |dtype| vec![dtype]),
            plans: false,
        })
    }

    /// Whether convolutions are verified on the kernels that suit a shape and once more on those for large problems, as
    /// a GPU plans them.
    #[must_use]
    pub fn plans(mut self, plans: bool) -> Self {
        self.plans = plans;
        self
    }

    /// The choices of kernels that a kernel is verified with.
    fn choices(&self, kernel: &str) -> &'static [Algorithm] {
        let both = self.plans && kernel.starts_with("conv2d");
        if both { &[Algorithm::Auto, Algorithm::Large] } else { &[Algorithm::Auto] }
    }

    /// How many checks that is.
    pub fn len(&self) -> usize {
        let checks =
            |kernel: &&str| checks(kernel).map_or(0, |checks| checks.len()) * self.choices(kernel).len();
        self.kernels.iter().map(checks).sum::<usize>() * self.dtypes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What came of one kernel for one element type.
#[derive(Debug)]
pub struct Row {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The element type.
    pub dtype: DType,
    /// How many checks ran.
    pub cases: usize,
    /// The element of all results that came closest to its bound.
    pub worst: Measured,
    /// The checks that failed.
    pub findings: Vec<Finding>,
}

impl Row {
    /// Whether nothing was wrong.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Runs every check in the scope; `each` hears of every check before it runs.
pub fn verify(executor: &dyn Executor, scope: &Scope, mut each: impl FnMut(&'static str, DType)) -> Vec<Row> {
    let mut rows = Vec::new();
    for &kernel in &scope.kernels {
        let checks = checks(kernel).expect("a scope has known kernels alone");
        let choices = scope.choices(kernel);
        let wanted = || checks.iter().flat_map(|check| choices.iter().map(move |&choice| (check, choice)));
        for &dtype in &scope.dtypes {
            let cases = wanted().count();
            let mut row = Row { kernel, dtype, cases, worst: Measured::default(), findings: Vec::new() };
            for (check, choice) in wanted() {
                each(kernel, dtype);
                let described = |check: &Check, choice| match choices.len() {
                    1 => check.to_string(),
                    _ => format!("{check}, {choice:?}"),
                };
                log::trace!("{}, {dtype}", described(check, choice));
                match run(&Choosing::new(executor, choice), check, dtype) {
                    Ok(measured) => row.worst = row.worst.worst(measured),
                    Err(failure) => {
                        if let Failure::Wrong { error, bound, .. } = failure {
                            row.worst = row.worst.worst(Measured { error, bound });
                        }
                        let finding = Finding { check: described(check, choice), dtype, failure };
                        log::debug!("{finding}");
                        row.findings.push(finding);
                    }
                }
            }
            rows.push(row);
        }
    }
    rows
}
