//! The run time on a GPU: results, caches, threads, and other libraries' contexts.
//!
//! On a machine without a driver or a Hopper GPU every test says so and passes.

#![allow(clippy::print_stderr)] // A test that is skipped says so.

#[path = "gpu_runtime/driver.rs"]
mod driver;
#[path = "gpu_runtime/programs.rs"]
mod programs;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use postlude::runtime::cache::DiskCache;
use postlude::runtime::{
    Device, DeviceBuffer, DeviceTensor, Event, Origin, PreparedLaunch, RuntimeError, Stream,
    check_memory,
};
use postlude_ptx::launch::{Buffer, Launch, Parameter};

use programs::Program;

/// The first GPU, and the right to use it alone: tests measure, trim and capture.
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

fn floats(device: &Device, stream: &Stream, values: impl Iterator<Item = f32>) -> DeviceBuffer {
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    let buffer = device.allocate(bytes.len() as u64).unwrap();
    buffer.write(stream, 0, &bytes).unwrap();
    buffer
}

fn words(buffer: &DeviceBuffer, stream: &Stream) -> Vec<u32> {
    let bytes = buffer.to_vec(stream).unwrap();
    let words = bytes.chunks_exact(4);
    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

fn prepare(device: &Device, program: &Program, buffers: &[&DeviceBuffer]) -> PreparedLaunch {
    let function = device.load_through(&DiskCache::none(), &program.text, &program.entry).unwrap();
    PreparedLaunch::new(&function, program.launch.clone(), &addresses(buffers)).unwrap()
}

fn addresses(buffers: &[&DeviceBuffer]) -> Vec<(Buffer, u64)> {
    (0..).map(Buffer).zip(buffers.iter().map(|buffer| buffer.address())).collect()
}

/// Adds vectors on a stream and checks the sums; `seed` tells the data apart.
fn add_and_check(device: &Device, stream: &Stream, count: u32, seed: u32) {
    let value = |i: u32| ((i * 7 + seed * 13) % 1000) as f32;
    let a = floats(device, stream, (0..count).map(value));
    let b = floats(device, stream, (0..count).map(|i| i as f32));
    let c = device.allocate(u64::from(count) * 4).unwrap();
    c.fill(stream, 0, c.len(), 0xff).unwrap();
    prepare(device, &programs::vector_add(count, ""), &[&a, &b, &c]).launch(stream).unwrap();
    let sums = words(&c, stream).into_iter().map(f32::from_bits);
    let wrong = sums.zip(0..count).find(|(sum, i)| *sum != value(*i) + *i as f32);
    assert_eq!(wrong, None);
}

#[test]
fn vectors_are_added_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    for count in [1, 255, 256, 257, 100_000] {
        add_and_check(&device, &stream, count, count);
    }
    add_and_check(&device, &Stream::default_of(&device).unwrap(), 1000, 1);
    // SAFETY: the handle is our own stream's, which lives longer.
    let borrowed = unsafe { Stream::from_raw(&device, stream.as_raw()) }.unwrap();
    add_and_check(&device, &borrowed, 1000, 2);
}

#[test]
fn a_launch_is_bound_again_to_other_memory_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let [a, b, c] = [1.0, 2.0, 4.0].map(|value| floats(&device, &stream, [value].into_iter()));
    let mut launch = prepare(&device, &programs::vector_add(1, ""), &[&a, &b, &c]);
    launch.launch(&stream).unwrap();
    launch.rebind(&addresses(&[&c, &b, &a])).unwrap();
    launch.launch(&stream).unwrap();
    assert_eq!(f32::from_bits(words(&a, &stream)[0]), 5.0);
    assert!(matches!(launch.rebind(&[]), Err(RuntimeError::NoAddress { .. })));
    launch.launch(&stream).unwrap();
    assert_eq!(f32::from_bits(words(&a, &stream)[0]), 5.0);
}

#[test]
fn tensor_maps_copy_ragged_tensors_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    for (rows, columns) in [(8, 32), (64, 128), (13, 36), (1, 4), (1000, 100)] {
        let count = rows * columns;
        let source = floats(&device, &stream, (0..count).map(|i| i as f32));
        // A margin that has to stay as it is.
        let result = device.allocate(u64::from(count) * 4 + 256).unwrap();
        result.fill(&stream, 0, result.len(), 0xa5).unwrap();
        let program = programs::tensor_copy(rows, columns);
        prepare(&device, &program, &[&source, &result]).launch(&stream).unwrap();
        let found = words(&result, &stream);
        let (copied, margin) = found.split_at(count as usize);
        assert!(copied.iter().eq(words(&source, &stream).iter()), "{rows} x {columns}");
        assert!(margin.iter().all(|word| *word == 0xa5a5_a5a5), "{rows} x {columns}");
    }
}

