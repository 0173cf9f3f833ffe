//! The yardstick's own parts on a GPU: random numbers, sleeps, products alone, cuBLASLt.
//!
//! On a machine without a driver or a Hopper GPU every test says so and passes.

#![allow(clippy::print_stderr)] // A test that is skipped says so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use postlude::runtime::{Device, DeviceBuffer, Event, Stream};
use postlude::{DType, MathMode, dtype};
use postlude_yardstick::YardstickError;
use postlude_yardstick::ceiling::Ceiling;
use postlude_yardstick::copy;
use postlude_yardstick::cublaslt::{Addresses, CublasLt, Epilogue, Request};
use postlude_yardstick::layout::{Contraction, Layout};
use postlude_yardstick::random::{self, Contents, Store};
use postlude_yardstick::rounds::{Competitor, Plan, Track};
use postlude_yardstick::sleep::Sleep;

/// Elements whose statistics are taken.
const COUNT: usize = 1 << 20;

/// The first GPU with a stream, and the right to use it alone.
fn device() -> Option<(Device, Stream, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let test = thread::current().name().unwrap_or("a test on a GPU").to_owned();
    match Device::open(0) {
        Ok(device) if device.capability() == (9, 0) => {
            let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            let stream = Stream::new(&device).unwrap();
            return Some((device, stream, alone));
        }
        Ok(device) => eprintln!("SKIPPED {test}: {device} is not sm_90"),
        Err(error) => eprintln!("SKIPPED {test}: {error}"),
    }
    None
}

fn values(buffer: &DeviceBuffer, dtype: DType, count: usize, stream: &Stream) -> Vec<f64> {
    let bytes = buffer.to_vec(stream).unwrap();
    (0..count).map(|place| dtype::load(dtype, &bytes, place)).collect()
}

/// Fills a buffer with random numbers.
fn fill(device: &Device, stream: &Stream, buffer: &DeviceBuffer, dtype: DType, seed: u32) {
    let store = Store::of(dtype).unwrap();
    random::fill(device, stream, buffer, store, Contents::Random, seed).unwrap();
}

fn drawn(device: &Device, stream: &Stream, dtype: DType, count: usize, seed: u32) -> DeviceBuffer {
    let buffer = device.allocate(dtype.bytes_for(count) as u64).unwrap();
    fill(device, stream, &buffer, dtype, seed);
    buffer
}

#[test]
fn gpu_random_numbers_are_normal_and_independent() {
    let Some((device, stream, _alone)) = device() else { return };
    let all = [1, 2].map(|seed| {
        let buffer = drawn(&device, &stream, DType::F32, COUNT, seed);
        values(&buffer, DType::F32, COUNT, &stream)
    });
    let count = COUNT as f64;
    // Six deviations of each statistic.
    let moment = |power: i32| all[0].iter().map(|x| x.powi(power)).sum::<f64>() / count;
    assert!(moment(1).abs() < 6.0 / count.sqrt(), "mean {}", moment(1));
    assert!((moment(2) - 1.0).abs() < 6.0 * (2.0 / count).sqrt() + 1e-3, "variance {}", moment(2));
    assert!((moment(4) - 3.0).abs() < 6.0 * (96.0 / count).sqrt() + 1e-2, "fourth {}", moment(4));
    let product = |shift: usize, other: usize| {
        let pairs = all[0].iter().zip(all[other].iter().cycle().skip(shift));
        pairs.map(|(a, b)| a * b).sum::<f64>() / count
    };
    for (shift, other) in [(1, 0), (2, 0), (64, 0), (0, 1), (1, 1)] {
        let found = product(shift, other);
        assert!(found.abs() < 6.0 / count.sqrt(), "shift {shift}, seed {other}: {found}");
    }
}

#[test]
fn gpu_random_numbers_are_the_same_in_every_dtype() {
    let Some((device, stream, _alone)) = device() else { return };
    let [single, narrow] = [DType::F32, DType::BF16]
        .map(|dtype| values(&drawn(&device, &stream, dtype, 4096, 9), dtype, 4096, &stream));
    assert_eq!(single, narrow);
}

