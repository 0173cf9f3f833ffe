//! Modifiers of an opcode: closed sets of words, each written and read by its spelling.
//!
//! Invariant: what `write` writes, `read` reads back, and nothing else.

use std::fmt;

/// Defines an enum of words, each variant with its spelling between the dots; an empty one is no word at all.
macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $($(#[$inner])* $variant,)*
        }
        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// The word PTX has for it.
            pub const fn spelling(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str(self.spelling())
            }
        }
        impl crate::modifier::Modifier for $name {
            fn write(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                crate::modifier::write_word(self.spelling(), f)
            }
            fn read(parts: &mut crate::modifier::Parts<'_>) -> Option<Self> {
                let words: Vec<&str> = Self::ALL.iter().map(|each| each.spelling()).collect();
                parts.longest(&words).map(|at| Self::ALL[at])
            }
        }
    };
}
pub(crate) use spelled;

/// Something between the dots of an opcode.
pub(crate) trait Modifier: Sized {
    fn write(&self, f: &mut fmt::Formatter) -> fmt::Result;
    fn read(parts: &mut Parts<'_>) -> Option<Self>;
}

/// Writes a word with its dot; the first of an opcode has none, and its caller strips it.
pub(crate) fn write_word(word: &str, f: &mut fmt::Formatter) -> fmt::Result {
    if word.is_empty() { Ok(()) } else { write!(f, ".{word}") }
}

/// The words of an opcode that are not read yet.
pub(crate) struct Parts<'t>(pub(crate) &'t [String]);

impl Parts<'_> {
    /// Takes the words of `text`, which may be several with dots between.
    pub(crate) fn literal(&mut self, text: &str) -> Option<()> {
        let count = self.starts_with(text)?;
        self.0 = &self.0[count..];
        Some(())
    }

    /// How many words `text` has, when the rest starts with them.
    fn starts_with(&self, text: &str) -> Option<usize> {
        let mut count = 0;
        for word in text.split('.') {
            if self.0.get(count)? != word {
                return None;
            }
            count += 1;
        }
        Some(count)
    }

    /// Takes the longest of `words` that the rest starts with; an empty word matches when no other does.
    fn longest_match(&self, words: &[&str]) -> Option<(usize, usize)> {
        let counted = |(at, word): (usize, &&str)| {
            if word.is_empty() { Some((0, at)) } else { Some((self.starts_with(word)?, at)) }
        };
        words.iter().enumerate().filter_map(counted).max_by_key(|(count, _)| *count)
    }

    pub(crate) fn longest(&mut self, words: &[&str]) -> Option<usize> {
        let (count, at) = self.longest_match(words)?;
        self.0 = &self.0[count..];
        Some(at)
    }

    pub(crate) fn word(&mut self) -> Option<&str> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Sizes of one matrix instruction, `m64n256k16`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Rows of A.
    pub m: u32,
    /// Columns of B.
    pub n: u32,
    /// What is summed over.
    pub k: u32,
}

impl Modifier for Shape {
    fn write(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, ".m{}n{}k{}", self.m, self.n, self.k)
    }
    fn read(parts: &mut Parts<'_>) -> Option<Self> {
        let (m, rest) = parts.word()?.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    }
}

/// How many dims a tensor copy has, `2d`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dims(pub u32);

impl Modifier for Dims {
    fn write(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, ".{}d", self.0)
    }
    fn read(parts: &mut Parts<'_>) -> Option<Self> {
        Some(Dims(parts.word()?.strip_suffix('d')?.parse().ok()?))
    }
}

