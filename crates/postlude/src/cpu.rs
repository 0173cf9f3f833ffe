//! The CPU backend.
//!
//! In: a graph, a schedule and arguments. Out: every output, in one pass over the product: each region is finished while
//! it is hot in cache, reductions are put together in one order, and a finished reduction that meets the tile again costs
//! one more sweep.

pub(crate) mod blocks;
mod buffer;
mod columns;
mod decode;
mod elementwise;
mod engine;
mod leaves;
pub(crate) mod microkernel;
mod outputs;
pub(crate) mod pack;
mod partial;
pub(crate) mod product;
mod program;
mod rows;
mod storage;
mod sweep;
mod tile;
mod transpose;
mod vector;
mod vectorise;

pub use engine::Engine;