#[test]
fn gpu_random_narrow_floats_are_normal_and_tf32_has_ten_bits() {
    let Some((device, stream, _alone)) = device() else { return };
    let count = COUNT as f64;
    for dtype in [DType::F8E4M3, DType::F8E5M2, DType::TF32] {
        let found = values(&drawn(&device, &stream, dtype, COUNT, 3), dtype, COUNT, &stream);
        let moment = |power: i32| found.iter().map(|x| x.powi(power)).sum::<f64>() / count;
        assert!(moment(1).abs() < 6.0 / count.sqrt(), "{dtype}: mean {}", moment(1));
        // Rounding to two bits of fraction adds about a hundredth.
        assert!((moment(2) - 1.0).abs() < 0.02, "{dtype}: variance {}", moment(2));
        let largest = found.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        assert!((4.0..6.5).contains(&largest), "{dtype}: {largest}");
    }
    let bits = drawn(&device, &stream, DType::TF32, 4096, 3).to_vec(&stream).unwrap();
    let bits: Vec<u32> =
        bits.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
    assert!(bits.iter().all(|bits| bits.trailing_zeros() >= 13));
    assert!(bits.iter().any(|bits| bits & 0x2000 != 0));
}

#[test]
fn gpu_random_integers_are_uniform_over_their_range() {
    let Some((device, stream, _alone)) = device() else { return };
    let bytes = drawn(&device, &stream, DType::I8, COUNT, 4).to_vec(&stream).unwrap();
    for (offset, step) in [(0, 1), (0, 2), (1, 2)] {
        let mut counts = [0usize; 256];
        bytes.iter().skip(offset).step_by(step).for_each(|byte| counts[usize::from(*byte)] += 1);
        let mean = (COUNT / step / 256) as f64;
        // Seven deviations of a count.
        let far = counts.iter().find(|count| (**count as f64 - mean).abs() > 7.0 * mean.sqrt());
        assert_eq!(far, None, "from {offset} by {step}, {mean} on the mean");
    }
}

#[test]
fn gpu_ones_are_ones_in_every_dtype() {
    let Some((device, stream, _alone)) = device() else { return };
    let floats = [DType::F16, DType::BF16, DType::F32, DType::TF32, DType::F8E4M3, DType::F8E5M2];
    for dtype in floats.into_iter().chain([DType::I8, DType::U8]) {
        let buffer = device.allocate(dtype.bytes_for(4096) as u64).unwrap();
        let store = Store::of(dtype).unwrap();
        random::fill(&device, &stream, &buffer, store, Contents::Ones, 5).unwrap();
        let found = values(&buffer, dtype, 4096, &stream);
        assert!(found.iter().all(|value| *value == 1.0), "{dtype}: {:?}", &found[..4]);
    }
}

#[test]
fn gpu_sleeps_last_about_as_long_as_they_say() {
    let Some((device, stream, _alone)) = device() else { return };
    let sleep = Sleep::new(&device).unwrap();
    let events = [(); 2].map(|()| Event::new(&device).unwrap());
    for wanted in [50_000, 1_000_000] {
        sleep.at_least(wanted, &stream).unwrap();
        events[0].record(&stream).unwrap();
        let length = sleep.at_least(wanted, &stream).unwrap();
        events[1].record(&stream).unwrap();
        stream.synchronize().unwrap();
        let slept = events[1].since(&events[0]).unwrap().as_nanos() as u64;
        assert!(slept + 2_000 >= length && slept < length + 200_000, "{slept} for {length}");
    }
}

