//! The kernel's parameters as bytes, and the tensor maps among them.
//!
//! In: declarations and a launch. Out: what `ld.param` reads, and the map at an address. Invariant: numbers and sizes of
//! parameters are those of the text.

use postlude_ptx::launch::{Buffer, Launch, Parameter, TensorMap};

use crate::error::SimError;
use crate::memory::{Global, PARAMETER_BASE};
use crate::program::Program;

/// Parameters of one launch.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    bytes: Vec<u8>,
    /// Maps by their place in the parameters.
    maps: Vec<(u32, TensorMap)>,
}

impl Parameters {
    /// `workspace` is the number of the launch's own buffer.
    pub(crate) fn new(
        program: &Program,
        launch: &Launch,
        workspace: usize,
    ) -> Result<Self, SimError> {
        let declared = &program.head.parameters;
        if declared.len() != launch.parameters.len() {
            return Err(SimError::Launch { why: "has another number of parameters" });
        }
        let mut parameters = Parameters::default();
        for (place, given) in declared.iter().zip(&launch.parameters) {
            let value: Vec<u8> = match given {
                Parameter::Map(map) => {
                    let mut map = map.clone();
                    map.buffer = Buffer(number(map.buffer, workspace)? as u32);
                    parameters.maps.push((place.offset, map));
                    vec![0; 128]
                }
                Parameter::Pointer { buffer, offset } => {
                    let address = Global::address(number(*buffer, workspace)?);
                    address.wrapping_add(*offset).to_le_bytes().to_vec()
                }
                Parameter::U32(value) => value.to_le_bytes().to_vec(),
                Parameter::U64(value) => value.to_le_bytes().to_vec(),
                Parameter::F32(value) => value.to_le_bytes().to_vec(),
            };
            if value.len() != place.bytes as usize {
                return Err(SimError::Launch { why: "has a parameter of another size" });
            }
            parameters.bytes.resize(place.offset as usize, 0);
            parameters.bytes.extend(value);
        }
        Ok(parameters)
    }

    /// The value at a place, of up to 8 bytes.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Option<u64> {
        let end = usize::try_from(offset).ok()?.checked_add(bytes)?;
        let slice = self.bytes.get(end - bytes..end)?;
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(slice);
        Some(u64::from_le_bytes(value))
    }

    /// The map whose generic address this is.
    pub(crate) fn map(&self, address: u64) -> Option<&TensorMap> {
        let offset = address.checked_sub(PARAMETER_BASE)?;
        self.maps.iter().find(|(place, _)| u64::from(*place) == offset).map(|(_, map)| map)
    }
}

fn number(buffer: Buffer, workspace: usize) -> Result<usize, SimError> {
    match buffer {
        Buffer::WORKSPACE => Ok(workspace),
        Buffer(number) if (number as usize) < workspace => Ok(number as usize),
        Buffer(_) => Err(SimError::Launch { why: "names a buffer that is not there" }),
    }
}
