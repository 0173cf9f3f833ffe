//! A launch's parameters as bytes.
//!
//! In: launch facts, and an address for each buffer. Out: one block with every parameter at its place. The places are
//! computed once; addresses may be written again and again without allocating.

use postlude_ptx::launch::{Buffer, Launch, Parameter, TensorMap};

use crate::runtime::error::RuntimeError;

/// The most bytes that parameters take: whole lines of the 32,764 that PTX has from version 8.1 on (PTX ISA, "Kernel
/// Function Parameters").
const MAX_BYTES: usize = 32_764 / MAP_ALIGNMENT * MAP_ALIGNMENT;
/// The bytes of the parameters of most launches, which lie on the stack.
const FEW_BYTES: usize = 4096;
/// What a tensor map is aligned to.
const MAP_ALIGNMENT: usize = 64;
const MAP_BYTES: usize = 128;

/// Bytes that are aligned as tensor maps need.
#[repr(C, align(64))]
pub(crate) struct Lines([u8; FEW_BYTES]);

/// The parameters of a launch, aligned as tensor maps need.
#[allow(clippy::large_enum_variant)] // On the stack, few cost a launch no allocation.
pub(crate) enum Block {
    Few(Lines),
    /// From the first aligned byte on.
    Many(Box<[u8]>, usize),
}

impl Block {
    /// Zeros, at least as many as the bytes of a layout.
    pub(crate) fn of(layout: &Layout) -> Block {
        if layout.bytes <= FEW_BYTES {
            return Block::Few(Lines([0; FEW_BYTES]));
        }
        let bytes = vec![0; layout.bytes + MAP_ALIGNMENT].into_boxed_slice();
        let start = bytes.as_ptr().addr().wrapping_neg() % MAP_ALIGNMENT;
        Block::Many(bytes, start)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Block::Few(lines) => &lines.0,
            Block::Many(bytes, start) => &bytes[*start..],
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Block::Few(lines) => &mut lines.0,
            Block::Many(bytes, start) => &mut bytes[*start..],
        }
    }
}

/// Where each parameter lies in a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    offsets: Vec<u32>,
    bytes: usize,
}

impl Layout {
    /// The layout of a launch's parameters, if they are what the kernel declares.
    pub(crate) fn new(launch: &Launch, declared: &[u32]) -> Result<Layout, RuntimeError> {
        let (mut offsets, mut bytes) = (Vec::with_capacity(launch.parameters.len()), 0usize);
        for parameter in &launch.parameters {
            let (size, alignment) = size_and_alignment(parameter);
            let offset = bytes.next_multiple_of(alignment);
            offsets.push(offset as u32);
            bytes = offset + size;
        }
        let sizes =
            launch.parameters.iter().map(|parameter| size_and_alignment(parameter).0 as u32);
        if bytes > MAX_BYTES {
            return Err(RuntimeError::Parameters { count: offsets.len(), bytes });
        }
        if !sizes.eq(declared.iter().copied()) {
            return Err(RuntimeError::ParameterMismatch {
                declared: declared.to_vec(),
                given: launch.parameters.iter().map(|p| size_and_alignment(p).0 as u32).collect(),
            });
        }
        Ok(Layout { offsets, bytes })
    }

    /// The place of each parameter.
    pub(crate) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// The bytes that they take together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the parameters that `which` chooses.
    pub(crate) fn write(
        &self,
        launch: &Launch,
        block: &mut Block,
        which: impl Fn(&Parameter) -> bool,
        address: impl Fn(Buffer) -> Result<u64, RuntimeError>,
        encode: impl Fn(&TensorMap, u64) -> Result<[u8; MAP_BYTES], RuntimeError>,
    ) -> Result<(), RuntimeError> {
        for (parameter, offset) in launch.parameters.iter().zip(&self.offsets) {
            if !which(parameter) {
                continue;
            }
            let mut put = |bytes: &[u8]| {
                block.bytes_mut()[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            };
            match parameter {
                Parameter::Map(map) => put(&encode(map, address(map.buffer)?)?),
                Parameter::Pointer { buffer, offset } => {
                    put(&address(*buffer)?.wrapping_add(*offset).to_le_bytes());
                }
                Parameter::U32(value) => put(&value.to_le_bytes()),
                Parameter::U64(value) => put(&value.to_le_bytes()),
                Parameter::F32(value) => put(&value.to_le_bytes()),
            }
        }
        Ok(())
    }
}

/// The buffer that a parameter leads to.
pub(crate) fn buffer(parameter: &Parameter) -> Option<Buffer> {
    match parameter {
        Parameter::Map(map) => Some(map.buffer),
        Parameter::Pointer { buffer, .. } => Some(*buffer),
        Parameter::U32(_) | Parameter::U64(_) | Parameter::F32(_) => None,
    }
}

const fn size_and_alignment(parameter: &Parameter) -> (usize, usize) {
    match parameter {
        Parameter::Map(_) => (MAP_BYTES, MAP_ALIGNMENT),
        Parameter::Pointer { .. } | Parameter::U64(_) => (8, 8),
        Parameter::U32(_) | Parameter::F32(_) => (4, 4),
    }
}

#[cfg(test)]
mod tests {
    use postlude_ptx::launch::{Element, Swizzle};

