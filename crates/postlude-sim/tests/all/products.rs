//! Products of a warpgroup: every type, layout and swizzle, with A in shared memory and in registers.

use std::fmt::Write;

use crate::plain::Plain;
use postlude_ptx::launch::{Buffer, Element, Parameter, Swizzle, TensorMap};
use postlude_sim::Timing;

/// Rows of A, and columns of B.
const M: usize = 64;
const N: usize = 24;
/// Where B and the barrier lie in shared memory.
const B_START: usize = 16384;
const BARRIER: usize = 32768;

/// How a type spells itself, how wide it is, and how it writes a small whole number.
struct Type {
    name: &'static str,
    bytes: usize,
    encode: fn(i32) -> u32,
}

const TYPES: &[Type] = &[
    Type { name: "bf16", bytes: 2, encode: |x| (x as f32).to_bits() >> 16 },
    Type { name: "f16", bytes: 2, encode: |x| fifth(x) << 8 },
    Type { name: "tf32", bytes: 4, encode: |x| (x as f32).to_bits() },
    Type { name: "e5m2", bytes: 1, encode: fifth },
    Type { name: "e4m3", bytes: 1, encode: fourth },
    Type { name: "s8", bytes: 1, encode: |x| x as u32 & 0xff },
    Type { name: "u8", bytes: 1, encode: |x| x.unsigned_abs() },
];

/// 5 bits of exponent, 2 of fraction.
fn fifth(x: i32) -> u32 {
    let magnitude = [0, 0x3c, 0x40, 0x42][x.unsigned_abs() as usize];
    if x < 0 { magnitude | 0x80 } else { magnitude }
}

/// 4 bits of exponent, 3 of fraction.
fn fourth(x: i32) -> u32 {
    let magnitude = [0, 0x38, 0x40, 0x44][x.unsigned_abs() as usize];
    if x < 0 { magnitude | 0x80 } else { magnitude }
}

fn a_value(row: usize, k: usize) -> i32 {
    ((row * 5 + k * 3) % 7) as i32 - 3
}

fn b_value(row: usize, k: usize) -> i32 {
    ((row * 3 + k * 11 + 1) % 7) as i32 - 3
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Major {
    K,
    Mn,
}

#[derive(Clone, Copy)]
struct Case<'t> {
    of: &'t Type,
    swizzle: Swizzle,
    major: Major,
    in_registers: bool,
    negate: bool,
    /// Whether sums are of half precision.
    half: bool,
}

