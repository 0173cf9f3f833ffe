//! Matrix products of a warpgroup, and descriptors of matrices in shared memory.

use crate::inst::Inst;
use crate::launch::Swizzle;
use crate::modifier::{Rounding, Saturation, Shape, SumOverflow};
use crate::operand::{Accumulators, DefVector, Immediates, MatrixA, Operand, Use, UseVector};
use crate::target::{CpAsync, Wgmma};
use crate::types::{B32, F16x2, F32, Pred, S32, Scalar, Type, U32};

use super::{Descriptor, Kernel, Reg, SharedAddress, Src, Var};

/// The PTX version that has products of signed by unsigned integers.
const MIXED_INTEGERS: (u32, u32) = (8, 4);

/// Elements of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatrixType {
    /// Half precision.
    F16,
    /// The upper half of single precision.
    BF16,
    /// Single precision with 10 bits of fraction.
    TF32,
    /// 8-bit float with 3 bits of fraction.
    E4M3,
    /// 8-bit float with 2 bits of fraction.
    E5M2,
    /// Signed, 8 bits.
    S8,
    /// Unsigned, 8 bits.
    U8,
}

impl MatrixType {
    /// The type as PTX spells it.
    pub const fn scalar(self) -> Scalar {
        match self {
            MatrixType::F16 => Scalar::F16,
            MatrixType::BF16 => Scalar::BF16,
            MatrixType::TF32 => Scalar::TF32,
            MatrixType::E4M3 => Scalar::E4M3,
            MatrixType::E5M2 => Scalar::E5M2,
            MatrixType::S8 => Scalar::S8,
            MatrixType::U8 => Scalar::U8,
        }
    }

    /// The size of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            MatrixType::F16 | MatrixType::BF16 => 2,
            MatrixType::TF32 => 4,
            MatrixType::E4M3 | MatrixType::E5M2 | MatrixType::S8 | MatrixType::U8 => 1,
        }
    }

    /// What one instruction sums over: 32 bytes of each row.
    pub const fn k(self) -> u32 {
        32 / self.bytes()
    }

    /// Whether it is an integer, whose products are summed as integers.
    pub const fn is_integer(self) -> bool {
        match self {
            MatrixType::S8 | MatrixType::U8 => true,
            MatrixType::F16
            | MatrixType::BF16
            | MatrixType::TF32
            | MatrixType::E4M3
            | MatrixType::E5M2 => false,
        }
    }
}

/// Whether a matrix enters the product negated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sign {
    /// As it is.
    Plus,
    /// Negated.
    Minus,
}

/// Which dim of a matrix is contiguous.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Major {
    /// The one that is summed over.
    K,
    /// The other; 16-bit types only.
    MN,
}

/// A form of the instruction: 64 rows, `n` columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WgmmaForm {
    /// Columns: a multiple of 8 up to 256; for integers 8, 24 or a multiple of 16.
    pub n: u32,
    /// Elements of A.
    pub a: MatrixType,
    /// Elements of B.
    pub b: MatrixType,
    /// How A enters.
    pub a_sign: Sign,
    /// How B enters.
    pub b_sign: Sign,
    /// How A lies in shared memory.
    pub a_major: Major,
    /// How B lies in shared memory.
    pub b_major: Major,
    /// What integer sums do at their limits.
    pub overflow: SumOverflow,
}

impl WgmmaForm {
    /// The usual form: nothing negated, both contiguous along K.
    pub fn new(n: u32, a: MatrixType, b: MatrixType) -> Self {
        let (a_sign, b_sign, a_major, b_major) = (Sign::Plus, Sign::Plus, Major::K, Major::K);
        let overflow = SumOverflow::Wrap;
        WgmmaForm { n, a, b, a_sign, b_sign, a_major, b_major, overflow }
    }

    /// What one instruction sums over.
    pub fn k(&self) -> u32 {
        self.a.k()
    }