#[test]
fn clusters_reach_each_other_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let out = device.allocate(4 * 64).unwrap();
    let program = programs::cluster_swap(64);
    let launch = prepare(&device, &program, &[&out]);
    launch.launch(&stream).unwrap();
    let expected: Vec<u32> = (0..64).map(|block| 100 + (block ^ 1)).collect();
    assert_eq!(words(&out, &stream), expected);
    let resident = launch.function().resident_blocks(&program.launch).unwrap();
    assert!(resident >= device.processors() / 2 && resident.is_multiple_of(2), "{resident}");
    let refused = |change: fn(&mut Launch)| {
        let mut launch_facts = program.launch.clone();
        change(&mut launch_facts);
        PreparedLaunch::new(launch.function(), launch_facts, &addresses(&[&out])).map(|_| ())
    };
    let odd = refused(|launch| launch.grid = [63, 1, 1]);
    assert!(matches!(odd, Err(RuntimeError::Cluster { .. })), "{odd:?}");
    let other = refused(|launch| launch.cluster = [1, 1, 1]);
    assert!(matches!(other, Err(RuntimeError::ClusterMismatch { .. })), "{other:?}");
    let shared = refused(|launch| launch.shared_bytes = 300_000);
    assert!(matches!(shared, Err(RuntimeError::SharedMemory { .. })), "{shared:?}");
    let threads = refused(|launch| launch.threads = 64);
    assert!(matches!(threads, Err(RuntimeError::Threads { .. })), "{threads:?}");
    let empty = refused(|launch| launch.grid = [0, 1, 1]);
    assert!(matches!(empty, Err(RuntimeError::Grid { .. })), "{empty:?}");
    let more = refused(|launch| launch.parameters.push(Parameter::U32(0)));
    assert!(matches!(more, Err(RuntimeError::ParameterMismatch { .. })), "{more:?}");
}

#[test]
fn scratch_memory_is_clean_for_every_launch_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let out = device.allocate(4).unwrap();
    out.fill(&stream, 0, 4, 0).unwrap();
    // Each leaves dirt where the other one counts, and the third needs more room.
    let launches = [(100, 0), (100, 40), (5000, 80)]
        .map(|(blocks, at)| prepare(&device, &programs::last_arriver(blocks, at), &[&out]));
    for place in [0, 0, 1, 1, 0, 2, 1, 2, 2, 0] {
        launches[place].launch(&stream).unwrap();
    }
    assert_eq!(words(&out, &stream), [10]);
    device.trim().unwrap();
    launches[0].launch(&stream).unwrap();
    assert_eq!(words(&out, &stream), [11]);
}

#[test]
fn graphs_have_scratch_memory_of_their_own_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let raw = driver::Raw::open();
    let stream = Stream::new(&device).unwrap();
    let out = device.allocate(4).unwrap();
    out.fill(&stream, 0, 4, 0).unwrap();
    let [first, second] = [(100, 0), (100, 40)]
        .map(|(blocks, at)| prepare(&device, &programs::last_arriver(blocks, at), &[&out]));
    stream.synchronize().unwrap();
    let graph = raw.with_primary_context(|raw| {
        raw.capture(stream.as_raw(), || {
            first.launch(&stream).unwrap();
            second.launch(&stream).unwrap();
        })
    });
    assert_eq!(words(&out, &stream), [0], "captured, not done");
    for _ in 0..3 {
        raw.with_primary_context(|raw| raw.launch_graph(graph, stream.as_raw()));
        first.launch(&stream).unwrap();
    }
    assert_eq!(words(&out, &stream), [9]);
}

#[test]
fn a_context_of_another_library_stays_current_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let raw = driver::Raw::open();
    assert_eq!(raw.current(), 0, "nothing is current on this thread");
    add_and_check(&device, &stream, 1000, 3);
    assert_eq!(raw.current(), 0, "and nothing is left current");
    let own = raw.create_context();
    assert_eq!(raw.current(), own);
    add_and_check(&device, &stream, 1000, 4);
    assert_eq!(raw.current(), own);
    raw.destroy_context(own);
    raw.with_primary_context(|raw| {
        let primary = raw.current();
        add_and_check(&device, &stream, 1000, 5);
        assert_eq!(raw.current(), primary);
    });
}

