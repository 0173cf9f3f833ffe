//! How fast the product is: run by hand, in release, with `--ignored --nocapture`.
#![allow(clippy::print_stderr, reason = "the measurement is the result")]

use super::*;
use crate::dtype::DType;
use std::time::Instant;

/// Best of `times`, in 10^9 multiplications and additions a second, B lying as K by N.
fn measure<T: Accumulator>(
    dtype: DType,
    [m, n, k]: [usize; 3],
    regions: Regions,
    times: usize,
) -> f64 {
    // A normal number of about 1 or less in every type.
    let (a, b) = (vec![0x3c; dtype.bytes_for(m * k)], vec![0x3c; dtype.bytes_for(n * k)]);
    let a = Operand { dtype, bytes: &a, offset: 0, row_stride: k as isize, column_stride: 1 };
    let b = Operand { dtype, bytes: &b, offset: 0, row_stride: 1, column_stride: n as isize };
    let product = Product::new(a, b, [m, n, k]).unwrap();
    let mut scratch = Scratch::<T>::new();
    let mut best = f64::MAX;
    for _ in 0..times {
        let start = Instant::now();
        for_each_region(&product, regions, &mut scratch, |_, accumulators| {
            std::hint::black_box(accumulators);
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    2.0 * (m * n * k) as f64 / best / 1e9
}

#[test]
#[ignore = "measures"]
fn speed_of_the_product() {
    let all = usize::MAX;
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for extents in [[2048, 2048, 2048], [4096, 4096, 512], [16, 4096, 4096], [64, 64, 64]] {
            for (height, width) in [(all, all), (1, all), (64, all), (128, 128), (256, 512)] {
                let regions = Regions { height, width };
                let speed = pool.install(|| measure::<f32>(DType::F32, extents, regions, 8));
                let region = (height.min(extents[0]), width.min(extents[1]));
                eprintln!("{threads} threads, {extents:?} in {region:?}: {speed:.1} GFLOP/s");
            }
        }
        for dtype in [DType::F16, DType::BF16, DType::F8E4M3] {
            let regions = Regions { height: 128, width: all };
            let speed = pool.install(|| measure::<f32>(dtype, [2048; 3], regions, 4));
            eprintln!("{threads} threads, {dtype}: {speed:.1} GFLOP/s");
        }
        let regions = Regions { height: 128, width: all };
        let speed = pool.install(|| measure::<i32>(DType::I8, [2048; 3], regions, 4));
        eprintln!("{threads} threads, i8: {speed:.1} Gop/s");
    }
}