#[test]
fn gpu_limits_are_those_of_a_hopper() {
    let Some((device, stream, _alone)) = device() else { return };
    let bytes = copy::bandwidth(&device, &stream).unwrap();
    assert!((1e12..6e12).contains(&bytes), "{bytes:e} bytes a second");
    let sleep = Sleep::new(&device).unwrap();
    eprintln!("{:.0} GB/s", bytes / 1e9);
    // By the bytes of an operand: a step of 8-bit operands has twice the products of one of 16 bits.
    for (dtype, factor) in [
        (DType::BF16, 1.0),
        (DType::TF32, 0.5),
        (DType::F8E4M3, 2.0),
        (DType::F8E5M2, 2.0),
        (DType::I8, 2.0),
        (DType::U8, 2.0),
    ] {
        let ceiling = Ceiling::new(&device, &stream, dtype).unwrap();
        let (launch, operations) = ceiling.launch(1e12).unwrap();
        let competitor = Competitor {
            name: "ceiling".to_owned(),
            operations,
            launches: 1,
            launch: Box::new(|_, stream| Ok(launch.launch(stream)?)),
        };
        let track = Track { device: &device, stream: &stream, sleep: &sleep, sets: 1 };
        let (warm_up, budget) = (std::time::Duration::ZERO, std::time::Duration::from_secs(1));
        let plan = Plan { warm_up, rounds: 20, fewest: 5, budget };
        let samples = track.run(&[competitor], &plan, 1).unwrap();
        let rate = samples.rate(0);
        eprintln!("{dtype}: {:.0} TFLOP/s, {} dropped", rate / 1e12, samples.dropped);
        assert!((3e14..1.1e15).contains(&(rate / factor)), "{dtype}: {rate:e} operations a second");
    }
}

/// A product for cuBLASLt with its memory, checked element by element in f64.
#[derive(Clone, Copy)]
struct Asked {
    layout: Layout,
    sizes: [usize; 3],
    dtype: DType,
}

impl Asked {
    /// `relu(0.5 * A @ W.T + 0.25 * C + bias)`, A and W in the layout asked for.
    fn check(&self, library: &CublasLt, device: &Device, stream: &Stream) {
        let (Asked { layout, dtype, .. }, [m, n, k]) = (*self, self.sizes);
        let bytes = |count: usize| (dtype.bytes_for(count) as u64).next_multiple_of(16);
        let [a, w, c, bias] = [(m * k, 1), (n * k, 2), (m * n, 3), (n, 4)].map(|(count, seed)| {
            let buffer = device.allocate(bytes(count)).unwrap();
            fill(device, stream, &buffer, dtype, seed);
            buffer
        });
        let d = device.allocate(bytes(m * n)).unwrap();
        let request = Request {
            layout,
            m,
            n,
            k,
            operands: dtype,
            result: dtype,
            math: MathMode::Default,
            epilogue: Epilogue::BiasRelu,
            alpha: 0.5,
            beta: 0.25,
            vector: bias.address(),
        };
        let matmul = library.matmul(&request).unwrap();
        let addresses = Addresses {
            left: a.address(),
            right: w.address(),
            addend: c.address(),
            result: d.address(),
            aux: 0,
        };
        let read = |buffer: &DeviceBuffer, count| values(buffer, dtype, count, stream);
        let (a, w, c) = (read(&a, m * k), read(&w, n * k), read(&c, m * n));
        let bias = read(&bias, n);
        let left = |row: usize, depth: usize| match layout.left() {
            Contraction::Last => a[row * k + depth],
            Contraction::First => a[depth * m + row],
        };
        let right = |column: usize, depth: usize| match layout.right() {
            Contraction::Last => w[column * k + depth],
            Contraction::First => w[depth * n + column],
        };
        // Each with the sum of its terms' magnitudes: the library may round any of them.
        let wanted: Vec<(f64, f64)> = (0..m * n)
            .map(|place| {
                let (row, column) = (place / n, place % n);
                let dot: f64 = (0..k).map(|depth| left(row, depth) * right(column, depth)).sum();
                let terms = [0.5 * dot, 0.25 * c[place], bias[column]];
                let magnitude = terms.iter().map(|term| term.abs()).sum();
                (terms.iter().sum::<f64>().max(0.0), magnitude)
            })
            .collect();
        d.fill(stream, 0, d.len(), 0xff).unwrap();
        // Some suggestions are refused when they are launched.
        let ran = (0..matmul.algorithms())
            .find(|algorithm| matmul.launch(*algorithm, &addresses, stream).is_ok());
        let at = format!("{layout:?} {:?} {dtype} by algorithm {ran:?}", self.sizes);
        assert!(ran.is_some(), "{at}");
        let found = read(&d, m * n).into_iter().zip(&wanted);
        for (place, (found, (wanted, magnitude))) in found.enumerate() {
            let bound = magnitude / 128.0 + 1e-3;
            assert!((found - wanted).abs() <= bound, "{at}, {place}: {found}, not {wanted}");
        }
    }
}