spelled! {
    /// How a conversion rounds.
    Rounding {
        /// Exact, or not stated.
        None "",
        /// To nearest even.
        Nearest "rn",
        /// Toward zero.
        Zero "rz",
        /// Down.
        Down "rm",
        /// Up.
        Up "rp",
        /// To the nearest whole number, ties to even.
        NearestWhole "rni",
        /// To a whole number toward zero.
        ZeroWhole "rzi",
        /// Down to a whole number.
        DownWhole "rmi",
        /// Up to a whole number.
        UpWhole "rpi",
        /// To nearest, ties away from zero.
        NearestAway "rna",
    }
}
spelled! {
    /// What a conversion does with values out of range.
    Saturation {
        /// Not stated.
        None "",
        /// To the nearest in range; for floats to [0, 1].
        Range "sat",
        /// To the largest finite value.
        Finite "satfinite",
    }
}
spelled! {
    /// A comparison; the unordered ones are true when a side is NaN.
    Compare {
        /// Equal.
        Eq "eq",
        /// Not equal; false with NaN.
        Ne "ne",
        /// Less.
        Lt "lt",
        /// At most.
        Le "le",
        /// Greater.
        Gt "gt",
        /// At least.
        Ge "ge",
        /// Equal or unordered.
        EqOrNan "equ",
        /// Not equal or unordered.
        NeOrNan "neu",
        /// Less or unordered.
        LtOrNan "ltu",
        /// At most or unordered.
        LeOrNan "leu",
        /// Greater or unordered.
        GtOrNan "gtu",
        /// At least or unordered.
        GeOrNan "geu",
        /// Neither side is NaN.
        BothNumbers "num",
        /// A side is NaN.
        AnyNan "nan",
    }
}
spelled! {
    /// A function that the hardware approximates.
    Approx {
        /// 2 to the power of x.
        Ex2 "ex2",
        /// 2 to the power of x, whose denormals are zero: one instruction of the hardware.
        Ex2Flush "ex2.ftz",
        /// Logarithm to base 2.
        Lg2 "lg2",
        /// 1 / x.
        Rcp "rcp",
        /// 1 / sqrt(x).
        Rsqrt "rsqrt",
        /// 1 / x, whose denormals are zero: one instruction of the hardware.
        RcpFlush "rcp.ftz",
        /// 1 / sqrt(x), whose denormals are zero: one instruction of the hardware.
        RsqrtFlush "rsqrt.ftz",
        /// Square root.
        Sqrt "sqrt",
        /// Hyperbolic tangent.
        Tanh "tanh",
        /// Sine.
        Sin "sin",
        /// Cosine.
        Cos "cos",
    }
}
spelled! {
    /// Which lane a shuffle reads.
    ShuffleMode {
        /// The lane named.
        Index "idx",
        /// The own lane xor the number given.
        Butterfly "bfly",
        /// So many lanes up.
        Up "up",
        /// So many lanes down.
        Down "down",
    }
}
spelled! {
    /// What a vote asks of the lanes.
    VoteMode {
        /// All true.
        All "all",
        /// Any true.
        Any "any",
        /// All alike.
        Uniform "uni",
    }
}
spelled! {
    /// Elements of one access.
    VectorWidth {
        /// One.
        V1 "",
        /// Two.
        V2 "v2",
        /// Four.
        V4 "v4",
    }
}
spelled! {
    /// How a read of global memory is cached.
    LoadCache {
        /// As usual.
        Default "",
        /// As memory that nobody writes during the kernel.
        ReadOnly "nc",
        /// Read-only, and not kept in L1.
        ReadOnlyStreaming "nc.L1::no_allocate",
    }
}
spelled! {
    /// Which shared memory an address is in.
    Window {
        /// The own CTA's.
        Shared "shared",
        /// The own CTA's, said in full.
        Cta "shared::cta",
        /// Any CTA's of the cluster.
        Cluster "shared::cluster",
    }
}
spelled! {
    /// Memory order.
    Order {
        /// Atomic only.
        Relaxed "relaxed",
        /// Sees what the releaser wrote.
        Acquire "acquire",
        /// Publishes what was written.
        Release "release",
        /// Both.
        AcqRel "acq_rel",
    }
}
spelled! {
    /// Among whom memory order holds.
    Scope {
        /// The CTA.
        Cta "cta",
        /// The cluster.
        Cluster "cluster",
        /// The GPU.
        Gpu "gpu",
        /// The system.
        System "sys",
    }
}
spelled! {
    /// What an atomic instruction or a reducing copy does.
    Reduction {
        /// Sum.
        Add "add",
        /// Minimum.
        Min "min",
        /// Maximum.
        Max "max",
        /// Bitwise and.
        And "and",
        /// Bitwise or.
        Or "or",
        /// Bitwise xor.
        Xor "xor",
        /// Replace; atomics only.
        Exchange "exch",
        /// Count up, and wrap to zero.
        Increment "inc",
        /// Count down, and wrap.
        Decrement "dec",
    }
}
spelled! {
    /// Which accesses of the async proxy a fence orders.
    ProxySpace {
        /// All.
        All "",
        /// The CTA's shared memory.
        SharedCta "shared::cta",
        /// Global memory.
        Global "global",
    }
}
spelled! {
    /// Whether all threads of the warp execute an instruction together.
    Alignment {
        /// Perhaps not.
        Any "",
        /// Yes.
        Aligned "aligned",
    }
}
spelled! {
    /// Memory order of a cluster barrier's arrival.
    ArriveOrder {
        /// Release.
        Default "",
        /// None.
        Relaxed "relaxed",
    }
}
spelled! {
    /// Among whom an arrival at a barrier in shared memory publishes what was written.
    Published {
        /// The CTA.
        Cta "",
        /// The CTA, with the scope written out.
        CtaInFull "release.cta",
        /// The cluster.
        Cluster "release.cluster",
    }
}
spelled! {
    /// Whose writes a wait for a barrier in shared memory sees.
    Seen {
        /// The CTA's.
        Cta "",
        /// The CTA's, with the scope written out.
        CtaInFull "acquire.cta",
        /// The cluster's.
        Cluster "acquire.cluster",
    }
}
spelled! {
    /// Whether a wait for copies out of shared memory ends when the source was read.
    WaitFor {
        /// When the copy is complete.
        Complete "",
        /// When the source may be overwritten.
        Read "read",
    }
}
spelled! {
    /// How many 8x8 matrices one instruction moves.
    MatrixCount {
        /// One.
        X1 "x1",
        /// Two.
        X2 "x2",
        /// Four.
        X4 "x4",
    }
}
spelled! {
    /// Whether 8x8 matrices are transposed on the way.
    Transposition {
        /// No.
        None "",
        /// Yes.
        Transposed "trans",
    }
}
spelled! {
    /// Whether a thread's registers grow or shrink.
    RegisterChange {
        /// Grow.
        Increase "inc",
        /// Shrink.
        Decrease "dec",
    }
}
spelled! {
    /// How long L2 keeps what a copy touched.
    Eviction {
        /// First to go.
        First "L2::evict_first",
        /// Last to go.
        Last "L2::evict_last",
        /// As usual.
        Normal "L2::evict_normal",
        /// Unchanged.
        Unchanged "L2::evict_unchanged",
    }
}
spelled! {
    /// Caches that an asynchronous copy of sm_80 goes through.
    CopyCache {
        /// All levels: 4, 8 or 16 bytes.
        All "ca",
        /// L2 only: 16 bytes.
        Global "cg",
    }
}
spelled! {
    /// What happens to integer sums out of range.
    SumOverflow {
        /// They wrap.
        Wrap "",
        /// They stay at the limit.
        Saturate "satfinite",
    }
}
