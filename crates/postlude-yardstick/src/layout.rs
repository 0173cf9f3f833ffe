//! How the operands of a product lie in memory: which of their dims neighbours are neighbours along.
//!
//! The letters are those of the call that NVIDIA's libraries get for the same memory: they count columns first, so the
//! call computes `D.T`, its first operand is our right one and its second our left one. `T` says that it transposes.

/// The layouts of both operands; rows follow one another without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// `A[M, K] @ W[N, K].T`
    Tn,
    /// `A[M, K] @ B[K, N]`
    Nn,
    /// `A[K, M].T @ B[K, N]`
    Nt,
    /// `A[K, M].T @ W[N, K].T`
    Tt,
}

/// Where the contraction is among the dims of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contraction {
    /// Its elements are neighbours in memory.
    Last,
    /// Its elements are a row apart.
    First,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 4] = [Layout::Tn, Layout::Nn, Layout::Nt, Layout::Tt];

    /// Its letters.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Tn => "tn",
            Layout::Nn => "nn",
            Layout::Nt => "nt",
            Layout::Tt => "tt",
        }
    }

    /// The product as kernels write it.
    pub const fn product(self) -> &'static str {
        match self {
            Layout::Tn => "A @ W.T",
            Layout::Nn => "A @ B",
            Layout::Nt => "A.T @ B",
            Layout::Tt => "A.T @ W.T",
        }
    }

    /// How A lies.
    pub const fn left(self) -> Contraction {
        match self {
            Layout::Tn | Layout::Nn => Contraction::Last,
            Layout::Nt | Layout::Tt => Contraction::First,
        }
    }

    /// How W or B lies.
    pub const fn right(self) -> Contraction {
        match self {
            Layout::Tn | Layout::Tt => Contraction::Last,
            Layout::Nn | Layout::Nt => Contraction::First,
        }
    }
}

#[cfg(test)]
mod tests {
    use postlude::{Bindings, Kernel};

    use super::*;

    /// What the kernels' own types say of the memory is what the library is told.
    #[test]
    fn kernels_declare_their_operands_as_the_layout_says() {
        for layout in Layout::ALL {
            let source = format!("D = {}", layout.product());
            let kernel = Kernel::infer(&source, &Bindings::default()).unwrap();
            let inputs = kernel.defined().inputs();
            let contractions = [layout.left(), layout.right()];
            assert_eq!(inputs.len(), 2, "{layout:?}");
            for ((input, contraction), other) in inputs.iter().zip(contractions).zip(["M", "N"]) {
                let dims: Vec<String> =
                    input.dims.iter().flatten().map(ToString::to_string).collect();
                let wanted = match contraction {
                    Contraction::Last => [other, "K"],
                    Contraction::First => ["K", other],
                };
                assert_eq!(dims, wanted, "{layout:?}: {}", input.name);
            }
        }
    }
}
