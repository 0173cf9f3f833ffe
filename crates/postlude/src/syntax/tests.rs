//! The text front end as a whole.

mod errors;
mod grammar;
mod robust;
mod round_trip;
