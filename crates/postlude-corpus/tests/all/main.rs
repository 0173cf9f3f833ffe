//! The corpus and the random kernels held against the reference, in one program, which is built and linked once.

mod bounds;
mod coverage;
mod fuzz;
mod launches;
mod mutations;
mod picks;
mod variations;