impl Case<'_> {
    /// Bytes of a row of the pattern.
    fn width(&self) -> usize {
        match self.swizzle {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// Instructions one after the other along K.
    fn steps(&self) -> usize {
        match self.major {
            Major::K => (self.width() / 32).max(1),
            Major::Mn => 2,
        }
    }

    fn depth(&self) -> usize {
        self.steps() * 32 / self.of.bytes
    }

    /// The matrix in memory: rows of K, or K rows.
    fn bytes(&self, rows: usize, value: fn(usize, usize) -> i32) -> Vec<u8> {
        let (outer, inner) =
            if self.major == Major::K { (rows, self.depth()) } else { (self.depth(), rows) };
        let mut bytes = Vec::new();
        for (one, other) in (0..outer).flat_map(|one| (0..inner).map(move |other| (one, other))) {
            let (row, k) = if self.major == Major::K { (one, other) } else { (other, one) };
            bytes.extend(&(self.of.encode)(value(row, k)).to_le_bytes()[..self.of.bytes]);
        }
        bytes
    }

    /// Boxes are one row of the pattern wide.
    fn map(&self, rows: usize, offset: usize) -> (TensorMap, usize) {
        let (outer, inner) =
            if self.major == Major::K { (rows, self.depth()) } else { (self.depth(), rows) };
        let elements = self.width() / self.of.bytes;
        let element = [Element::U8, Element::BF16, Element::F32, Element::F32][self.of.bytes - 1];
        let map = TensorMap {
            buffer: Buffer(0),
            offset: offset as i64,
            element,
            sizes: vec![inner as u64, outer as u64],
            strides: vec![(inner * self.of.bytes) as u64],
            box_sizes: vec![elements as u32, outer as u32],
            swizzle: self.swizzle,
        };
        (map, inner.div_ceil(elements))
    }

    /// Leading and stride offsets, and how far the next instruction starts.
    fn layout(&self, rows: usize) -> (usize, usize, usize) {
        let width = self.width();
        match (self.major, self.swizzle) {
            (Major::K, Swizzle::None) => (rows * 16, 128, 2 * rows * 16),
            (Major::K, _) => (16, width * 8, 32),
            (Major::Mn, Swizzle::None) => (128, self.depth() * 16, 256),
            (Major::Mn, _) => (self.depth() * width, width * 8, 16 * width),
        }
    }

    fn descriptor(&self, start: usize, rows: usize, step: usize) -> String {
        let mode = match self.swizzle {
            Swizzle::None => 0_u64,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        let (leading, stride, next) = self.layout(rows);
        let bits = ((leading / 16) as u64) << 16 | ((stride / 16) as u64) << 32 | mode << 62;
        let at = start + step * next;
        format!(
            "add.u32 %r1, %r50, {at};\nshr.u32 %r1, %r1, 4;\ncvt.u64.u32 %rd4, %r1;\nor.b64 %rd4, %rd4, {};\n",
            bits as i64
        )
    }

    fn body(&self, a_boxes: usize, b_boxes: usize) -> String {
        let width = self.width();
        let mut text = format!(
            "mov.b32 %r50, shared_memory;\nmov.u32 %r0, %tid.x;\nadd.u32 %r51, %r50, {BARRIER};
setp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;\nmbarrier.init.shared::cta.b64 [%r51], 1;
fence.mbarrier_init.release.cluster;\nL1:\nbar.sync 0;\n@%p0 bra L2;\n"
        );
        let outer = |rows| if self.major == Major::K { rows } else { self.depth() };
        let total = (a_boxes * outer(M) + b_boxes * outer(N)) * width;
        writeln!(text, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r51], {total};").unwrap();
        for (name, start, rows, boxes) in [("a", 0, M, a_boxes), ("b", B_START, N, b_boxes)] {
            writeln!(text, "mov.b64 %rd2, {name};\ncvta.param.u64 %rd3, %rd2;").unwrap();
            for each in 0..boxes {
                let (to, first) =
                    (start + each * outer(rows) * width, each * width / self.of.bytes);
                writeln!(text, "add.u32 %r1, %r50, {to};\ncp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {{{first}, 0}}], [%r51];").unwrap();
            }
        }
        text.push_str("L2:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r51], 0;\n@!%p1 bra L2;\nwgmma.fence.sync.aligned;\n");
        text.push_str("mov.pred %p2, 0;\n");
        self.products(&mut text);
        text.push_str("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
        self.stores(&mut text);
        text
    }

    fn is_integer(&self) -> bool {
        self.of.name.ends_with('8')
    }

    fn products(&self, text: &mut String) {
        let (sums, name) = (self.sums(), self.of.name);
        let sum = match (self.is_integer(), self.half) {
            (true, _) => "s32",
            (false, true) => "f16",
            (false, false) => "f32",
        };
        for step in 0..self.steps() {
            let a = if self.in_registers {
                self.fragments(text, step);
                text.push_str("wgmma.fence.sync.aligned;\n");
                "{%r40, %r41, %r42, %r43}".to_owned()
            } else {
                text.push_str(&self.descriptor(0, M, step));
                text.push_str("mov.b64 %rd5, %rd4;\n");
                "%rd5".to_owned()
            };
            text.push_str(&self.descriptor(B_START, N, step));
            let transposed = u32::from(self.major == Major::Mn);
            let mut immediates = String::new();
            if !self.is_integer() {
                write!(immediates, ", {}, 1", if self.negate { -1 } else { 1 }).unwrap();
                if self.of.bytes == 2 {
                    let both = if self.in_registers { 1 } else { 2 };
                    (0..both).for_each(|_| write!(immediates, ", {transposed}").unwrap());
                }
            }
            let k = 32 / self.of.bytes;
            writeln!(text, "wgmma.mma_async.sync.aligned.m64n{N}k{k}.{sum}.{name}.{name} {{{sums}}}, {a}, %rd4, %p2{immediates};").unwrap();
            text.push_str("mov.pred %p2, 1;\n");
            if self.in_registers {
                // Registers of A are the product's until it is done.
                text.push_str(
                    "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
                );
            }
        }
    }

    /// Registers of the sums.
    fn sums(&self) -> String {
        let floats = !self.is_integer() && !self.half;
        let name = |at| if floats { format!("%f{at}") } else { format!("%r{}", 10 + at) };
        let count = if self.half { N / 4 } else { N / 2 };
        (0..count).map(name).collect::<Vec<_>>().join(", ")
    }

    /// A from global memory: 4 bytes a register, rows of K.
    fn fragments(&self, text: &mut String, step: usize) {
        let row_bytes = self.depth() * self.of.bytes;
        writeln!(text, "shr.u32 %r44, %r0, 5;\nand.b32 %r45, %r0, 31;\nshr.u32 %r46, %r45, 2;\nand.b32 %r47, %r45, 3;\nmad.lo.u32 %r44, %r44, 16, %r46;\nmul.lo.u32 %r44, %r44, {row_bytes};\nmad.lo.u32 %r44, %r47, 4, %r44;\ncvt.u64.u32 %rd6, %r44;\nadd.u64 %rd6, %rd6, %rd0;").unwrap();
        for part in 0..4 {
            let at = part % 2 * 8 * row_bytes + part / 2 * 16 + step * 32;
            writeln!(text, "ld.global.b32 %r{}, [%rd6+{at}];", 40 + part).unwrap();
        }
    }

    /// Sums as integers, row after row, in the buffer's second half.
    fn stores(&self, text: &mut String) {
        writeln!(text, "shr.u32 %r44, %r0, 5;\nand.b32 %r45, %r0, 31;\nshr.u32 %r46, %r45, 2;\nand.b32 %r47, %r45, 3;\nmad.lo.u32 %r44, %r44, 16, %r46;\nmul.lo.u32 %r44, %r44, {};\nmad.lo.u32 %r44, %r47, 8, %r44;\ncvt.u64.u32 %rd6, %r44;\nadd.u64 %rd6, %rd6, %rd0;\nadd.u64 %rd6, %rd6, 65536;", N * 4).unwrap();
        for at in 0..N / 2 {
            let place = at / 4 * 32 + at % 2 * 4 + at % 4 / 2 * 8 * N * 4;
            if self.is_integer() {
                writeln!(text, "st.global.b32 [%rd6+{place}], %r{};", 10 + at).unwrap();
                continue;
            }
            let float = if self.half {
                let (register, part) = (10 + at / 2, at % 2);
                writeln!(text, "mov.b32 {{%h0, %h1}}, %r{register};").unwrap();
                writeln!(text, "cvt.f32.f16 %f0, %h{part};").unwrap();
                0
            } else {
                at
            };
            writeln!(text, "cvt.rni.s32.f32 %r48, %f{float};").unwrap();
            writeln!(text, "st.global.b32 [%rd6+{place}], %r48;").unwrap();
        }
        text.push_str("ret;\n");
    }

    fn check(&self, timing: Timing) {
        let about = format!("{} {:?} {:?} {timing:?}", self.of.name, self.swizzle, self.major);
        let (a, b) = (self.bytes(M, a_value), self.bytes(N, b_value));
        let (a_map, a_boxes) = self.map(M, 0);
        let (b_map, b_boxes) = self.map(N, B_START);
        let mut plain = Plain::new(&self.body(a_boxes, b_boxes));
        let declared = ".param .u64 data, .param .align 64 .b8 a[128], .param .align 64 .b8 b[128]";
        plain.text = plain.text.replace(".param .u64 data", declared);
        plain.launch.threads = 128;
        plain.launch.shared_bytes = BARRIER as u32 + 8;
        plain.launch.parameters.extend([a_map, b_map].map(Parameter::Map));
        plain.timing = timing;
        plain.buffer = vec![0; 131_072];
        plain.buffer[..a.len()].copy_from_slice(&a);
        plain.buffer[B_START..B_START + b.len()].copy_from_slice(&b);
        let all = plain.words();
        for (row, column) in (0..M).flat_map(|row| (0..N).map(move |column| (row, column))) {
            let value = |x: i32| if self.of.name == "u8" { x.abs() } else { x };
            let dot: i32 =
                (0..self.depth()).map(|k| value(a_value(row, k)) * value(b_value(column, k))).sum();
            let want = if self.negate { -dot } else { dot };
            let got = all[16384 + row * N + column] as i32;
            assert_eq!(got, want, "{about}: row {row}, column {column}");
        }
    }
}

const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

#[test]
fn every_type_is_multiplied_along_k_under_every_swizzle() {
    for of in TYPES {
        for swizzle in SWIZZLES {
            let (major, negate) = (Major::K, false);
            let case = Case { of, swizzle, major, in_registers: false, negate, half: false };
            case.check(Timing::Lazy);
            if !case.is_integer() {
                Case { negate: true, ..case }.check(Timing::Eager);
            }
        }
    }
}

#[test]
fn a_may_be_in_registers() {
    for of in TYPES {
        let (swizzle, major, negate) = (Swizzle::B128, Major::K, false);
        for timing in [Timing::Eager, Timing::Lazy, Timing::Random { seed: 1 }] {
            Case { of, swizzle, major, in_registers: true, negate, half: false }.check(timing);
        }
    }
}

#[test]
fn sixteen_bit_types_may_lie_along_rows_and_columns() {
    for (of, swizzle) in TYPES[..2].iter().flat_map(|of| SWIZZLES.map(|swizzle| (of, swizzle))) {
        let (major, negate) = (Major::Mn, false);
        Case { of, swizzle, major, in_registers: false, negate, half: false }.check(Timing::Lazy);
    }
}

#[test]
fn sums_may_be_of_half_precision() {
    for of in TYPES.iter().filter(|of| ["f16", "e4m3", "e5m2"].contains(&of.name)) {
        let (swizzle, major, negate) = (Swizzle::B64, Major::K, true);
        for in_registers in [false, true] {
            Case { of, swizzle, major, in_registers, negate, half: true }.check(Timing::Lazy);
        }
    }
}
