//! The CPU backend.
//!
//! In: operands in memory. Out: the product, region by region, while each is hot in cache.

pub(crate) mod blocks;
mod decode;
pub(crate) mod microkernel;
pub(crate) mod pack;
pub(crate) mod product;
mod storage;
mod tile;
mod vector;
