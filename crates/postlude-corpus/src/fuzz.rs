//! Random kernels against the reference, on any engine.
//!
//! In: a seed. Out: a [`Specimen`], which is a well-typed kernel as text with sizes, data and places in memory, the same
//! for the same seed; [`judge`] runs one and compares every element with what the reference allows, and [`shrink`] makes
//! one that fails smaller.

mod campaign;
mod definitions;
mod draw;
mod features;
mod judge;
mod named;
mod place;
mod program;
mod shrink;
mod sketch;
mod specimen;
mod tally;
mod tile;
mod workers;

pub use campaign::{Campaign, End, Found, News, Summary};
pub use draw::{Extent, Sort, draw, graph_seed};
pub use features::{FREQUENT, features, wanted};
pub use judge::{Engine, Kind, Until, Verdict, Wrong, judge};
pub use place::Place;
pub use program::Program;
pub use shrink::shrink;
pub use sketch::Sketch;
pub use specimen::{Drawn, Specimen, Way};
pub use tally::Tally;
pub use workers::run;
