//! What a launch may ask for: the limits of the chip, of tensor maps and of the simulator itself.
//!
//! In: a program, a launch and the sizes of its buffers. Out: nothing, or an error that names the limit. Invariant: what
//! passes needs no more memory than its buffers, its scratch memory and the CTAs that are resident at a time.

use postlude_ptx::launch::{Launch, Parameter, Swizzle, TensorMap};

use crate::error::SimError;
use crate::memory::MOST_BUFFER_BYTES;
use crate::program::Program;

/// Shared memory that a CTA of compute capability 9.0 can have (CUDA C++ Programming Guide, "Technical Specifications per
/// Compute Capability").
const MOST_SHARED: u64 = 227 * 1024;
/// Shared memory that a text may declare with a size.
const MOST_STATIC_SHARED: u64 = 48 * 1024;
/// CTAs along y and z.
const MOST_ACROSS: u32 = 65_535;
/// CTAs of a grid that a simulation comes to the end of.
const MOST_CTAS: u32 = 1 << 24;

/// Whether the launch fits the program and the chip.
pub(crate) fn check(program: &Program, launch: &Launch, buffers: &[u64]) -> Result<(), SimError> {
    let refuse = |why| Err(SimError::Launch { why });
    let Launch { grid, cluster, threads, .. } = launch;
    let product =
        |sizes: &[u32; 3]| sizes.iter().try_fold(1_u32, |product, size| product.checked_mul(*size));
    if !product(grid).is_some_and(|count| (1..=MOST_CTAS).contains(&count)) {
        return refuse("has no CTAs, or more than 16777216");
    }
    if grid[1] > MOST_ACROSS || grid[2] > MOST_ACROSS {
        return refuse("has more than 65535 CTAs along y or z");
    }
    if !product(cluster).is_some_and(|count| (1..=16).contains(&count))
        || grid.iter().zip(cluster).any(|(grid, cluster)| !grid.is_multiple_of(*cluster))
    {
        return refuse("has a grid that is no multiple of its cluster");
    }
    if program.head.cluster.is_some_and(|declared| declared != *cluster) {
        return refuse("has another cluster than the text");
    }
    if !(1..=1024).contains(threads) || program.head.threads.is_some_and(|most| *threads > most) {
        return refuse("has no threads, or more than the text allows");
    }
    check_memory(launch, buffers)?;
    for (parameter, given) in launch.parameters.iter().enumerate() {
        match given {
            Parameter::Map(map) => {
                check_map(map).map_err(|why| SimError::TensorMap { parameter, why })?;
            }
            Parameter::Pointer { .. }
            | Parameter::U32(_)
            | Parameter::U64(_)
            | Parameter::F32(_) => {}
        }
    }
    Ok(())
}

/// Whether buffers and scratch memory have addresses of their own.
fn check_memory(launch: &Launch, buffers: &[u64]) -> Result<(), SimError> {
    let most = MOST_BUFFER_BYTES;
    let largest = buffers.iter().copied().max().unwrap_or(0);
    for (what, bytes) in [("a buffer", largest), ("the scratch memory", launch.workspace_bytes)] {
        if bytes > most {
            return Err(SimError::Memory { what, bytes, most });
        }
    }
    Ok(())
}

/// Whether shared memory fits: `fixed` bytes that the text declares, and all with what the launch adds.
pub(crate) fn check_shared(fixed: u64, all: u64) -> Result<(), SimError> {
    for (asked, most) in [(fixed, MOST_STATIC_SHARED), (all, MOST_SHARED)] {
        if asked > most {
            return Err(SimError::SharedMemory { asked, most });
        }
    }
    Ok(())
}

/// This many zero bytes, if this machine has room for them.
pub(crate) fn zeros(what: &'static str, bytes: u64) -> Result<Vec<u8>, SimError> {
    let refused = || SimError::Memory { what, bytes, most: MOST_BUFFER_BYTES };
    let count = usize::try_from(bytes).map_err(|_| refused())?;
    let mut held = Vec::new();
    held.try_reserve_exact(count).map_err(|_| refused())?;
    held.resize(count, 0);
    Ok(held)
}

/// What `cuTensorMapEncodeTiled` takes (CUDA Driver API, "Tensor Map Object Management"), of sizes that a simulation can
/// have.
fn check_map(map: &TensorMap) -> Result<(), &'static str> {
    let dims = map.sizes.len();
    let element = u64::from(map.element.bytes());
    let span = match map.swizzle {
        Swizzle::None => u64::MAX,
        Swizzle::B32 => 32,
        Swizzle::B64 => 64,
        Swizzle::B128 => 128,
    };
    let must = |holds: bool, why| if holds { Ok(()) } else { Err(why) };
    must((1..=5).contains(&dims), "a tensor has 1 to 5 dims")?;
    must(map.strides.len() + 1 == dims, "it has a stride for each dim but the innermost")?;
    must(map.box_sizes.len() == dims, "its box has as many dims as the tensor")?;
    must(map.sizes.iter().all(|size| (1..1 << 31).contains(size)), "a dim has 1 to 2^31 elements")?;
    let sides = &map.box_sizes;
    must(sides.iter().all(|size| (1..=256).contains(size)), "a box has 1 to 256 elements a dim")?;
    let inner = u64::from(sides[0]) * element;
    must(inner.is_multiple_of(16), "rows of a box are multiples of 16 bytes")?;
    must(inner <= span, "rows of a box are no longer than the span of its swizzle")?;
    let bytes = sides.iter().map(|size| u64::from(*size)).product::<u64>() * element;
    must(bytes <= MOST_SHARED, "a box fits into shared memory")?;
    let strides = &map.strides;
    must(
        strides.iter().all(|stride| stride.is_multiple_of(16)),
        "strides are multiples of 16 bytes",
    )?;
    must(strides.iter().all(|stride| *stride < 1 << 40), "strides are less than 2^40 bytes")?;
    let fits = strides.iter().zip(&map.sizes[1..]).all(|(stride, size)| stride * size <= 1 << 48);
    must(fits, "the tensor has less than 2^48 bytes")?;
    must(map.offset % 16 == 0, "its address is a multiple of 16 bytes")?;
    must((-16..1 << 48).contains(&map.offset), "its offset is 0 to 2^48 bytes")
}
