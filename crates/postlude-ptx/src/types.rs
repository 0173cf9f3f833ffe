//! Scalar types: as values, which instructions carry, and as Rust types, which registers carry.
//!
//! Invariant: a register's class is decided by its type's width, so reinterpreting within a class costs nothing.

use crate::modifier::spelled;

spelled! {
    /// A scalar type as PTX spells it.
    Scalar {
        /// Unsigned, 8 bits: memory only.
        U8 "u8",
        /// Unsigned, 16 bits.
        U16 "u16",
        /// Unsigned, 32 bits.
        U32 "u32",
        /// Unsigned, 64 bits.
        U64 "u64",
        /// Signed, 8 bits: memory only.
        S8 "s8",
        /// Signed, 16 bits.
        S16 "s16",
        /// Signed, 32 bits.
        S32 "s32",
        /// Signed, 64 bits.
        S64 "s64",
        /// 8 bits without a meaning: memory only.
        B8 "b8",
        /// 16 bits without a meaning.
        B16 "b16",
        /// 32 bits without a meaning.
        B32 "b32",
        /// 64 bits without a meaning.
        B64 "b64",
        /// Half precision.
        F16 "f16",
        /// The upper half of single precision.
        BF16 "bf16",
        /// Single precision.
        F32 "f32",
        /// Single precision with a 10-bit fraction.
        TF32 "tf32",
        /// 8 bits: 4 of exponent, 3 of fraction.
        E4M3 "e4m3",
        /// 8 bits: 5 of exponent, 2 of fraction.
        E5M2 "e5m2",
        /// Two of half precision in 32 bits.
        F16x2 "f16x2",
        /// Two of `bf16` in 32 bits.
        BF16x2 "bf16x2",
        /// Two of `e4m3` in 16 bits.
        E4M3x2 "e4m3x2",
        /// Two of `e5m2` in 16 bits.
        E5M2x2 "e5m2x2",
        /// A truth value.
        Pred "pred",
    }
}

/// A kind of register: registers of one class are declared and numbered together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Truth values, `%p`.
    Pred,
    /// 16 bits, `%h`.
    B16,
    /// 32 bits, `%r`.
    B32,
    /// 64 bits, `%rd`.
    B64,
    /// Single precision, `%f`.
    F32,
}

impl Class {
    /// All of them, in the order of their declarations.
    pub const ALL: [Class; 5] = [Class::Pred, Class::B16, Class::B32, Class::B64, Class::F32];

    /// Its place in [`Class::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Class::Pred => 0,
            Class::B16 => 1,
            Class::B32 => 2,
            Class::B64 => 3,
            Class::F32 => 4,
        }
    }

    /// What a register's name starts with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Class::Pred => "%p",
            Class::B16 => "%h",
            Class::B32 => "%r",
            Class::B64 => "%rd",
            Class::F32 => "%f",
        }
    }

    /// The type in the declaration.
    pub const fn declared(self) -> Scalar {
        match self {
            Class::Pred => Scalar::Pred,
            Class::B16 => Scalar::B16,
            Class::B32 => Scalar::B32,
            Class::B64 => Scalar::B64,
            Class::F32 => Scalar::F32,
        }
    }
}

/// Which arithmetic a type has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Wraps around.
    Integer,
    /// Rounds to nearest even.
    Float,
    /// None but bitwise.
    Bits,
}

/// A scalar type as a Rust type.
pub trait Type: Copy + 'static {
    /// The same as a value.
    const SCALAR: Scalar;
    /// The untyped scalar of the same width, which moves and bitwise instructions carry.
    const BITS: Scalar;
    /// Where its registers are.
    const CLASS: Class;
    /// Its arithmetic.
    const KIND: Kind;
}

/// Types that can be added, subtracted, multiplied and compared.
pub trait Number: Type {}
/// Types with shifts and division.
pub trait Integer: Number {}
/// Types with bitwise instructions.
pub trait Logic: Type {}

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident $bits:ident $class:ident $kind:ident: $($extra:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {}
        impl Type for $name {
            const SCALAR: Scalar = Scalar::$name;
            const BITS: Scalar = Scalar::$bits;
            const CLASS: Class = Class::$class;
            const KIND: Kind = Kind::$kind;
        }
        $(impl $extra for $name {})*
    )*};
}

types! {
    /// Unsigned, 16 bits.
    U16 B16 B16 Integer: Number Integer Logic;
    /// Unsigned, 32 bits.
    U32 B32 B32 Integer: Number Integer Logic;
    /// Unsigned, 64 bits.
    U64 B64 B64 Integer: Number Integer Logic;
    /// Signed, 32 bits.
    S32 B32 B32 Integer: Number Integer Logic;
    /// Signed, 64 bits.
    S64 B64 B64 Integer: Number Integer Logic;
    /// Single precision.
    F32 B32 F32 Float: Number;
    /// Two of half precision in 32 bits.
    F16x2 B32 B32 Float: Number;
    /// Two of `bf16` in 32 bits.
    BF16x2 B32 B32 Float: Number;
    /// 16 bits without a meaning: one half, or two of 8 bits.
    B16 B16 B16 Bits: Logic;
    /// 32 bits without a meaning.
    B32 B32 B32 Bits: Logic;
    /// 64 bits without a meaning.
    B64 B64 B64 Bits: Logic;
    /// A truth value.
    Pred Pred Pred Bits: Logic;
}
