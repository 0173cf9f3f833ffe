//! Sizes that language models call kernels with, and smaller ones that divide alike.
//!
//! In: the dims of a kernel. Out: the sizes of its calls, from a table by the names of dims.

use std::collections::BTreeSet;

use postlude::Sizes;

/// Dims whose sizes go together, and those sizes, each list in the order of the dims.
struct Axis {
    dims: &'static [&'static str],
    sizes: &'static [&'static [usize]],
}

const fn axis(dims: &'static [&'static str], sizes: &'static [&'static [usize]]) -> Axis {
    Axis { dims, sizes }
}

/// Tokens of a decoding step, and of a prefill.
const TOKENS: Axis = axis(&["M"], &[&[1], &[8], &[16], &[64], &[128], &[512], &[2048], &[8192]]);
/// Linear layers: projections, gates, heads of a vocabulary, routers, and a head of odd size.
const LAYERS: Axis = axis(
    &["N", "K"],
    &[
        &[1024, 4096],
        &[4096, 4096],
        &[6144, 4096],
        &[28672, 4096],
        &[4096, 14336],
        &[2048, 7168],
        &[32000, 4096],
        &[50257, 768],
        &[128256, 4096],
        &[151936, 3584],
        &[8, 4096],
        &[64, 2048],
        &[256, 7168],
    ],
);

/// Families of calls: every size of one axis with every size of the others. A kernel takes the first family that has all of
/// its dims.
const FAMILIES: &[&[Axis]] = &[
    &[
        axis(&["M"], &[&[1], &[64], &[512], &[8192]]),
        axis(&["N"], &[&[768], &[1024], &[2048], &[4096], &[5120], &[8192], &[16384], &[50257]]),
    ],
    &[axis(&["M"], &[&[64], &[1024], &[4096]]), axis(&["K"], &[&[64], &[768], &[4096]])],
    &[TOKENS, LAYERS],
    &[
        TOKENS,
        axis(&["K", "F", "N"], &[&[768, 3072, 768], &[2048, 5632, 2048], &[4096, 14336, 4096]]),
    ],
    &[
        TOKENS,
        axis(&["N", "K"], &[&[4096, 4096], &[14336, 4096], &[4096, 14336]]),
        axis(&["R"], &[&[8], &[16], &[64]]),
    ],
    &[
        TOKENS,
        axis(
            &["Q", "KV", "N", "K"],
            &[&[4096, 1024, 6144, 4096], &[2048, 256, 2560, 2048], &[8192, 1024, 10240, 8192]],
        ),
    ],
    &[
        axis(
            &["L", "M", "N"],
            &[&[32, 1, 4096], &[32, 128, 128], &[32, 2048, 2048], &[8, 512, 4096], &[64, 16, 512]],
        ),
        axis(&["K", "E"], &[&[64, 64], &[128, 128], &[4096, 128]]),
    ],
    &[
        axis(&["B", "G", "H"], &[&[2, 8, 4], &[1, 8, 8]]),
        axis(&["M", "N"], &[&[1, 4096], &[128, 2048], &[2048, 2048]]),
        axis(&["K"], &[&[64], &[128]]),
    ],
    &[axis(&["T", "H"], &[&[1, 16], &[400, 1024]])],
    &[
        axis(
            &["T", "S", "C"],
            &[&[16, 8, 16], &[128, 64, 128], &[2048, 1024, 512], &[16384, 8192, 1024]],
        ),
        axis(&["E"], &[&[8], &[64], &[256]]),
        axis(
            &["N", "K", "F"],
            &[
                &[4096, 4096, 28672],
                &[28672, 4096, 28672],
                &[4096, 14336, 28672],
                &[7168, 7168, 4096],
                &[4096, 7168, 2816],
            ],
        ),
    ],
];

/// The sizes of all calls of a kernel with these dims.
pub(crate) fn of_dims(dims: &[&str]) -> Vec<Sizes> {
    let has = |family: &&&[Axis], dim: &&str| family.iter().any(|axis| axis.dims.contains(dim));
    let family = FAMILIES.iter().find(|family| dims.iter().all(|dim| has(family, dim)));
    let family = family.unwrap_or_else(|| panic!("no family of sizes has all of {dims:?}"));
    let mut all = BTreeSet::from([Sizes::new()]);
    for axis in *family {
        let more = all.iter().flat_map(|sizes| {
            axis.sizes.iter().map(|own| {
                let own = axis.dims.iter().zip(*own).filter(|(dim, _)| dims.contains(*dim));
                let own = own.map(|(dim, size)| ((*dim).to_owned(), *size));
                sizes.iter().map(|(dim, size)| (dim.clone(), *size)).chain(own).collect()
            })
        });
        all = more.collect();
    }
    all.into_iter().collect()
}

/// What is left of a size beyond multiples of this is left of smaller ones.
const GRAIN: usize = 128;
/// Smaller sizes, before what is left of the size beyond whole grains.
const SMALLER: &[usize] = &[4, 16, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192];
/// Sizes of dims that count batches, heads or experts.
const COUNTS: &[&str] = &["B", "E", "G", "H", "L"];

/// Sizes to run a call at that has this size along a dim, the smallest first, the size itself last.
pub(crate) fn smaller(dim: &str, size: usize) -> Vec<usize> {
    let of = |least: &usize| least + size % GRAIN;
    let smaller: Vec<usize> = match dim {
        _ if COUNTS.contains(&dim) && size <= 256 => vec![3],
        _ => SMALLER.iter().map(of).collect(),
    };
    smaller.into_iter().filter(|own| *own < size).chain([size]).collect()
}

#[test]
fn smaller_sizes_divide_as_the_size_does() {
    assert_eq!(smaller("M", 64), [64]);
    assert_eq!(smaller("E", 64), [3, 64]);
    let all = smaller("N", 50257);
    assert_eq!((all[0], all.len()), (85, SMALLER.len() + 1));
    assert!(all.iter().all(|own| own % 4 == 50257 % 4));
}