    use super::*;

    fn map(buffer: Buffer) -> Parameter {
        Parameter::Map(TensorMap {
            buffer,
            offset: 0,
            element: Element::F32,
            sizes: vec![32],
            strides: vec![],
            box_sizes: vec![32],
            swizzle: Swizzle::None,
        })
    }

    fn launch(parameters: Vec<Parameter>) -> Launch {
        let (grid, cluster) = ([1, 1, 1], [1, 1, 1]);
        Launch { grid, cluster, threads: 32, shared_bytes: 0, parameters, workspace_bytes: 0 }
    }

    #[test]
    fn parameters_lie_at_multiples_of_their_alignment() {
        let launch = launch(vec![
            Parameter::U32(7),
            Parameter::Pointer { buffer: Buffer(1), offset: 16 },
            Parameter::F32(1.5),
            map(Buffer(0)),
            Parameter::U64(u64::MAX),
        ]);
        let layout = Layout::new(&launch, &[4, 8, 4, 128, 8]).unwrap();
        assert_eq!(layout.offsets(), [0, 8, 16, 64, 192]);
        assert_eq!(layout.bytes(), 200);
        let mut block = Block::of(&layout);
        let address = |buffer: Buffer| Ok(0x1000 * (u64::from(buffer.0) + 1));
        let encode = |_: &TensorMap, address: u64| Ok([(address >> 12) as u8; 128]);
        layout.write(&launch, &mut block, |_| true, address, encode).unwrap();
        assert_eq!(block.bytes()[..4], 7u32.to_le_bytes());
        assert_eq!(block.bytes()[8..16], 0x2010u64.to_le_bytes());
        assert_eq!(block.bytes()[16..20], 1.5f32.to_le_bytes());
        assert_eq!(block.bytes()[64..192], [1; 128]);
        assert_eq!(block.bytes()[192..200], [0xff; 8]);
        assert!(block.bytes().as_ptr().addr().is_multiple_of(64));
    }

    #[test]
    fn only_chosen_parameters_are_written_again() {
        let launch = launch(vec![map(Buffer(0)), map(Buffer::WORKSPACE), Parameter::U32(7)]);
        let layout = Layout::new(&launch, &[128, 128, 4]).unwrap();
        let mut block = Block::of(&layout);
        let chosen = |parameter: &Parameter| buffer(parameter) == Some(Buffer::WORKSPACE);
        layout.write(&launch, &mut block, chosen, |_| Ok(16), |_, _| Ok([9; 128])).unwrap();
        assert_eq!(block.bytes()[..128], [0; 128]);
        assert_eq!(block.bytes()[128..256], [9; 128]);
        assert_eq!(block.bytes()[256..260], [0; 4]);
    }

    #[test]
    fn a_launch_has_what_the_kernel_declares() {
        let launch = launch(vec![Parameter::U32(7), Parameter::U64(7)]);
        assert!(Layout::new(&launch, &[4, 8]).is_ok());
        for declared in [&[4][..], &[4, 8, 8], &[8, 4], &[]] {
            let error = Layout::new(&launch, declared).unwrap_err();
            assert!(matches!(error, RuntimeError::ParameterMismatch { .. }), "{error}");
        }
    }

    #[test]
    fn too_many_parameters_are_refused() {
        for (count, fits) in [(33, true), (255, true), (256, false)] {
            let launch = launch(vec![map(Buffer(0)); count]);
            let layout = Layout::new(&launch, &vec![128; count]);
            assert_eq!(layout.is_ok(), fits, "{count} maps");
            let Ok(layout) = layout else { continue };
            let block = Block::of(&layout);
            assert!(block.bytes().len() >= layout.bytes());
            assert!(block.bytes().as_ptr().addr().is_multiple_of(64));
        }
    }
}
