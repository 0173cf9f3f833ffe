//! Dims by name, and the sizes and strides that a call binds them to.

use std::fmt;

/// A dim as the language writes it: `M`, `128` or `N/2`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dim {
    /// A name divided by an integer; a plain name is divided by 1.
    Name {
        /// The name whose size is bound at run time.
        name: String,
        /// What the size is divided by; at least 1.
        divisor: u32,
    },
    /// A fixed size.
    Size(u32),
}

impl Dim {
    /// The dim that is just a name.
    pub fn name(name: impl Into<String>) -> Dim {
        Dim::Name { name: name.into(), divisor: 1 }
    }

    /// Whether both are the same name, whatever they are divided by, or the same fixed size.
    pub fn same_base(&self, other: &Dim) -> bool {
        match (self, other) {
            (Dim::Name { name: a, .. }, Dim::Name { name: b, .. }) => a == b,
            (Dim::Size(a), Dim::Size(b)) => a == b,
            (Dim::Name { .. }, Dim::Size(_)) | (Dim::Size(_), Dim::Name { .. }) => false,
        }
    }

    /// The dim of this many times as many elements. No kernel can write its name, which tells what it is a multiple of.
    pub(crate) fn times(&self, count: u32) -> Dim {
        Dim::name(match self {
            Dim::Name { divisor: 1, .. } | Dim::Size(_) => format!("{count}*{self}"),
            Dim::Name { .. } => format!("{count}*({self})"),
        })
    }

    /// How many times which dim a name of [`Dim::times`] stands for.
    pub(crate) fn factors(name: &str) -> Option<(usize, Dim)> {
        let (count, of) = name.split_once('*')?;
        let of = of.strip_prefix('(').and_then(|of| of.strip_suffix(')')).unwrap_or(of);
        Some((count.parse().ok()?, Dim::from(of)))
    }

    /// What the name is divided by; 1 for a fixed size.
    pub fn divisor(&self) -> u32 {
        match self {
            Dim::Name { divisor, .. } => *divisor,
            Dim::Size(_) => 1,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Name { name, divisor: 1 } => f.write_str(name),
            Dim::Name { name, divisor } => write!(f, "{name}/{divisor}"),
            Dim::Size(size) => write!(f, "{size}"),
        }
    }
}

impl From<&str> for Dim {
    /// Reads `M`, `128` or `N/2`; anything else becomes a name that the checker refuses.
    fn from(text: &str) -> Dim {
        if let Ok(size) = text.parse() {
            return Dim::Size(size);
        }
        match text.split_once('/').map(|(name, by)| (name.trim(), by.trim().parse())) {
            Some((name, Ok(divisor))) => Dim::Name { name: name.to_owned(), divisor },
            _ => Dim::name(text),
        }
    }
}

impl From<u32> for Dim {
    fn from(size: u32) -> Dim {
        Dim::Size(size)
    }
}

/// Dims as a comma-separated list, without brackets.
pub fn list(dims: &[Dim]) -> String {
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")
}
