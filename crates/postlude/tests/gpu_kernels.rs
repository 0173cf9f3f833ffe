//! Whole kernels on a GPU: random problems, small grids, threads, caches, other libraries' contexts.
//!
//! On a machine without a driver or a Hopper GPU every test says so and passes. A failure prints its seed.

#![allow(clippy::print_stderr)] // A test that is skipped says so.

#[path = "gpu_runtime/driver.rs"]
#[allow(dead_code)] // The run time's tests use the others.
mod driver;
#[path = "gpu_kernels/lists.rs"]
mod lists;
#[path = "gpu_kernels/problems.rs"]
mod problems;
#[path = "gpu_kernels/tuning.rs"]
mod tuning;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use postlude::cuda::{PreparedCall, chip};
use postlude::runtime::{
    Device, DeviceArgument, DeviceBuffer, DeviceTensor, Stream, cache, tensor_map,
};
use postlude::target::{Chip, Schedule};
use postlude::tuning::Records;
use postlude::{Argument, Bindings, Compiled, DType, Kernel, MathMode, Options, Sizes, Tensor};
use postlude_corpus::{REDUCTIONS, Random, SPLITS};
use postlude_ptx::launch::Parameter;

use problems::{Bound, Data, Layout, Stored, difference, guarded, lay_out};

/// Another run with other problems is one number away.
const SEED: u64 = 20_260;

