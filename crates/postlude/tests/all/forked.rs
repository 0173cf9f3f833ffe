//! After `fork`: a child has its parent's kernels, locks and thread pools, and none of the threads. It computes the same to
//! the bit, or says why not, and never waits.
//!
//! Children are forked while other threads of the parent compile, prepare and run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postlude::reference::Extent;
use postlude::{Arguments, Compiled, Kernel, Options, Problem, Sizes, Tensor};

mod system {
    use std::ffi::c_int;

    unsafe extern "C" {
        pub(super) safe fn fork() -> c_int;
        pub(super) safe fn _exit(status: c_int) -> !;
        pub(super) safe fn kill(process: c_int, signal: c_int) -> c_int;
        pub(super) unsafe fn waitpid(process: c_int, status: *mut c_int, flags: c_int) -> c_int;
    }

    /// What a process ended with, if it has ended.
    pub(super) fn ended(process: c_int) -> Option<c_int> {
        const NO_HANG: c_int = 1;
        let mut status = 0;
        // SAFETY: writes one int.
        let found = unsafe { waitpid(process, &raw mut status, NO_HANG) };
        (found == process).then_some(status)
    }
}

/// Longer than any child takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs work in a forked child, which has to end well and soon.
fn in_child(work: impl FnOnce()) {
    let child = system::fork();
    if child == 0 {
        let done = catch_unwind(AssertUnwindSafe(work));
        system::_exit(i32::from(done.is_err()));
    }
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = system::ended(child) {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            system::kill(child, 9);
            panic!("a forked child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(status, 0, "a forked child failed");
}

const TEXT: &str =
    "kernel linear(A: f32[M, K], W: f32[N, K], b: f32[N]) -> (D: f32[M, N], peak: f32[]) {
    D = gelu(A @ W.T + b)
    peak = absmax(D)
}";

/// Large enough that threads share the work.
const SIZES: [(&str, usize); 3] = [("M", 160), ("N", 128), ("K", 96)];

struct Case {
    compiled: Compiled,
    problem: Problem,
    arguments: Arguments<'static>,
}

impl Case {
    fn new() -> Case {
        let threads = Some(4);
        let kernel = Kernel::parse(TEXT).unwrap();
        let compiled = kernel.compile(&Options { threads, ..Options::default() });
        let sizes: Sizes = SIZES.map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = compiled.problem(&sizes).unwrap();
        let inputs = compiled.defined().inputs().iter().map(|input| {
            let shape = problem.shape(input.dims.as_deref().unwrap());
            let count: usize = shape.iter().product();
            let values: Vec<f64> = (0..count).map(|at| (at % 13) as f64 / 8.0 - 0.75).collect();
            let tensor = Tensor::from_values(input.dtype, shape, &values).unwrap();
            (input.name.clone(), tensor.into())
        });
        let arguments = inputs.collect();
        Case { compiled, problem, arguments }
    }

    fn run(&self) -> Vec<Tensor> {
        let mut outputs = self.compiled.outputs(&self.problem).unwrap();
        self.compiled.run_into(&self.problem, &self.arguments, &mut outputs).unwrap();
        outputs
    }

    fn check(&self, outputs: &[Tensor]) {
        let Case { compiled, problem, arguments } = self;
        let found = compiled.check_extent(problem, arguments, outputs, Extent::Sample, &|_, _| {});
        assert!(found.unwrap().iter().all(|output| output.wrong == 0));
    }
}

#[test]
fn a_forked_child_computes_what_its_parent_computes() {
    let case = Case::new();
    let expected = case.run();
    case.check(&expected);
    for _ in 0..20 {
        in_child(|| {
            assert!(case.run() == expected, "prepared by the parent");
            assert!(Case::new().run() == expected, "compiled in the child");
            case.check(&expected);
        });
    }
}

#[test]
fn a_child_that_is_forked_while_threads_call_does_not_wait_for_them() {
    let case = Case::new();
    let expected = case.run();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..3 {
            let (case, expected, over) = (&case, &expected, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    // Calls alone, and all that comes before a first call.
                    let fresh = (number == 0).then(Case::new);
                    assert!(fresh.as_ref().unwrap_or(case).run() == *expected);
                    if number == 1 {
                        case.compiled
                            .launches(&case.problem, postlude::target::Chip::STANDARD)
                            .ok();
                    }
                }
            });
        }
        let children = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..30 {
                in_child(|| {
                    assert!(case.run() == expected);
                    assert!(Case::new().run() == expected);
                });
            }
        }));
        over.store(true, Ordering::Relaxed);
        assert!(children.is_ok(), "a child failed");
    });
}
