//! The simulator's tensor cores against a GPU's, bit for bit: every operand type through a kernel of one instruction.
//!
//! Operands come from a seed. What a GPU computed is kept as hashes in `golden/tensor_cores.txt`
//! (the test on a Hopper GPU prints them); without a GPU the model is held to those.

#![allow(clippy::print_stderr)] // A test that is skipped says so.

#[path = "tensor_cores/data.rs"]
mod data;
#[path = "tensor_cores/kernel.rs"]
mod kernel;

use data::{Data, data};
use kernel::{COLUMNS, ROW_BYTES, ROWS, program};
use postlude::runtime::{Device, DeviceBuffer, PreparedLaunch, RuntimeError, Stream};
use postlude_corpus::fingerprint;
use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::MatrixType;
use postlude_ptx::launch::{Buffer, Launch};
use postlude_ptx::modifier::SumOverflow;
use postlude_sim::numerics::tensor::{
    Core, Prepared, Sign, multiply_accumulate, multiply_accumulate_integer,
};

const RECORDED: &str = include_str!("../../../golden/tensor_cores.txt");
const SEED: u64 = 20_261;
/// CTAs of a launch: eight have 131,072 outputs.
const BLOCKS: u32 = 8;
/// Every type, and the pairs that may differ.
const PAIRS: [(MatrixType, MatrixType); 11] = [
    (MatrixType::F16, MatrixType::F16),
    (MatrixType::BF16, MatrixType::BF16),
    (MatrixType::TF32, MatrixType::TF32),
    (MatrixType::E4M3, MatrixType::E4M3),
    (MatrixType::E5M2, MatrixType::E5M2),
    (MatrixType::E4M3, MatrixType::E5M2),
    (MatrixType::E5M2, MatrixType::E4M3),
    (MatrixType::S8, MatrixType::S8),
    (MatrixType::U8, MatrixType::U8),
    (MatrixType::S8, MatrixType::U8),
    (MatrixType::U8, MatrixType::S8),
];

fn name((a, b): (MatrixType, MatrixType)) -> String {
    format!("{a:?}x{b:?}").to_lowercase()
}

/// Elements of a block of rows.
fn rows(bytes: &[u8], of: MatrixType, count: u32, block: u32) -> Vec<Vec<u32>> {
    let row = ROW_BYTES as usize;
    let from = (block * count) as usize * row;
    let element = |bytes: &[u8]| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(word)
    };
    bytes[from..from + count as usize * row]
        .chunks_exact(row)
        .map(|row| row.chunks_exact(of.bytes() as usize).map(element).collect())
        .collect()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// What the model says.
fn modelled((a, b): (MatrixType, MatrixType), data: &Data) -> Vec<u8> {
    let mut result = Vec::with_capacity(data.before.len());
    let tile = (ROWS * COLUMNS * 4) as usize;
    for block in 0..BLOCKS {
        let prepare = |bytes: &[u8], of: MatrixType, count: u32| {
            Prepared::new(of, Sign::Plus, &rows(bytes, of, count, block))
        };
        let (left, right) = (prepare(&data.a, a, ROWS), prepare(&data.b, b, COLUMNS));
        let before: Vec<u32> = words(&data.before[block as usize * tile..][..tile]).collect();
        let before = before.chunks_exact(COLUMNS as usize);
        if matches!(a, MatrixType::S8 | MatrixType::U8) {
            let mut d: Vec<Vec<i32>> =
                before.map(|row| row.iter().map(|bits| *bits as i32).collect()).collect();
            multiply_accumulate_integer(&left, &right, &mut d, SumOverflow::Wrap, true);
            result.extend(d.iter().flatten().flat_map(|value| value.to_le_bytes()));
        } else {
            let mut d: Vec<Vec<f32>> =
                before.map(|row| row.iter().map(|bits| f32::from_bits(*bits)).collect()).collect();
            multiply_accumulate(Core::Warpgroup, &left, &right, &mut d, true);
            result.extend(d.iter().flatten().flat_map(|value| value.to_bits().to_le_bytes()));
        }
    }
    result
}

/// What the GPU says.
fn computed(
    device: &Device,
    (entry, launch): (Entry, Launch),
    data: &Data,
) -> Result<Vec<u8>, RuntimeError> {
    let stream = Stream::new(device)?;
    let function = device.load(&entry.to_string(), &entry.name)?;
    let buffers: Vec<DeviceBuffer> = [&data.a, &data.b, &data.before, &data.before]
        .into_iter()
        .map(|bytes| {
            let buffer = device.allocate(bytes.len() as u64)?;
            buffer.write(&stream, 0, bytes)?;
            Ok(buffer)
        })
        .collect::<Result<_, RuntimeError>>()?;
    let addresses: Vec<(Buffer, u64)> =
        (0..).zip(&buffers).map(|(each, buffer)| (Buffer(each), buffer.address())).collect();
    PreparedLaunch::new(&function, launch, &addresses)?.launch(&stream)?;
    let result = buffers[3].to_vec(&stream)?;
    stream.synchronize()?;
    Ok(result)
}

fn row(pair: (MatrixType, MatrixType), result: &[u8]) -> String {
    format!(
        "{} seed {SEED} outputs {} hash {:016x}",
        name(pair),
        result.len() / 4,
        fingerprint(result)
    )
}

#[test]
fn the_model_gives_what_a_gpu_gave() {
    for pair in PAIRS {
        let result = modelled(pair, &data(pair.0, pair.1, BLOCKS, SEED));
        let wanted = row(pair, &result);
        assert!(RECORDED.lines().any(|line| line == wanted), "not recorded: {wanted}");
    }
}

/// What is launched can be emitted, whether or not there is a GPU.
#[test]
fn every_pair_of_types_has_a_kernel() {
    for (a, b) in PAIRS {
        assert!(program(a, b, BLOCKS).0.to_string().contains("wgmma.mma_async"), "{a:?} {b:?}");
    }
}

#[test]
fn gpu_tensor_cores_agree_with_the_model_to_the_bit() {
    let device = match Device::open(0) {
        Ok(device) if device.capability() == (9, 0) => device,
        Ok(device) => return eprintln!("SKIPPED: {device} is not sm_90"),
        Err(error) => return eprintln!("SKIPPED: no GPU: {error}"),
    };
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    for pair in PAIRS {
        let data = data(pair.0, pair.1, BLOCKS, SEED);
        let got = computed(&device, program(pair.0, pair.1, BLOCKS), &data).expect("it runs");
        let want = modelled(pair, &data);
        lines.push(row(pair, &got));
        let different: Vec<usize> = words(&got)
            .zip(words(&want))
            .enumerate()
            .filter(|(_, (g, w))| g != w)
            .map(|(at, _)| at)
            .collect();
        if let Some(first) = different.first() {
            let bits = |bytes: &[u8]| words(bytes).nth(*first).unwrap_or_default();
            wrong.push(format!(
                "{}: {} differ, the first at {first}: {:08x} from the GPU, {:08x} modelled, {:08x} before",
                name(pair),
                different.len(),
                bits(&got),
                bits(&want),
                bits(&data.before)
            ));
        }
    }
    eprintln!("{}", lines.join("\n"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