    /// Whether the hardware has it.
    pub fn is_valid(&self) -> bool {
        let columns = self.n > 0 && self.n <= 256 && self.n.is_multiple_of(8);
        let integer_columns = self.n.is_multiple_of(16) || self.n == 8 || self.n == 24;
        let same = match (self.a, self.b) {
            (MatrixType::F16, MatrixType::F16)
            | (MatrixType::BF16, MatrixType::BF16)
            | (MatrixType::TF32, MatrixType::TF32)
            | (MatrixType::E4M3 | MatrixType::E5M2, MatrixType::E4M3 | MatrixType::E5M2)
            | (MatrixType::S8 | MatrixType::U8, MatrixType::S8 | MatrixType::U8) => true,
            (
                MatrixType::F16
                | MatrixType::BF16
                | MatrixType::TF32
                | MatrixType::E4M3
                | MatrixType::E5M2
                | MatrixType::S8
                | MatrixType::U8,
                _,
            ) => false,
        };
        let integer = self.a.is_integer();
        let plain = self.a_sign == Sign::Plus && self.b_sign == Sign::Plus;
        let along_k = self.a_major == Major::K && self.b_major == Major::K;
        let wraps = self.overflow == SumOverflow::Wrap;
        columns
            && same
            && (if integer { plain && integer_columns } else { wraps })
            && (along_k || self.a.bytes() == 2)
    }

    /// The numbers after the predicate.
    fn immediates(&self, a_in_registers: bool) -> Vec<i32> {
        if self.a.is_integer() {
            return Vec::new();
        }
        let sign = |sign| match sign {
            Sign::Plus => 1,
            Sign::Minus => -1,
        };
        let major = |major| match major {
            Major::K => 0,
            Major::MN => 1,
        };
        let mut values = vec![sign(self.a_sign), sign(self.b_sign)];
        if self.a.bytes() == 2 {
            if !a_in_registers {
                values.push(major(self.a_major));
            }
            values.push(major(self.b_major));
        }
        values
    }
}

/// Types that sums have.
pub trait Accumulator: Type {
    /// As the instruction spells it.
    const SUM: Scalar;
    /// Elements in a register.
    const PER_REGISTER: u32;
    /// Whether a product of these types may have such sums.
    fn sums(of: MatrixType) -> bool;
}

impl Accumulator for F32 {
    const SUM: Scalar = Scalar::F32;
    const PER_REGISTER: u32 = 1;
    fn sums(of: MatrixType) -> bool {
        !of.is_integer()
    }
}

impl Accumulator for S32 {
    const SUM: Scalar = Scalar::S32;
    const PER_REGISTER: u32 = 1;
    fn sums(of: MatrixType) -> bool {
        of.is_integer()
    }
}

impl Accumulator for F16x2 {
    const SUM: Scalar = Scalar::F16;
    const PER_REGISTER: u32 = 2;
    fn sums(of: MatrixType) -> bool {
        matches!(of, MatrixType::F16 | MatrixType::E4M3 | MatrixType::E5M2)
    }
}

/// Where A is.
#[derive(Clone, Copy)]
pub enum MatrixSource<'k> {
    /// In shared memory.
    Shared(Descriptor<'k>),
    /// In registers.
    Registers([Reg<'k, B32>; 4]),
}

impl<'k> From<Descriptor<'k>> for MatrixSource<'k> {
    fn from(descriptor: Descriptor<'k>) -> Self {
        MatrixSource::Shared(descriptor)
    }
}

impl<'k> From<[Reg<'k, B32>; 4]> for MatrixSource<'k> {
    fn from(fragments: [Reg<'k, B32>; 4]) -> Self {
        MatrixSource::Registers(fragments)
    }
}

/// How a matrix lies in shared memory, in the terms of a descriptor (PTX ISA, "Matrix Descriptor Format").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DescriptorLayout {
    /// Bytes from one column of core matrices to the next.
    pub leading: u32,
    /// Bytes from one row of core matrices to the next.
    pub stride: u32,
    /// How 16-byte chunks are exchanged.
    pub swizzle: Swizzle,
}

impl DescriptorLayout {
    /// Contiguous along K, rows of 128 bytes; a step along K is 32 bytes.
    pub const K_MAJOR_128: DescriptorLayout =
        DescriptorLayout { leading: 16, stride: 1024, swizzle: Swizzle::B128 };

    /// Contiguous along M or N in slabs of 128 bytes by 64 of K, each slab `slab` bytes after the other; a step of 16
    /// along K is 2048 bytes.
    pub const fn mn_major_128(slab: u32) -> DescriptorLayout {
        DescriptorLayout { leading: slab, stride: 1024, swizzle: Swizzle::B128 }
    }

