//! The simulator's tests in one program, which is built and linked once: `cargo test -p postlude-sim --test all zoo_order`
//! runs one module of them.

mod bound;
mod broken;
mod damaged;
mod diagnoses;
mod instructions;
mod kernels;
mod limits;
mod meters;
mod observers;
mod ping_pong;
mod plain;
mod products;
mod speed;
mod timeline;
mod transposed;
mod zoo;
mod zoo_lanes;
mod zoo_order;
