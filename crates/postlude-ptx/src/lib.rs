//! PTX as typed data: built, checked, printed and read. No matrix products, no driver.

pub mod launch;