/// The first GPU, and the right to use it alone: tests trim and count.
fn device() -> Option<(Device, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let test = thread::current().name().unwrap_or("a test on a GPU").to_owned();
    match Device::open(0) {
        Ok(device) if device.capability() == (9, 0) => {
            return Some((device, ALONE.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        Ok(device) => eprintln!("SKIPPED {test}: {device} is not sm_90"),
        Err(error) => eprintln!("SKIPPED {test}: {error}"),
    }
    None
}

/// Checks problems on several threads, for the driver's compiler takes its time; says which seeds fail.
fn check_all(count: usize, seed: u64, check: impl Fn(&mut Random) -> Result<(), String> + Sync) {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= count {
                        break;
                    }
                    let seed = seed + place as u64;
                    if let Err(failure) = check(&mut Random::new(seed << 20)) {
                        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        failures.push(format!("seed {seed}: {failure}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(failures.is_empty(), "{} of {count} failed:\n{}", failures.len(), failures.join("\n"));
}

/// What the tests below give to a GPU is planned, emitted and launched with the parameters that its code declares.
#[test]
fn every_random_problem_is_planned_without_a_gpu() {
    let chip = Chip::STANDARD;
    for place in 0..200 {
        let random = &mut Random::new((SEED + place) << 20);
        let bound = Bound::any(random);
        let schedule = bound.candidate(chip, random);
        let compiled = bound.kernel.compile(&Options::default());
        let (graph, placements) = (compiled.optimised(), bound.placements(&compiled));
        let planning = compiled.planning(&bound.problem, &placements, chip).unwrap();
        let planned = planning.accept(&schedule);
        let planned = planned.unwrap_or_else(|refusal| panic!("{}: {refusal}", bound.about));
        let scalars: Vec<Option<f64>> =
            graph.inputs().iter().map(|input| bound.arguments[&input.name].scalar()).collect();
        let (entry, launch) = (planned.emit(MathMode::Default), planned.launch(&scalars));
        assert!(entry.accepts(&launch.parameters), "{} {schedule}", bound.about);
        for parameter in &launch.parameters {
            if let Parameter::Map(map) = parameter {
                // Where the tensor begins, if its memory begins at 4096.
                let inputs = placements.inputs.get(map.buffer.0 as usize);
                let start = inputs.and_then(Option::as_ref).map_or(0, |placement| placement.start);
                let valid = tensor_map::validate(map, 4096 + start);
                assert!(valid.is_ok(), "{}: {valid:?}", bound.about);
            }
        }
    }
}

/// One problem with a random schedule against the reference; whole numbers to the bit.
fn check_against_reference(device: &Device, random: &mut Random) -> Result<(), String> {
    let bound = Bound::any(random);
    let schedule = bound.candidate(chip(device).map_err(|error| error.to_string())?, random);
    let about = format!("{} with {:?}", bound.about, schedule.tile());
    let fail = |what: String| format!("{about}: {what}");
    let outputs =
        bound.run(&guarded(Some(schedule))).map_err(|error| fail(format!("refused: {error}")))?;
    let reference = bound.kernel.compile(&Options::default());
    let wanted = reference.evaluate(&bound.problem, &bound.arguments).unwrap();
    for (wanted, got) in wanted.iter().zip(&outputs) {
        let comparison = wanted.compare(got);
        if comparison.worst > 1.0 {
            let (at, worst) = (comparison.at, comparison.worst);
            let value = got.values()[at];
            let (name, nominal) = (&wanted.name, wanted.values[at].nominal);
            return Err(fail(format!(
                "{name}, element {at}: {value} instead of {nominal}, {worst} bounds away"
            )));
        }
        if bound.data == Data::Integers {
            let exact = wanted.tensor().map_err(|error| fail(error.to_string()))?;
            if let Some(what) = difference(got, &exact) {
                return Err(fail(format!("{}: {what}", wanted.name)));
            }
        }
    }
    Ok(())
}

#[test]
fn gpu_random_problems_agree_with_the_reference() {
    let Some((device, _alone)) = device() else { return };
    check_all(200, SEED, |random| check_against_reference(&device, random));
}

/// One larger problem, its operands stored in any way, against the CPU, to the bit: with the planner's schedule on the
/// whole GPU, or with any schedule on grids so small that every CTA computes many tiles.
fn check_larger(device: &Device, random: &mut Random) -> Result<(), String> {
    let names = ["plain", "bias_relu", "wide", "residual", "two_outputs", "row_scale"];
    let (name, dtype) = (*random.pick(&names), *random.pick(&[DType::F16, DType::BF16]));
    let chip = chip(device).map_err(|error| error.to_string())?;
    let size = |random: &mut Random| match random.range(0, 2) {
        0 => random.range(1, 312) * 8,
        _ => random.range(1, 2500),
    };
    let sizes = [1, size(random), size(random), size(random)];
    let stored = [0; 2].map(|_| Stored::any(random));
    let bound = Bound::with(name, stored, dtype, sizes, Data::Integers, random);
    let wanted = bound
        .run(&Options { threads: Some(2), ..Options::default() })
        .map_err(|error| format!("{} on the CPU: {error}", bound.about))?;
    let (schedule, limits) = match random.range(0, 1) {
        0 => (None, &[None][..]),
        _ => (Some(bound.candidate(chip, random)), &[Some(1), Some(2), Some(6)][..]),
    };
    let tile = schedule.as_ref().map(Schedule::tile);
    for grid_limit in limits.iter().copied() {
        let about = format!("{} with {tile:?} on {grid_limit:?} CTAs", bound.about);
        let mut options = guarded(schedule.clone());
        options.hooks.grid_limit = grid_limit;
        let got = bound.run(&options).map_err(|error| format!("{about}: refused: {error}"))?;
        for (got, want) in got.iter().zip(&wanted) {
            if let Some(what) = difference(got, want) {
                return Err(format!("{about}: {what}"));
            }
        }
    }
    Ok(())
}

#[test]
fn gpu_larger_problems_agree_with_the_cpu_to_the_bit() {
    let Some((device, _alone)) = device() else { return };
    check_all(400, SEED + 1000, |random| check_larger(&device, random));
}

/// One problem whose tiles all have columns without gaps, against the CPU, to the bit.
fn check_transposed(device: &Device, random: &mut Random) -> Result<(), String> {
    let name = *random.pick(&["plain", "wide", "residual", "two_outputs", "shared_weights"]);
    let dtype = *random.pick(&[DType::F16, DType::BF16]);
    let sizes = [2, 8 * random.range(1, 60), random.range(2, 500), 8 * random.range(1, 40)];
    let mut bound = Bound::new(name, dtype, sizes, Data::Integers, random);
    if let Some(Argument::Tensor(tile)) = bound.arguments.get("C") {
        let tile = lay_out(&tile.to_contiguous(), Layout::TransposedPadded);
        bound.arguments.insert("C".to_owned(), Argument::Tensor(tile));
    }
    let wanted = bound.run(&Options::default()).map_err(|error| error.to_string())?;
    bound.output_layout = Layout::TransposedPadded;
    let schedule = bound.candidate(chip(device).map_err(|error| error.to_string())?, random);
    let about = format!("{} with {schedule}", bound.about);
    let transfers = ["epilogue_loads", "epilogue_stores"].map(|knob| schedule.knob(knob));
    let transposed = |transfers: String| {
        transfers.split_whitespace().all(|transfer| transfer == "tma_transposed")
    };
    if !transfers.into_iter().all(|transfers| transfers.is_some_and(transposed)) {
        return Err(format!("{about}: not every tile travels by a transposed map"));
    }
    let got = bound.run(&guarded(Some(schedule))).map_err(|error| format!("{about}: {error}"))?;
    for (got, want) in got.iter().zip(&wanted) {
        if let Some(what) = difference(got, want) {
            return Err(format!("{about}: {what}"));
        }
    }
    Ok(())
}

#[test]
fn gpu_transposed_tiles_agree_with_the_cpu_to_the_bit() {
    let Some((device, _alone)) = device() else { return };
    check_all(100, SEED + 3000, |random| check_transposed(&device, random));
}

#[test]
fn gpu_problems_without_elements_are_fine() {
    let Some((_device, _alone)) = device() else { return };
    for sizes in [[0, 3, 4, 8], [2, 0, 4, 8], [2, 3, 0, 8], [2, 3, 4, 0], [2, 0, 0, 0]] {
        for name in ["batch", "shared_weights"] {
            let bound =
                Bound::new(name, DType::BF16, sizes, Data::Integers, &mut Random::new(SEED));
            let got = bound.run(&guarded(None)).unwrap_or_else(|e| panic!("{sizes:?}: {e}"));
            let want = bound.run(&Options::default()).unwrap();
            assert_eq!(difference(&got[0], &want[0]), None, "{name} {sizes:?}");
        }
    }
}

#[test]
fn gpu_outputs_may_have_strides() {
    let Some((_device, _alone)) = device() else { return };
    let mut random = Random::new(SEED);
    let bound = Bound::new("bias_relu", DType::BF16, [1, 70, 90, 33], Data::Integers, &mut random);
    let want = bound.run(&Options::default()).unwrap();
    let compiled = bound.kernel.compile(&guarded(None));
    for (strides, offset) in [
        (vec![96, 1], 0),
        (vec![93, 1], 5),
        (vec![1, 70], 0),
        (vec![1, 72], 0),
        (vec![-95, 1], 69 * 95),
    ] {
        let bytes = vec![0x11; 2 * 70 * 100];
        let output =
            Tensor::with_strides(DType::BF16, vec![70, 90], strides.clone(), offset, bytes)
                .unwrap();
        let mut outputs = [output];
        compiled.run_into(&bound.problem, &bound.arguments, &mut outputs).unwrap();
        assert_eq!(outputs[0].values(), want[0].values(), "{strides:?}");
        let changed =
            outputs[0].bytes().iter().map(|byte| usize::from(*byte != 0x11)).sum::<usize>();
        assert!(changed <= 2 * 70 * 90, "{strides:?}: gaps are the host's own");
    }
}

/// A call on the GPU with memory of its own.
struct Owned {
    call: PreparedCall,
    output: DeviceBuffer,
    /// Kept until the call is done.
    inputs: Vec<DeviceBuffer>,
}

/// Copies a bound call to the GPU; its rows are multiples of 16 bytes.
fn prepare(compiled: &Compiled, bound: &Bound, device: &Device, stream: &Stream) -> Owned {
    let mut buffers = Vec::new();
    let mut inputs = BTreeMap::new();
    for (name, argument) in &bound.arguments {
        let argument = match argument.tensor() {
            None => DeviceArgument::Scalar(argument.scalar().unwrap()),
            Some(tensor) => {
                let buffer = device.allocate(tensor.bytes().len() as u64).unwrap();
                buffer.write(stream, 0, tensor.bytes()).unwrap();
                let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
                let address = buffer.address();
                buffers.push(buffer);
                DeviceArgument::Tensor(DeviceTensor::contiguous(dtype, shape, address, 0))
            }
        };
        inputs.insert(name.clone(), argument);
    }
    let declared = &compiled.defined().outputs()[0];
    let shape = bound.problem.shape(&declared.dims);
    let bytes = declared.dtype.bytes_for(shape.iter().product());
    let output = device.allocate(bytes as u64).unwrap();
    let tensor = DeviceTensor::contiguous(declared.dtype, shape, output.address(), 0);
    let outputs = BTreeMap::from([(declared.name.clone(), tensor)]);
    let call = compiled.prepare_on(device, &inputs, &outputs, &Sizes::new()).unwrap();
    Owned { call, output, inputs: buffers }
}

#[test]
fn gpu_ten_thousand_launches_from_eight_threads_are_all_right() {
    const THREADS: u64 = 8;
    const CALLS: usize = 5;
    const ROUNDS: usize = 25;
    const REPEATS: usize = 10;
    let Some((device, _alone)) = device() else { return };
    let launched = AtomicUsize::new(0);
    let mut random = Random::new(SEED);
    let first = Bound::new("bias_relu", DType::BF16, [1, 8, 8, 8], Data::Integers, &mut random);
    let compiled = first.kernel.compile(&Options::default());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (device, launched, compiled) = (&device, &launched, compiled.clone());
            scope.spawn(move || {
                let mut random = Random::new((SEED + 2000 + number) << 20);
                let stream = Stream::new(device).unwrap();
                let calls: Vec<(Owned, Tensor)> = (0..CALLS)
                    .map(|_| {
                        let (m, n, k) =
                            (random.range(1, 400), random.range(1, 400), 8 * random.range(1, 40));
                        let bound = Bound::new(
                            "bias_relu",
                            DType::BF16,
                            [1, m, n, k],
                            Data::Integers,
                            &mut random,
                        );
                        let want = bound.run(&Options { threads: Some(1), ..Options::default() });
                        (prepare(&compiled, &bound, device, &stream), want.unwrap().remove(0))
                    })
                    .collect();
                for round in 0..ROUNDS {
                    for (owned, _) in &calls {
                        owned.output.fill(&stream, 0, owned.output.len(), 0xff).unwrap();
                    }
                    for (owned, _) in calls.iter().cycle().take(CALLS * REPEATS) {
                        owned.call.launch(&stream).unwrap();
                        launched.fetch_add(1, Ordering::Relaxed);
                    }
                    for (place, (owned, want)) in calls.iter().enumerate() {
                        let same = owned.output.to_vec(&stream).unwrap() == want.bytes();
                        assert!(same, "seed {SEED}, thread {number}, round {round}, call {place}");
                    }
                }
            });
        }
    });
    assert_eq!(launched.into_inner(), 10_000);
}

/// Twelve tiles at most serve all numbers of rows, eight more short launches and eight with A and B swapped; few rows have
/// modules of their own.
#[test]
fn gpu_two_hundred_sizes_compile_few_modules() {
    const FEW: usize = 32;
    const N: usize = 4096;
    const MOST: usize = 200 * 7;
    let Some((device, _alone)) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kernels");
    let kernel = Kernel::infer("D = relu(A @ W.T + bias[N])", &Bindings::default()).unwrap();
    let records = Records::Off;
    let options = Options { cache: Some(kept.clone()), records, ..Options::default() };
    let compiled = kernel.compile(&options);
    let stream = Stream::new(&device).unwrap();
    let memory = |elements: usize, bytes: u64| device.allocate(elements as u64 * bytes).unwrap();
    let (a, w, d) = (memory(MOST * N, 2), memory(N * N, 2), memory(MOST * N, 2));
    let bias = memory(N, 4);
    for buffer in [&a, &w, &bias] {
        buffer.fill(&stream, 0, buffer.len(), 0).unwrap();
    }
    let tensor = |dtype, shape: &[usize], buffer: &DeviceBuffer| {
        DeviceTensor::contiguous(dtype, shape.to_vec(), buffer.address(), 0)
    };
    device.trim().unwrap();
    for m in (1..=200).map(|count| count * 7) {
        let inputs = BTreeMap::from([
            ("A".to_owned(), DeviceArgument::Tensor(tensor(DType::BF16, &[m, N], &a))),
            ("W".to_owned(), DeviceArgument::Tensor(tensor(DType::BF16, &[N, N], &w))),
            ("bias".to_owned(), DeviceArgument::Tensor(tensor(DType::F32, &[N], &bias))),
        ]);
        let outputs = BTreeMap::from([("D".to_owned(), tensor(DType::BF16, &[m, N], &d))]);
        let call = compiled.clone().prepare_on(&device, &inputs, &outputs, &Sizes::new()).unwrap();
        call.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    let files = cache::entries(&kept).unwrap().len();
    let modules = compiled.gpu_modules();
    assert!(modules <= FEW && files <= FEW, "{modules} {files}");
}

/// A fresh kernel through a cache, with nothing in memory to help it.
fn run_through(folder: &Path, device: &Device) {
    device.trim().unwrap();
    let mut random = Random::new(SEED);
    let bound = Bound::new("bias_relu", DType::F16, [1, 100, 72, 50], Data::Integers, &mut random);
    let want = bound.run(&Options::default()).unwrap();
    let options = Options { cache: Some(folder.to_owned()), ..guarded(None) };
    let got = bound.run(&options).unwrap();
    assert_eq!(difference(&got[0], &want[0]), None);
}

#[test]
fn gpu_runs_are_right_whatever_happened_to_the_cache() {
    let Some((device, _alone)) = device() else { return };
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("kernels");
    run_through(&folder, &device);
    let entries = cache::entries(&folder).unwrap();
    assert!(!entries.is_empty(), "kernels are kept");
    let path = entries[0].path();
    let good = fs::read(&path).unwrap();
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x40;
    for damaged in [&flipped[..], &good[..good.len() / 3], b"", b"something else"] {
        fs::write(&path, damaged).unwrap();
        run_through(&folder, &device);
        assert_eq!(fs::read(&path).unwrap(), good, "mended");
    }
    // A writer that was killed leaves a part under a name of its own.
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let partial = folder.join(format!("{name}.1.2.3.postlude-partial"));
    fs::write(&partial, &good[..good.len() / 2]).unwrap();
    fs::remove_file(&path).unwrap();
    run_through(&folder, &device);
    run_through(&folder, &device);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::remove_file(&path).unwrap();
        for mode in [0o500, 0o777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            run_through(&folder, &device);
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    run_through(Path::new("/proc/no-such-folder"), &device);
}

#[test]
fn gpu_kernels_leave_another_librarys_context_current() {
    let Some((device, _alone)) = device() else { return };
    let raw = driver::Raw::open();
    let own = raw.create_context();
    assert_eq!(raw.current(), own);
    let folder = tempfile::tempdir().unwrap();
    run_through(&folder.path().join("kernels"), &device);
    assert_eq!(raw.current(), own);
    raw.destroy_context(own);
    raw.with_primary_context(|raw| {
        let primary = raw.current();
        run_through(&folder.path().join("kernels"), &device);
        assert_eq!(raw.current(), primary);
    });
}

#[test]
fn gpu_calls_are_bound_again_to_other_memory() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let mut random = Random::new(SEED);
    let mut bind =
        || Bound::new("plain", DType::BF16, [1, 64, 48, 32], Data::Integers, &mut random);
    let (first, second) = (bind(), bind());
    let compiled = first.kernel.compile(&Options::default());
    let mut one = prepare(&compiled, &first, &device, &stream);
    let other = prepare(&compiled, &second, &device, &stream);
    let tensor = |shape: [usize; 2], address| {
        DeviceTensor::contiguous(DType::BF16, shape.to_vec(), address, 0)
    };
    // Arguments are kept in the order of their names: A, then W.
    let [a, w] = [&other.inputs[0], &other.inputs[1]].map(DeviceBuffer::address);
    let inputs = BTreeMap::from([
        ("A".to_owned(), DeviceArgument::Tensor(tensor([64, 32], a))),
        ("W".to_owned(), DeviceArgument::Tensor(tensor([48, 32], w))),
    ]);
    let outputs = BTreeMap::from([("D".to_owned(), tensor([64, 48], one.output.address()))]);
    one.call.rebind(&inputs, &outputs).unwrap();
    one.call.launch(&stream).unwrap();
    let want = second.run(&Options::default()).unwrap().remove(0);
    assert_eq!(one.output.to_vec(&stream).unwrap(), want.bytes());
    let wrong = BTreeMap::from([("D".to_owned(), tensor([48, 64], one.output.address()))]);
    assert!(one.call.rebind(&inputs, &wrong).is_err());
}

/// With a tile that travels by tensor map, and with one that does not.
#[test]
fn gpu_outputs_may_replace_a_tile_operand() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    for (rows, columns) in [(300, 512), (300, 511)] {
        let mut random = Random::new(SEED);
        let sizes = [1, rows, columns, 64];
        let bound = Bound::new("residual", DType::BF16, sizes, Data::Integers, &mut random);
        let compiled = bound.kernel.compile(&Options::default());
        let want = bound.run(&Options::default()).unwrap().remove(0);
        let mut inputs = BTreeMap::new();
        let mut memory = Vec::new();
        for (name, argument) in &bound.arguments {
            let argument = match argument.tensor() {
                None => DeviceArgument::Scalar(argument.scalar().unwrap()),
                Some(tensor) => {
                    let shape = tensor.shape().to_vec();
                    let tensor =
                        Tensor::from_values(tensor.dtype(), shape, &tensor.values()).unwrap();
                    let buffer = device.allocate(tensor.bytes().len() as u64).unwrap();
                    buffer.write(&stream, 0, tensor.bytes()).unwrap();
                    let shape = tensor.shape().to_vec();
                    let address = buffer.address();
                    memory.push((name.clone(), buffer));
                    DeviceArgument::Tensor(DeviceTensor::contiguous(
                        tensor.dtype(),
                        shape,
                        address,
                        0,
                    ))
                }
            };
            inputs.insert(name.clone(), argument);
        }
        let Some(DeviceArgument::Tensor(tile)) = inputs.get("C").cloned() else {
            panic!("the residual has a tile `C`")
        };
        let outputs = BTreeMap::from([("D".to_owned(), tile)]);
        let call = compiled.prepare_on(&device, &inputs, &outputs, &Sizes::new()).unwrap();
        call.launch(&stream).unwrap();
        let (_, replaced) = memory.iter().find(|(name, _)| name == "C").unwrap();
        assert_eq!(replaced.to_vec(&stream).unwrap(), want.bytes(), "{columns} columns");
    }
}

/// Who arrives last is another one in every run; what is finished is the same. Eight threads keep the GPU busy.
#[test]
fn a_hundred_runs_on_a_busy_gpu_give_the_same_bits() {
    let Some((_device, _alone)) = device() else { return };
    let kernels: Vec<_> = REDUCTIONS.iter().chain(SPLITS).collect();
    let bounds: Vec<(Bound, Compiled)> = (0..)
        .zip(&kernels)
        .map(|(seed, kernel)| {
            // Rows that meet their tile again fit one; the others take many tiles.
            let again = kernel.name.ends_with("again") || kernel.name == "top";
            let columns = if again { 192 } else { 1536 };
            let sizes = [2, 1000, columns, 96];
            let random = &mut Random::new(seed);
            let bound = Bound::new(kernel.name, DType::BF16, sizes, Data::Floats, random);
            let compiled = bound.kernel.compile(&guarded(None));
            (bound, compiled)
        })
        .collect();
    let run = |(bound, compiled): &(Bound, Compiled)| -> Vec<Tensor> {
        let outputs = compiled.run(&bound.arguments, bound.problem.sizes());
        let outputs = outputs.unwrap_or_else(|error| panic!("{}: {error}", bound.about));
        outputs.into_iter().map(|(_, tensor)| tensor).collect()
    };
    let first: Vec<Vec<Tensor>> = bounds.iter().map(run).collect();
    check_all(100, SEED, |_| {
        for ((bound, compiled), wanted) in bounds.iter().zip(&first) {
            let got = compiled.run(&bound.arguments, bound.problem.sizes());
            let got = got.map_err(|error| format!("{}: {error}", bound.about))?;
            for ((_, got), wanted) in got.iter().zip(wanted) {
                if let Some(what) = difference(got, wanted) {
                    return Err(format!("{}: {what}", bound.about));
                }
            }
        }
        Ok(())
    });
}
