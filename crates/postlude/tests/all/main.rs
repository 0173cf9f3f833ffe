//! The library's tests that need no GPU in one program, which is built and linked once: `cargo test -p postlude --test all
//! layering` runs one module of them. Tests for a GPU are programs of their own, for `cargo xtask gpu` carries them.

mod batches;
mod define;
mod docs;
#[cfg(unix)]
mod forked;
mod functions;
mod gradients;
mod grouped;
mod int64;
mod layering;
mod library;
mod lists;
mod messages;
mod no_product;
mod operand_types;
mod planner;
mod refused;
mod resources;
mod row_copies;
mod simulated;
mod sizes;
mod slices;
mod workspace;
