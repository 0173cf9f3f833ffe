//! PTX as typed data: built, checked, printed and read. No matrix products, no driver.

pub mod address;
pub mod check;
pub mod entry;
pub mod inst;
pub mod kernel;
pub mod launch;
pub mod modifier;
pub mod operand;
pub mod ring;
pub mod shared;
pub mod target;
pub mod text;
pub mod types;
