//! Inputs of half a byte, along every dim and wherever they may lie: threads load bytes and shift.

use postlude::target::Tile;
use postlude::tensor::contiguous;
use postlude::{Argument, DType, Tensor};
use postlude_corpus::Random;

use super::problems::{Bound, Data, Layout, Stored};
use super::{check_on, fitted, for_each, tiles};

/// Every value in turn, from another one on for each tensor.
fn drawn(dtype: DType, shape: &[usize], from: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let lowest = if dtype == DType::I4 { -8.0 } else { 0.0 };
    let values: Vec<f64> = (0..count).map(|at| ((at * 5 + from) % 16) as f64 + lowest).collect();
    Tensor::from_values(dtype, shape, &values).expect("it fits")
}

/// The same values with the outermost dim backwards, gaps of three bytes between rows and one byte before the first.
fn scattered(tensor: &Tensor) -> Tensor {
    let shape = tensor.shape().to_vec();
    let mut room = shape.clone();
    *room.last_mut().expect("it has dims") += 6;
    let mut strides = contiguous(&room);
    let mut offset = 2;
    if shape.len() > 1 {
        offset += (shape[0] - 1) * strides[0].unsigned_abs();
        strides[0] = -strides[0];
    }
    let bytes = vec![0xff; tensor.dtype().bytes_for(room.iter().product::<usize>() + 2)];
    let moved = Tensor::with_strides(tensor.dtype(), &shape, &strides, offset, bytes);
    let mut moved = moved.expect("it lies in whole bytes");
    moved.view_mut().copy_from(tensor.view());
    moved
}

fn check_half_bytes(about: &str, text: &str, sizes: [usize; 4], tile: Option<Tile>) {
    for lie in [Tensor::clone, scattered] {
        let random = &mut Random::new(11);
        let stored = [Stored::default(); 2];
        let mut bound = Bound::of(about, text, stored, sizes, Data::Integers, random);
        let packed = bound.kernel.defined().inputs().iter().enumerate();
        let packed = packed.filter(|(_, input)| input.dtype.is_packed());
        let laid: Vec<(String, Tensor)> = packed
            .map(|(place, input)| {
                let shape = bound.problem.shape(input.dims.as_deref().unwrap_or_default());
                (input.name.clone(), lie(&drawn(input.dtype, &shape, place)))
            })
            .collect();
        for (name, tensor) in laid {
            bound.arguments.insert(name, Argument::Tensor(tensor));
        }
        let schedule = tile.and_then(|tile| fitted(&bound, tile));
        check_on(&[None], &bound, schedule.as_ref(), Layout::Packed);
    }
}

#[test]
fn inputs_of_half_a_byte_are_right() {
    let dims = ["M, N", "N, M", "B, M, N", "B, N, M", "M, N, B", "M/2, N", "M, N/8", "N/2, M/2"];
    for_each(&dims, |dims| {
        let text = format!(
            "kernel k(A: f16[B, M, K], W: f16[N, K], x: i4[{dims}], y: u4[{dims}], c: i4[N], r: u4[M]) \
             -> (D: f32[B, M, N], E: i32[B, M, N]) \
             {{ z = A @ W.T\n D = z * f32(x) + y\n E = c * r - x }}"
        );
        check_half_bytes(dims, &text, [2, 68, 144, 40], None);
    });
}

#[test]
fn inputs_of_half_a_byte_are_right_on_every_tile() {
    let text = "kernel k(A: f16[M, K], W: f16[N, K], x: i4[M, N], y: u4[N, M]) -> D: bf16[M, N] \
                { D = A @ W.T * x + y }";
    let varieties: Vec<_> = tiles(8).collect();
    for_each(&varieties, |tile| {
        let (rows, columns) =
            (tile.rows * tile.cluster.rows(), tile.columns * tile.cluster.columns());
        let sizes = [1, rows as usize + 6, columns as usize - 6, 72];
        check_half_bytes("tiles", text, sizes, Some(**tile));
    });
}