#[test]
fn many_threads_launch_on_streams_of_their_own_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let program = programs::last_arriver(50, 0);
    let counted = device.allocate(4).unwrap();
    let setup = Stream::new(&device).unwrap();
    counted.fill(&setup, 0, 4, 0).unwrap();
    setup.synchronize().unwrap();
    // One prepared launch for everyone: each stream brings its own scratch memory.
    let shared = prepare(&device, &program, &[&counted]);
    thread::scope(|scope| {
        for number in 0..8 {
            let (device, shared) = (&device, &shared);
            scope.spawn(move || {
                let stream = Stream::new(device).unwrap();
                for round in 0..25 {
                    (0..50).for_each(|_| shared.launch(&stream).unwrap());
                    add_and_check(device, &stream, 5000, number * 100 + round);
                }
                stream.synchronize().unwrap();
            });
        }
    });
    assert_eq!(words(&counted, &setup), [8 * 25 * 50]);
    // And everyone on one stream.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|_| shared.launch(&setup).unwrap()));
        }
    });
    assert_eq!(words(&counted, &setup), [8 * 25 * 50 + 800]);
}

#[test]
fn modules_come_from_memory_disk_and_compiler_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::at(folder.path().join("kernels"));
    let program = programs::vector_add(10, "kept on disk");
    let load = || device.load_through(&cache, &program.text, &program.entry).unwrap();
    let first = load();
    assert_eq!(first.origin(), Origin::Compiled);
    let usage = first.usage().expect("the log names the kernel");
    assert_eq!((usage.registers, usage.stack_bytes), (first.registers().unwrap(), 0));
    assert_eq!(first.local_bytes().unwrap(), 0);
    assert_eq!(load().origin(), Origin::Compiled, "the same module");
    device.trim().unwrap();
    let again = load();
    assert_eq!(again.origin(), Origin::Disk);
    assert_eq!(again.log(), first.log());
    let file = std::fs::read_dir(folder.path().join("kernels")).unwrap().next().unwrap().unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    for damaged in [&bytes[..bytes.len() / 2], b"", b"something else"] {
        std::fs::write(file.path(), damaged).unwrap();
        device.trim().unwrap();
        assert_eq!(load().origin(), Origin::Compiled);
    }
    assert_eq!(std::fs::read(file.path()).unwrap().len(), bytes.len(), "mended");
}

#[test]
fn bad_programs_are_errors_with_the_compilers_words_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let none = DiskCache::none();
    let good = programs::vector_add(10, "").text;
    let load = |text: &str, entry: &str| device.load_through(&none, text, entry).map(|_| ());
    let broken = good.replace("add.rn.f32 %x, %x, %y;", "add.rn.f32 %x, %x, %nothing;");
    let Err(RuntimeError::Compile { log, .. }) = load(&broken, "vector_add") else { panic!() };
    assert!(log.contains("nothing"), "{log}");
    let missing = load(&good, "no_such_kernel");
    assert!(matches!(missing, Err(RuntimeError::NoEntry { .. })), "{missing:?}");
    let other = load(&good.replace("sm_90a", "sm_80a"), "vector_add");
    assert!(matches!(other, Err(RuntimeError::WrongTarget { .. })), "{other:?}");
    assert!(matches!(load("hello", "vector_add"), Err(RuntimeError::NotPtx { .. })));
}

#[test]
fn memory_is_told_apart_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let buffer = device.allocate(1024).unwrap();
    let tensor = |address| {
        DeviceTensor::contiguous(postlude::DType::F32, vec![16], address, device.ordinal())
    };
    let inside = tensor(buffer.address() + 512);
    assert_eq!(check_memory(&device, [("A", &inside)]), Ok(()));
    let host = [0u8; 64];
    let outside = tensor(host.as_ptr().addr() as u64);
    let error = check_memory(&device, [("A", &inside), ("B", &outside)]).unwrap_err();
    assert_eq!(error, RuntimeError::NotDeviceMemory { name: "B".to_owned() });
    let much = device.allocate(1 << 45).map(|_| ());
    assert_eq!(much, Err(RuntimeError::OutOfMemory { bytes: 1 << 45 }));
    let stream = Stream::new(&device).unwrap();
    let error = buffer.write(&stream, 1020, &[0; 8]).unwrap_err();
    assert!(matches!(error, RuntimeError::CopyRange { .. }));
}

#[test]
fn events_tell_the_gpus_time_on_a_gpu() {
    let Some((device, _alone)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let (begin, end) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    let buffer = device.allocate(1 << 30).unwrap();
    begin.record(&stream).unwrap();
    buffer.fill(&stream, 0, buffer.len(), 1).unwrap();
    end.record(&stream).unwrap();
    end.synchronize().unwrap();
    let time = end.since(&begin).unwrap();
    assert!(time.as_micros() > 10 && time.as_millis() < 1000, "{time:?}");
}
