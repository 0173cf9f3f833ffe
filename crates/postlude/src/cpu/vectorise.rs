//! One loop, compiled for each set of vector instructions, the best one picked when it runs.

use crate::functions::Level;

/// A loop. Its `run` must be `inline(always)`, so that it takes on the instructions of whoever calls it.
pub(crate) trait Loop {
    /// Runs it.
    fn run(self);
}

/// Runs a loop with the best instructions this processor has.
pub(crate) fn vectorised<L: Loop>(task: L) {
    match Level::best() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Level::best` gives only what the processor has.
        Level::Avx512 => unsafe { run_avx512(task) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { run_avx2(task) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx512 | Level::Avx2 => task.run(),
        Level::Portable => task.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn run_avx512<L: Loop>(task: L) {
    task.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<L: Loop>(task: L) {
    task.run();
}

/// Each element from one of `a`.
pub(crate) struct Map<'a, A, R, F>(pub(crate) &'a [A], pub(crate) &'a mut [R], pub(crate) F);
/// Each element from one of `a` and one of `b`; a single one stands for all.
pub(crate) struct Zip<'a, A, B, R, F>(
    pub(crate) &'a [A],
    pub(crate) &'a [B],
    pub(crate) &'a mut [R],
    pub(crate) F,
);
/// Each element from one of three; a single one stands for all.
pub(crate) struct Zip3<'a, A, B, C, R, F>(
    pub(crate) &'a [A],
    pub(crate) &'a [B],
    pub(crate) &'a [C],
    pub(crate) &'a mut [R],
    pub(crate) F,
);

impl<A: Copy, R, F: Fn(A) -> R> Loop for Map<'_, A, R, F> {
    #[inline(always)]
    fn run(self) {
        let Map(a, out, f) = self;
        if a.len() == out.len() {
            for (out, a) in out.iter_mut().zip(a) {
                *out = f(*a);
            }
        } else {
            let a = a[0];
            for out in out {
                *out = f(a);
            }
        }
    }
}

impl<A: Copy, B: Copy, R, F: Fn(A, B) -> R> Loop for Zip<'_, A, B, R, F> {
    #[inline(always)]
    fn run(self) {
        let Zip(a, b, out, f) = self;
        let len = out.len();
        match (a.len() == len, b.len() == len) {
            (true, true) => {
                for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                    *out = f(*a, *b);
                }
            }
            (true, false) => {
                let b = b[0];
                for (out, a) in out.iter_mut().zip(a) {
                    *out = f(*a, b);
                }
            }
            (false, true) => {
                let a = a[0];
                for (out, b) in out.iter_mut().zip(b) {
                    *out = f(a, *b);
                }
            }
            (false, false) => {
                let (a, b) = (a[0], b[0]);
                for out in out {
                    *out = f(a, b);
                }
            }
        }
    }
}

impl<A: Copy, B: Copy, C: Copy, R, F: Fn(A, B, C) -> R> Loop for Zip3<'_, A, B, C, R, F> {
    #[inline(always)]
    fn run(self) {
        let Zip3(a, b, c, out, f) = self;
        let len = out.len();
        match (a.len() == len, b.len() == len, c.len() == len) {
            (true, true, true) => {
                for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                    *out = f(*a, *b, *c);
                }
            }
            (true, false, true) => {
                let b = b[0];
                for ((out, a), c) in out.iter_mut().zip(a).zip(c) {
                    *out = f(*a, b, *c);
                }
            }
            (true, true, false) => {
                let c = c[0];
                for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                    *out = f(*a, *b, c);
                }
            }
            (true, false, false) => {
                let (b, c) = (b[0], c[0]);
                for (out, a) in out.iter_mut().zip(a) {
                    *out = f(*a, b, c);
                }
            }
            (false, ..) => {
                let a = a[0];
                Zip(b, c, out, |b, c| f(a, b, c)).run();
            }
        }
    }
}
