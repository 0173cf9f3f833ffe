//! Runs a PTX program on the CPU and says what is wrong with it.
//!
//! In: the text that the driver would get, and the facts of its launch. Out: what it wrote, findings, and meters.

#![forbid(unsafe_code)]

pub mod numerics;
