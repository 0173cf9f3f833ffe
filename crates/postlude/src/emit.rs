//! Turns a graph and a schedule into a program.
//!
//! In: an optimised graph and a schedule that planning made for it. Out: PTX as data, and the facts of a launch.
//! Invariant: emitting cannot fail; whatever could be refused was refused by planning.

pub mod sm90;
