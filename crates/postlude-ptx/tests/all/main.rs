//! The tests of PTX as typed data in one program, which is built and linked once.

mod checks;
mod foreign;
mod forms;
mod mainloop;
mod ptxas;
mod rings;
