//! A file of answers, whatever is in it, is read, and never gives a convolution an algorithm that does not fit. An answer
//! that does fit is taken.

use std::sync::LazyLock;

use cotangent::autotune::{GpuModel, sealed, text_of};
use cotangent::launch::Target;
use cotangent::{
    Algorithm, Autotune, Conv2dBackward, Conv2dBackwardDw, Conv2dForward, Kernel, LaunchOptions, Workspace,
};
use half::{bf16, f16};

use super::draws::Draws;
use crate::suite::nowhere;

/// A call that a file may have an answer for.
struct Problem {
    /// What its lines begin with.
    text: String,
    /// The algorithms that fit it.
    fits: Vec<Algorithm>,
    answer: Box<dyn Fn(&Autotune) -> Algorithm + Send + Sync>,
}

static PROBLEMS: LazyLock<Vec<Problem>> = LazyLock::new(|| {
    let all = LaunchOptions::new();
    let little = all.workspace(Workspace { address: 1 << 50, bytes: 1024 });
    let (x, w, y) = (nowhere(1), nowhere(2), nowhere(3));
    let plain = Conv2dForward::<f32>::new(3, 3, 1, 1, 1, 1, 1, 128);
    let args = (x, w, y, 2, 32, 32, 14, 14, 14, 14);
    let pointwise = Conv2dForward::<bf16>::new(1, 1, 1, 1, 0, 0, 1, 128);
    let of = |offset: usize| {
        let from = nowhere::<bf16>(1).wrapping_add(offset);
        (from, nowhere(2), nowhere(3), 2, 64, 32, 8, 8, 8, 8)
    };
    let depthwise = Conv2dBackwardDw::<f16>::new(3, 3, 1, 1, 1, 1, 32, 128);
    let stem = Conv2dBackward::<f32>::new(5, 5, 2, 2, 2, 2, 1, 128);
    let both = (nowhere(1), nowhere(2), nowhere(3), nowhere(4), nowhere(5), 4, 3, 32, 32, 32, 16, 16);
    let integers = Conv2dForward::<i32>::new(3, 3, 1, 1, 1, 1, 1, 128);
    vec![
        problem(plain.clone(), args, all),
        problem(plain, args, little),
        problem(pointwise.clone(), of(0), all),
        problem(pointwise, of(1), all),
        problem(depthwise, (nowhere(1), nowhere(2), nowhere(3), 2, 32, 32, 9, 9, 9, 9), all),
        problem(stem, both, all),
        problem(integers, (nowhere(1), nowhere(2), nowhere(3), 1, 2, 2, 5, 5, 5, 5), all),
    ]
});

/// Arguments are addresses of nothing, and numbers.
struct Sent<A>(A);

// SAFETY: nobody follows the addresses.
unsafe impl<A> Send for Sent<A> {}
// SAFETY: as above.
unsafe impl<A> Sync for Sent<A> {}

impl<A> Sent<A> {
    /// A method, so that closures take the whole and not the field.
    fn get(&self) -> &A {
        &self.0
    }
}

fn problem<K: Kernel + Send + Sync + 'static>(
    kernel: K,
    args: K::Args<'static>,
    options: LaunchOptions<'static>,
) -> Problem {
    let target = Target { capability: (9, 0), multiprocessors: 132 };
    let model = GpuModel { name: "a GPU".to_owned(), target, driver: (13, 0) };
    let text = text_of(&model, &kernel, &args, &options).expect("a good call").expect("a choice");
    let fits = |algorithm: &Algorithm| {
        let options = options.algorithm(*algorithm);
        let bytes = kernel.workspace_bytes(&args, &options, &target).expect("a good call");
        let workspace = options.workspace.unwrap_or(Workspace { address: 1 << 50, bytes });
        kernel.plan(&args, &options.workspace(workspace), &target).is_ok()
    };
    let fits = Algorithm::ALL.into_iter().filter(fits).collect();
    let args = Sent(args);
    let answer = move |autotune: &Autotune| {
        autotune.answer(&model, &kernel, args.get(), &options).expect("a good call")
    };
    Problem { text, fits, answer: Box::new(answer) }
}

pub(super) fn check(data: &[u8]) {
    let mut draws = Draws::new(data);
    let raw = draws.once_in(2);
    let mut file = Vec::new();
    let mut named = vec![Algorithm::Auto; PROBLEMS.len()];
    while draws.once_in(2) {
        let number = draws.below(PROBLEMS.len());
        let algorithm = draws.of(&Algorithm::ALL);
        let line = format!("{}\talgorithm={}", PROBLEMS[number].text, algorithm.name());
        let mut changed = line.clone();
        if draws.once_in(4) {
            // Something else in the text or the name, whose sum is right.
            let at = draws.below(line.len());
            let with = char::from(draws.any::<u8>() % 128);
            changed.replace_range(at..=at, with.encode_utf8(&mut [0; 4]));
        }
        let mut sealed = sealed(&changed).into_bytes();
        let mut whole = changed == line;
        if draws.once_in(4) {
            // Cut short or spoilt, as what a crash or a disk leaves.
            let at = draws.below(sealed.len());
            sealed.truncate(at);
            whole = false;
        }
        file.extend_from_slice(&sealed);
        file.push(b'\n');
        if whole {
            named[number] = algorithm;
        }
    }
    if raw {
        file.extend_from_slice(draws.rest());
    }
    let autotune = Autotune::from_bytes(&file);
    for (problem, named) in PROBLEMS.iter().zip(named) {
        let answer = (problem.answer)(&autotune);
        assert!(problem.fits.contains(&answer), "{answer:?} does not fit {}", problem.text);
        if !raw {
            let expected = if problem.fits.contains(&named) { named } else { Algorithm::Auto };
            assert_eq!(answer, expected, "{}", problem.text);
        }
    }
}
