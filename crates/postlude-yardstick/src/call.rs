//! A call of ours, prepared for launches on one set of buffers.

use std::collections::BTreeMap;

use postlude::emit::sm90 as emit;
use postlude::plan::sm90::{self as plan, Placements, Sm90, Sm90Schedule};
use postlude::runtime::{
    Device, DeviceArgument, DeviceTensor, Function, PreparedLaunch, RuntimeError, Stream, validate,
};
use postlude::{Compiled, MathMode, Sizes};
use postlude_ptx::launch::Buffer;

/// A call with everything checked and encoded.
pub(crate) struct PreparedCall {
    launch: PreparedLaunch,
    schedule: Sm90Schedule,
}

impl PreparedCall {
    /// Queues it.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), RuntimeError> {
        self.launch.launch(stream)
    }

    /// How it is run.
    pub(crate) fn schedule(&self) -> &Sm90Schedule {
        &self.schedule
    }

    /// The loaded kernel.
    pub(crate) fn function(&self) -> &Function {
        self.launch.function()
    }
}

/// Prepares a call; the error is why it cannot be run, in words.
pub(crate) fn prepare(
    compiled: &Compiled,
    device: &Device,
    inputs: &BTreeMap<String, DeviceArgument>,
    outputs: &BTreeMap<String, DeviceTensor>,
    sizes: &Sizes,
) -> Result<PreparedCall, String> {
    let graph = compiled.optimised();
    let problem = validate(graph, device.ordinal(), inputs, outputs, sizes).map_err(text)?;
    let chip = Sm90 { processors: device.processors(), shared_bytes: device.shared_bytes() };
    // The yardstick's own tensors have no gaps.
    let placements = Placements::packed(graph, &problem);
    let schedule =
        plan::plan(graph, &problem, &placements, chip, MathMode::Default).map_err(text)?;
    let entry = emit::emit(graph, &schedule, MathMode::Default);
    let function = device.load(&entry.to_string(), emit::ENTRY).map_err(text)?;
    let (mut scalars, mut addresses) = (Vec::new(), Vec::new());
    for (place, input) in graph.inputs().iter().enumerate() {
        match &inputs[&input.name] {
            DeviceArgument::Scalar(value) => scalars.push(Some(*value)),
            DeviceArgument::Tensor(tensor) => {
                scalars.push(None);
                addresses.push((Buffer(place as u32), tensor.address));
            }
        }
    }
    for (place, output) in graph.outputs().iter().enumerate() {
        let buffer = Buffer((graph.inputs().len() + place) as u32);
        addresses.push((buffer, outputs[&output.name].address));
    }
    let facts = emit::launch(graph, &schedule, &problem, chip, &scalars, &placements);
    let launch = PreparedLaunch::new(&function, facts, &addresses).map_err(text)?;
    Ok(PreparedCall { launch, schedule })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
