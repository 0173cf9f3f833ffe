//! The yardstick as a library for other languages, so that kernels from there run in the same rounds as ours.
//!
//! In: a request as JSON, and functions that prepare and queue peers ([`abi`]). Out: the yardstick's report as a file, and
//! its rows as text. `bench/gpu/peers.py` brings PyTorch.
//!
//! Invariant: no panic leaves the library, and foreign functions are called on the thread that called it.

#![deny(unsafe_code)]
// Text is put together line by line.
#![allow(clippy::format_push_string)]

pub mod abi;
mod request;
mod run;
mod text;
