//! The yardstick's own parts on a GPU: random numbers, sleeps, products alone, cuBLASLt.
//!
//! On a machine without a driver or a Hopper GPU every test says so and passes.

#![allow(clippy::print_stderr)] // A test that is skipped says so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use postlude::runtime::{Device, DeviceBuffer, Event, Stream};
use postlude::{DType, dtype};
use postlude_ptx::kernel::Half;
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

/// Fills a buffer with normal numbers.
fn fill(device: &Device, stream: &Stream, buffer: &DeviceBuffer, dtype: DType, seed: u32) {
    let store = Store::of(dtype).unwrap();
    random::fill(device, stream, buffer, store, Contents::Normal, seed).unwrap();
}

fn normal(device: &Device, stream: &Stream, dtype: DType, count: usize, seed: u32) -> DeviceBuffer {
    let buffer = device.allocate(dtype.bytes_for(count) as u64).unwrap();
    fill(device, stream, &buffer, dtype, seed);
    buffer
}

#[test]
fn gpu_random_numbers_are_normal_and_independent() {
    let Some((device, stream, _alone)) = device() else { return };
    let all = [1, 2].map(|seed| {
        let buffer = normal(&device, &stream, DType::F32, COUNT, seed);
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
        .map(|dtype| values(&normal(&device, &stream, dtype, 4096, 9), dtype, 4096, &stream));
    assert_eq!(single, narrow);
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
    let ceiling = Ceiling::new(&device, &stream, Half::BF16).unwrap();
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
    eprintln!("{:.0} TFLOP/s, {:.0} GB/s, {} dropped", rate / 1e12, bytes / 1e9, samples.dropped);
    assert!((3e14..1.1e15).contains(&rate), "{rate:e} operations a second");
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
            dtype,
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

#[test]
fn gpu_cublaslt_does_what_it_is_asked_for_in_every_layout() {
    let Some((device, stream, _alone)) = device() else { return };
    let library = match CublasLt::open(&device) {
        Ok(library) => library,
        Err(error @ YardstickError::NoLibrary { .. }) => {
            eprintln!("SKIPPED gpu_cublaslt_does_what_it_is_asked_for: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
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
