//! Times the run time on the first GPU: loads, launches, threads. Needs a Hopper GPU and its driver, nothing else.
//!
//! Set `CUDA_CACHE_DISABLE=1`, or the driver's own cache answers instead of its compiler.

#![allow(clippy::print_stdout)] // It is a command.

#[path = "../tests/gpu_runtime/programs.rs"]
#[allow(dead_code)] // The tests use the others.
mod programs;

use std::fmt::Display;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use postlude::runtime::cache::DiskCache;
use postlude::runtime::{Device, DeviceBuffer, Function, PreparedLaunch, RuntimeError, Stream};
use postlude_ptx::launch::Buffer;

use programs::Program;

const LAUNCHES: u32 = 10_000;

fn main() -> ExitCode {
    match smoke() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            if let Some(fix) = error.fix() {
                println!("fix: {fix}");
            }
            ExitCode::FAILURE
        }
    }
}

fn smoke() -> Result<(), RuntimeError> {
    let (device, time) = timed(|| Device::open(0))?;
    println!("{device}");
    row("open driver, context and GPU", milliseconds(time));
    loads(&device)?;
    launches(&device)?;
    stress(&device)
}

fn timed<T>(work: impl FnOnce() -> Result<T, RuntimeError>) -> Result<(T, Duration), RuntimeError> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed()))
}

fn row(what: &str, value: impl Display) {
    println!("{what:<44} {value}");
}

fn milliseconds(time: Duration) -> String {
    format!("{:>9.3} ms", time.as_secs_f64() * 1e3)
}

fn loads(device: &Device) -> Result<(), RuntimeError> {
    let folder = std::env::temp_dir().join(format!("postlude-smoke-{}", std::process::id()));
    let cache = DiskCache::at(&folder);
    let load = |program: &Program| -> Result<(Function, Duration), RuntimeError> {
        timed(|| device.load_through(&cache, &program.text, &program.entry))
    };
    let programs = [
        ("first load of the process, compiled", programs::vector_add(10, "first")),
        ("another load, compiled", programs::vector_add(10, "second")),
        ("tensor map kernel, compiled", programs::tensor_copy(8, 32)),
        ("cluster kernel, compiled", programs::cluster_swap(2)),
    ];
    for (what, program) in &programs {
        let (function, time) = load(program)?;
        row(what, format!("{} ({:?})", milliseconds(time), function.origin()));
        if *what == programs[0].0 {
            println!("--- log\n{}\n---", function.log().text().trim_end());
            println!("{:?}", function.usage());
        }
    }
    row("the same from memory", milliseconds(load(&programs[0].1)?.1));
    device.trim()?;
    for (what, program) in &programs {
        let (function, time) = load(program)?;
        let what = what.replace("compiled", "from disk");
        row(&what, format!("{} ({:?})", milliseconds(time), function.origin()));
    }
    std::fs::remove_dir_all(folder).ok();
    Ok(())
}

fn prepare(
    device: &Device,
    program: Program,
    buffers: &[&DeviceBuffer],
) -> Result<PreparedLaunch, RuntimeError> {
    let function = device.load_through(&DiskCache::none(), &program.text, &program.entry)?;
    PreparedLaunch::new(&function, program.launch, &addresses(buffers))
}

fn addresses(buffers: &[&DeviceBuffer]) -> Vec<(Buffer, u64)> {
    (0..).map(Buffer).zip(buffers.iter().map(|buffer| buffer.address())).collect()
}

/// The host's time a launch, in rounds that fit the driver's queue.
fn host_cost(
    stream: &Stream,
    mut launch: impl FnMut() -> Result<(), RuntimeError>,
) -> Result<String, RuntimeError> {
    const ROUND: u32 = 200;
    let mut time = Duration::ZERO;
    for round in 0..=LAUNCHES / ROUND {
        let start = Instant::now();
        (0..ROUND).try_for_each(|_| launch())?;
        // The first round warms up.
        time += if round == 0 { Duration::ZERO } else { start.elapsed() };
        stream.synchronize()?;
    }
    Ok(format!("{:>9.3} us", time.as_secs_f64() * 1e6 / f64::from(LAUNCHES)))
}

fn launches(device: &Device) -> Result<(), RuntimeError> {
    let stream = Stream::new(device)?;
    let memory = [(); 3].map(|()| device.allocate(1 << 20));
    let [a, b, c] = memory;
    let (a, b, c) = (a?, b?, c?);
    let pointers = prepare(device, programs::vector_add(256, ""), &[&a, &b, &c])?;
    row("host cost of a launch, pointers", host_cost(&stream, || pointers.launch(&stream))?);
    let mut maps = prepare(device, programs::tensor_copy(8, 32), &[&a, &b])?;
    row("host cost of a launch, two tensor maps", host_cost(&stream, || maps.launch(&stream))?);
    let (there, back) = (addresses(&[&a, &b]), addresses(&[&b, &a]));
    let mut turn = false;
    let cost = host_cost(&stream, || {
        turn = !turn;
        maps.rebind(if turn { &back } else { &there })?;
        maps.launch(&stream)
    })?;
    row("host cost of a rebind and a launch", cost);
    let scratch = prepare(device, programs::last_arriver(1, 0), &[&c])?;
    row("host cost of a launch with a workspace", host_cost(&stream, || scratch.launch(&stream))?);
    let (_, time) = timed(|| prepare(device, programs::tensor_copy(8, 32), &[&a, &b]))?;
    row("load from memory and prepare", milliseconds(time));
    Ok(())
}

/// 10,000 launches from 8 threads, each on 8 streams, counted by the kernels themselves.
fn stress(device: &Device) -> Result<(), RuntimeError> {
    let setup = Stream::new(device)?;
    let counted = device.allocate(4)?;
    counted.fill(&setup, 0, 4, 0)?;
    setup.synchronize()?;
    let launch = prepare(device, programs::last_arriver(64, 0), &[&counted])?;
    let work = || -> Result<(), RuntimeError> {
        let streams: Vec<Stream> = (0..8).map(|_| Stream::new(device)).collect::<Result<_, _>>()?;
        for round in 0..LAUNCHES / 8 {
            launch.launch(&streams[round as usize % streams.len()])?;
        }
        streams.iter().try_for_each(Stream::synchronize)
    };
    let start = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        results.collect::<Result<Vec<()>, _>>()
    })?;
    let time = start.elapsed();
    let mut count = [0; 4];
    counted.read(&setup, 0, &mut count)?;
    let count = u32::from_le_bytes(count);
    let verdict = if count == LAUNCHES { "all right" } else { "WRONG" };
    row("8 threads on 8 streams each", format!("{} {count} {verdict}", milliseconds(time)));
    assert_eq!(count, LAUNCHES);
    Ok(())
}
