//! Random signatures: a product and inputs of every kind.

use crate::dtype::DType;
use crate::graph::{Graph, Input, InputId, Orientation, Product};
use crate::shape::Dim;

use super::Random;

fn tensor(name: &str, dtype: DType, dims: &[&str]) -> Input {
    Input {
        name: name.to_owned(),
        dtype,
        dims: Some(dims.iter().map(|dim| Dim::from(*dim)).collect()),
        same_as: None,
        computed: None,
        result: None,
        in_mainloop: false,
    }
}

/// A graph without a body.
pub(super) fn signature(random: &mut Random) -> Graph {
    let dtype =
        random.of(&[DType::BF16, DType::BF16, DType::F16, DType::F32, DType::I8, DType::F8E4M3]);
    let batched = random.one_in(3);
    let shared = batched && random.one_in(2);
    let left: &[&str] = if batched { &["L", "M", "K"] } else { &["M", "K"] };
    let (right, orientation): (&[&str], _) = match (batched && !shared, random.one_in(2)) {
        (true, true) => (&["L", "N", "K"], Orientation::Transposed),
        (true, false) => (&["L", "K", "N"], Orientation::Plain),
        (false, true) => (&["N", "K"], Orientation::Transposed),
        (false, false) => (&["K", "N"], Orientation::Plain),
    };
    let floats = [DType::BF16, DType::F32, DType::F16, DType::F8E4M3, DType::F8E5M2];
    let mut inputs = vec![tensor("A", dtype, left), tensor("B", dtype, right)];
    inputs.push(tensor("C", random.of(&floats), &["M", "N"]));
    inputs.push(tensor("bias", random.of(&floats), &["N"]));
    inputs.push(tensor("scale", DType::F32, &["M"]));
    inputs.push(tensor("index", DType::I32, &["M"]));
    inputs.push(tensor("mask", random.of(&[DType::Bool, DType::B1]), &["M", "N"]));
    inputs.push(tensor("rows", DType::Bool, &["M"]));
    inputs.push(tensor(
        "bytes",
        random.of(&[DType::I8, DType::U8, DType::I4, DType::U4]),
        &["M", "N"],
    ));
    inputs.push(tensor("blocks", DType::F32, &["M", "N/4"]));
    inputs.push(tensor("half", DType::F32, &["N/2"]));
    inputs.push(tensor("loose", DType::F32, &[]));
    inputs.push(Input {
        name: "alpha".to_owned(),
        dtype: DType::F32,
        dims: None,
        same_as: None,
        computed: None,
        result: None,
        in_mainloop: false,
    });
    inputs.push(Input {
        name: "offset".to_owned(),
        dtype: DType::I32,
        dims: None,
        same_as: None,
        computed: None,
        result: None,
        in_mainloop: false,
    });
    if batched {
        inputs.push(tensor("each", DType::F32, &["L"]));
        inputs.push(tensor("shift", DType::F32, &["L", "N"]));
    }
    let operands = ((InputId(0), Orientation::Plain), (InputId(1), orientation));
    let Some((space, product)) = Product::of(&inputs, operands.0, operands.1) else {
        panic!("compiler bug: the operands of a random product do not fit")
    };
    Graph::new("random", inputs, space, vec![product])
}