/// The library, where there is one.
fn library(device: &Device) -> Option<CublasLt> {
    match CublasLt::open(device) {
        Ok(library) => Some(library),
        Err(error @ YardstickError::NoLibrary { .. }) => {
            let test = thread::current().name().unwrap_or("a test on a GPU").to_owned();
            eprintln!("SKIPPED {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// `A @ W.T` of these operands with this result, every algorithm beside f64.
fn check_product(
    library: &CublasLt,
    (device, stream): (&Device, &Stream),
    [operands, result]: [DType; 2],
    math: MathMode,
) {
    let [m, n, k] = [96, 160, 256];
    let [a, w] =
        [(m * k, 1), (n * k, 2)].map(|(count, seed)| drawn(device, stream, operands, count, seed));
    let d = device.allocate(result.bytes_for(m * n) as u64).unwrap();
    let (layout, epilogue) = (Layout::Tn, Epilogue::Plain);
    let (alpha, beta, vector) = (1.0, 0.0, 0);
    let request =
        Request { layout, m, n, k, operands, result, math, epilogue, alpha, beta, vector };
    let matmul = library.matmul(&request).unwrap_or_else(|error| panic!("{operands}: {error}"));
    let (left, right, result_address) = (a.address(), w.address(), d.address());
    let addresses =
        Addresses { left, right, addend: result_address, result: result_address, aux: 0 };
    let (a, w) = (values(&a, operands, m * k, stream), values(&w, operands, n * k, stream));
    let mut ran = 0;
    for algorithm in 0..matmul.algorithms() {
        d.fill(stream, 0, d.len(), 0xff).unwrap();
        // Some suggestions are refused when they are launched.
        if matmul.launch(algorithm, &addresses, stream).is_err() {
            continue;
        }
        ran += 1;
        for (place, found) in values(&d, result, m * n, stream).into_iter().enumerate() {
            let (row, column) = (place / n, place % n);
            let terms = (0..k).map(|depth| a[row * k + depth] * w[column * k + depth]);
            let (sum, magnitude) =
                terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
            let bound = if result == DType::I32 { 0.0 } else { magnitude / 128.0 };
            let at = format!("{operands} {math:?} by algorithm {algorithm}, {place}");
            assert!((found - sum).abs() <= bound, "{at}: {found}, not {sum}");
        }
    }
    assert!(ran > 0, "{operands} {math:?}: no algorithm ran");
    eprintln!("{operands} to {result}, {math:?}: {ran} algorithms");
}

#[test]
fn gpu_cublaslt_multiplies_operands_of_every_type() {
    let Some((device, stream, _alone)) = device() else { return };
    let Some(library) = library(&device) else { return };
    for (dtypes, math) in [
        ([DType::F8E4M3, DType::BF16], MathMode::Default),
        ([DType::F8E4M3, DType::BF16], MathMode::Fast),
        ([DType::I8, DType::I32], MathMode::Default),
        ([DType::TF32, DType::F32], MathMode::Default),
    ] {
        check_product(&library, (&device, &stream), dtypes, math);
    }
}

#[test]
fn gpu_cublaslt_does_what_it_is_asked_for_in_every_layout() {
    let Some((device, stream, _alone)) = device() else { return };
    let Some(library) = library(&device) else { return };
    eprintln!("cuBLASLt {} from {}", library.version(), library.path().display());
    for layout in Layout::ALL {
        for dtype in [DType::BF16, DType::F16] {
            Asked { layout, sizes: [96, 160, 64], dtype }.check(&library, &device, &stream);
        }
    }
    // Rows that lie at no multiple of 16 bytes.
    for sizes in [[96, 160, 63], [96, 160, 62], [96, 159, 64]] {
        Asked { layout: Layout::Tn, sizes, dtype: DType::BF16 }.check(&library, &device, &stream);
    }
}