    /// The descriptor without its start; lengths count in 16-byte units.
    pub const fn bits(self) -> u64 {
        let mode: u64 = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        let leading = (self.leading >> 4) as u64 & 0x3fff;
        let stride = (self.stride >> 4) as u64 & 0x3fff;
        leading << 16 | stride << 32 | mode << 62
    }
}

impl<'k, A: CpAsync> Kernel<'k, A> {
    /// `a * b + c` of a warp: 16 rows, 8 columns, 32 bytes along K; A by rows, B by columns.
    pub fn mma<T: Accumulator>(
        self,
        of: [MatrixType; 2],
        a: [Reg<'k, B32>; 4],
        b: [Reg<'k, B32>; 2],
        c: [Reg<'k, T>; 4],
    ) -> [Reg<'k, T>; 4] {
        let same = of[0] == of[1] || of.iter().all(|element| element.is_integer());
        assert!(T::sums(of[0]) && same && T::PER_REGISTER == 1, "compiler bug: sums of {of:?}");
        let d: [Reg<'k, T>; 4] = std::array::from_fn(|_| self.code.fresh());
        self.code.push(Inst::Mma {
            shape: Shape { m: 16, n: 8, k: of[0].k() },
            sum: T::SUM,
            a_type: of[0].scalar(),
            b_type: of[1].scalar(),
            from: T::SUM,
            d: DefVector(d.map(Reg::register).to_vec()),
            a: UseVector(a.map(Reg::register).to_vec()),
            b: UseVector(b.map(Reg::register).to_vec()),
            c: UseVector(c.map(Reg::register).to_vec()),
        });
        d
    }
}

impl<'k, A: Wgmma> Kernel<'k, A> {
    /// The descriptor of the matrix at `start`.
    pub fn descriptor(self, start: SharedAddress<'k>, layout: DescriptorLayout) -> Descriptor<'k> {
        let units = (start.register() >> 4) & 0x3fff;
        let wide: Reg<'k, crate::types::U64> =
            self.convert::<U32, _>(Rounding::None, Saturation::None, units);
        Descriptor(wide | layout.bits())
    }

    /// Orders earlier accesses of accumulators, of A in registers and of shared memory before matrix products.
    pub fn wgmma_fence(self) {
        self.code.push(Inst::WgmmaFence {});
    }

    /// `accumulators = a * b + (keep ? accumulators : 0)`, later: touch neither before [`Kernel::wgmma_wait`].
    pub fn wgmma<T: Accumulator>(
        self,
        form: &WgmmaForm,
        accumulators: &[Var<'k, T>],
        a: impl Into<MatrixSource<'k>>,
        b: Descriptor<'k>,
        keep: impl Into<Src<'k, Pred>>,
    ) {
        let wanted = form.n / 2 / T::PER_REGISTER;
        assert!(
            form.is_valid() && T::sums(form.a) && accumulators.len() == wanted as usize,
            "compiler bug: {form:?} with {} accumulators",
            accumulators.len()
        );
        if form.a.is_integer() && form.a != form.b {
            self.code.version.set(self.code.version.get().max(MIXED_INTEGERS));
        }
        let a = a.into();
        let (a, in_registers) = match a {
            MatrixSource::Shared(descriptor) => {
                (MatrixA::Descriptor(descriptor.0.register()), false)
            }
            MatrixSource::Registers(fragments) => {
                (MatrixA::Fragments(fragments.map(Reg::register).to_vec()), true)
            }
        };
        self.code.push(Inst::Wgmma {
            shape: Shape { m: 64, n: form.n, k: form.k() },
            overflow: form.overflow,
            sum: T::SUM,
            a_type: form.a.scalar(),
            b_type: form.b.scalar(),
            d: Accumulators(accumulators.iter().map(|each| each.0.register()).collect()),
            a,
            b: Use(b.0.operand()),
            keep: keep.into().use_(),
            immediates: Immediates(form.immediates(in_registers)),
        });
    }

    /// Closes a group of matrix products.
    pub fn wgmma_commit(self) {
        self.code.push(Inst::WgmmaCommit {});
    }

    /// Waits until at most `pending` groups are under way.
    pub fn wgmma_wait(self, pending: u32) {
        self.code.push(Inst::WgmmaWait { pending: Use(Operand::Integer(pending.into())) });
    }
}
