//! Our operands as cuBLASLt counts them: columns first.
//!
//! In: a layout and M, N and K. Out: the library's first and second operand. A row-major matrix of our memory is, without
//! moving a byte, its transpose in column-major order; so the library computes `D.T[N, M] = right.T[N, K] @ left.T[K, M]`.

use crate::layout::{Contraction, Layout};

/// What the library does to an operand first (`cublasOperation_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transposition {
    /// `CUBLAS_OP_N`
    AsItIs = 0,
    /// `CUBLAS_OP_T`
    Transposed = 1,
}

/// An operand: a matrix whose columns follow one another without gaps, and what is done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operand {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) transposition: Transposition,
}

/// The library's first operand, which is our right one, and its second, our left one.
pub(super) fn operands(layout: Layout, [m, n, k]: [usize; 3]) -> [Operand; 2] {
    use Transposition::{AsItIs, Transposed};
    let operand = |rows, columns, transposition| Operand { rows, columns, transposition };
    let first = match layout.right() {
        Contraction::Last => operand(k, n, Transposed),
        Contraction::First => operand(n, k, AsItIs),
    };
    let second = match layout.left() {
        Contraction::Last => operand(k, m, AsItIs),
        Contraction::First => operand(m, k, Transposed),
    };
    [first, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The element of an operand after its transposition, by row and column, as the library reads it.
    fn read(operand: Operand, memory: &[i64], row: usize, column: usize) -> i64 {
        let (row, column) = match operand.transposition {
            Transposition::AsItIs => (row, column),
            Transposition::Transposed => (column, row),
        };
        assert!(row < operand.rows && column < operand.columns, "{operand:?}");
        memory[column * operand.rows + row]
    }

    /// A matrix in memory by the dims that kernels declare.
    fn stored(
        contraction: Contraction,
        along: usize,
        k: usize,
        of: fn(usize, usize) -> i64,
    ) -> Vec<i64> {
        let mut memory = vec![0; along * k];
        for place in 0..along {
            for depth in 0..k {
                let at = match contraction {
                    Contraction::Last => place * k + depth,
                    Contraction::First => depth * along + place,
                };
                memory[at] = of(place, depth);
            }
        }
        memory
    }

    #[test]
    fn the_library_multiplies_what_the_kernel_does_in_every_layout() {
        let (m, n, k) = (3, 5, 7);
        let left = |row: usize, depth: usize| (row * 31 + depth * 7 + 1) as i64;
        let right = |column: usize, depth: usize| (column * 17 + depth * 3 + 2) as i64;
        for layout in Layout::ALL {
            let a = stored(layout.left(), m, k, left);
            let w = stored(layout.right(), n, k, right);
            let [first, second] = operands(layout, [m, n, k]);
            for row in 0..m {
                for column in 0..n {
                    // D.T in column-major order is D in row-major order.
                    let found: i64 = (0..k)
                        .map(|depth| read(first, &w, column, depth) * read(second, &a, depth, row))
                        .sum();
                    let wanted: i64 =
                        (0..k).map(|depth| left(row, depth) * right(column, depth)).sum();
                    assert_eq!(found, wanted, "{layout:?} at {row},{column}");
                }
            }
        }
    }

    #[test]
    fn the_letters_are_the_librarys_own() {
        for layout in Layout::ALL {
            let letters = operands(layout, [2, 3, 4]).map(|operand| match operand.transposition {
                Transposition::AsItIs => 'n',
                Transposition::Transposed => 't',
            });
            assert_eq!(String::from_iter(letters), layout.name());
        }
    }
}
