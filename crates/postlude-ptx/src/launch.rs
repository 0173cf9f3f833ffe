//! What a launch needs beside the code: plain data that a driver and a simulator consume alike.
//!
//! Buffers are named by number: the caller of a launch says which memory each is.

use std::fmt;

/// The facts of one launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// CTAs along x, y and z; a multiple of the cluster.
    pub grid: [u32; 3],
    /// CTAs of a cluster; all ones without clusters.
    pub cluster: [u32; 3],
    /// Threads of a CTA.
    pub threads: u32,
    /// Dynamic shared memory of a CTA, in bytes.
    pub shared_bytes: u32,
    /// The kernel's parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Bytes of scratch memory that the launch needs for itself, as the buffer [`Buffer::WORKSPACE`]: zero before it, and
    /// left zero by it.
    pub workspace_bytes: u64,
}

/// A line for the sizes, and one for each parameter.
impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.grid;
        let [across, down, deep] = self.cluster;
        writeln!(
            f,
            "grid {x} x {y} x {z}, cluster {across} x {down} x {deep}, {} threads",
            self.threads
        )?;
        writeln!(
            f,
            "{} bytes shared, {} bytes of workspace",
            self.shared_bytes, self.workspace_bytes
        )?;
        self.parameters.iter().try_for_each(|parameter| writeln!(f, "{parameter}"))
    }
}

/// Memory that a launch reads or writes, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Buffer(pub u32);

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of_table() {
            _ if *self == Buffer::WORKSPACE => f.write_str("workspace"),
            Some(Buffer(tensor)) => write!(f, "table {tensor}"),
            None => write!(f, "buffer {}", self.0),
        }
    }
}

impl Buffer {
    /// The launch's own scratch memory.
    pub const WORKSPACE: Buffer = Buffer(u32::MAX);
    /// What numbers of tables are beyond those of their tensors.
    const TABLES: u32 = 1 << 30;

    /// The table of a buffer that holds a list of tensors: 32-bit numbers, one a tensor, of steps from the buffer's start.
    #[must_use]
    pub const fn table(self) -> Buffer {
        Buffer(self.0 + Buffer::TABLES)
    }

    /// The buffer that this one is the table of, if it is a table.
    pub fn of_table(self) -> Option<Buffer> {
        let tensor = self.0.checked_sub(Buffer::TABLES)?;
        (self != Buffer::WORKSPACE).then_some(Buffer(tensor))
    }
}

/// One parameter of a kernel. Two are equal when their bits are.
#[derive(Clone, Debug)]
pub enum Parameter {
    /// A tensor map, passed by value: 128 bytes aligned to 64.
    Map(TensorMap),
    /// The address of a buffer, plus a number of bytes.
    Pointer {
        /// Which.
        buffer: Buffer,
        /// How far into it.
        offset: u64,
    },
    /// A 32-bit number.
    U32(u32),
    /// A 64-bit number.
    U64(u64),
    /// A float.
    F32(f32),
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::U32(value) => write!(f, "u32 {value}"),
            Parameter::U64(value) => write!(f, "u64 {value}"),
            Parameter::F32(value) => write!(f, "f32 {value:?}"),
            Parameter::Pointer { buffer, offset } => write!(f, "pointer {buffer} + {offset}"),
            Parameter::Map(map) => write!(f, "map {map}"),
        }
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Parameter) -> bool {
        match (self, other) {
            (Parameter::Map(a), Parameter::Map(b)) => a == b,
            (
                Parameter::Pointer { buffer: a, offset: first },
                Parameter::Pointer { buffer: b, offset: second },
            ) => a == b && first == second,
            (Parameter::U32(a), Parameter::U32(b)) => a == b,
            (Parameter::U64(a), Parameter::U64(b)) => a == b,
            (Parameter::F32(a), Parameter::F32(b)) => a.to_bits() == b.to_bits(),
            (
                Parameter::Map(_)
                | Parameter::Pointer { .. }
                | Parameter::U32(_)
                | Parameter::U64(_)
                | Parameter::F32(_),
                _,
            ) => false,
        }
    }
}

/// Elements that a tensor map copies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Element {
    /// One byte.
    U8,
    /// Two bytes that are no number.
    U16,
    /// Half precision.
    F16,
    /// The upper half of single precision.
    BF16,
    /// Single precision.
    F32,
    /// Four bytes.
    I32,
}

impl Element {
    /// Its size.
    pub const fn bytes(self) -> u32 {
        match self {
            Element::U8 => 1,
            Element::U16 | Element::F16 | Element::BF16 => 2,
            Element::F32 | Element::I32 => 4,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::U8 => "u8",
            Element::U16 => "u16",
            Element::F16 => "f16",
            Element::BF16 => "bf16",
            Element::F32 => "f32",
            Element::I32 => "i32",
        })
    }
}

/// How a box is laid out in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Swizzle {
    /// Row after row.
    None,
    /// 16-byte chunks exchanged within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
}

/// A view of a buffer as a tensor of up to five dims, the innermost first, copied box by box.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorMap {
    /// The memory.
    pub buffer: Buffer,
    /// Bytes from the buffer's start to the tensor's, which may lie before it where nothing there is read.
    pub offset: i64,
    /// What it holds.
    pub element: Element,
    /// Sizes, innermost first.
    pub sizes: Vec<u64>,
    /// Bytes between neighbours along each dim but the innermost.
    pub strides: Vec<u64>,
    /// Sizes of the box that one copy moves.
    pub box_sizes: Vec<u32>,
    /// Its layout in shared memory.
    pub swizzle: Swizzle,
}

impl fmt::Display for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorMap { buffer, offset, element, sizes, strides, box_sizes, swizzle } = self;
        let swizzle = match swizzle {
            Swizzle::None => 0,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        };
        write!(
            f,
            "{buffer} + {offset}, {element} {sizes:?}, strides {strides:?}, box {box_sizes:?}, swizzle {swizzle}"
        )
    }
}
