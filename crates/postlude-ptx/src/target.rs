//! Targets and what each has.
//!
//! A capability is a trait; an instruction is a method where the capability is implemented, so that the wrong target
//! is a type error. Values of [`Target`] carry the same facts to code that decides at run time.

use std::fmt;

/// Facts of a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// As in `.target`.
    pub name: &'static str,
    /// The oldest PTX version with all that we use, as in `.version`.
    pub version: (u32, u32),
    /// Dynamic shared memory that one CTA may ask for, in bytes.
    pub shared_limit: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers: u32,
    /// Named barriers of a CTA.
    pub named_barriers: u32,
    /// CTAs of a portable cluster; 1 without clusters.
    pub cluster_limit: u32,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A target as a Rust type.
pub trait Architecture: Copy + 'static {
    /// Its facts.
    const TARGET: Target;
}
/// Has `cp.async`, `ldmatrix` and `mma.sync`.
pub trait CpAsync: Architecture {}
/// Has clusters of CTAs and each other's shared memory.
pub trait Clusters: CpAsync {}
/// Has bulk tensor copies, transaction barriers and `stmatrix`.
pub trait Tma: Clusters {}
/// Has `setmaxnreg`.
pub trait RegisterReallocation: Architecture {}
/// Has warpgroup matrix products.
pub trait Wgmma: Tma + RegisterReallocation {}
/// Has tensor memory.
pub trait Tcgen05: Tma + RegisterReallocation {}
/// Has conversions between `f32` and 8-bit floats.
pub trait Float8: Architecture {}

macro_rules! targets {
    ($($(#[$doc:meta])* $name:ident $facts:expr => $($capability:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {}
        impl Architecture for $name {
            const TARGET: Target = $facts;
        }
        $(impl $capability for $name {})*
    )*};
}

targets! {
    /// Ampere: A100.
    Sm80 Target { name: "sm_80", version: (8, 3), shared_limit: 166_912, registers: 65_536, named_barriers: 16, cluster_limit: 1 }
        => CpAsync;
    /// Hopper: H100, H200.
    Sm90a Target { name: "sm_90a", version: (8, 3), shared_limit: 232_448, registers: 65_536, named_barriers: 16, cluster_limit: 8 }
        => CpAsync Clusters Tma RegisterReallocation Wgmma Float8;
    /// Blackwell: B200.
    Sm100a Target { name: "sm_100a", version: (8, 6), shared_limit: 232_448, registers: 65_536, named_barriers: 16, cluster_limit: 8 }
        => CpAsync Clusters Tma RegisterReallocation Tcgen05 Float8;
}
