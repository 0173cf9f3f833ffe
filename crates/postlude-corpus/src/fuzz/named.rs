//! Parts of a split that have dims with names: which there are, and how long they are.

/// The names of columns: the product's, and of parts by their number.
const NAMES: [&str; 4] = ["N", "P", "Q", "R"];

/// The dim of columns; 0 for the product's.
pub(super) fn column_name(part: u16) -> &'static str {
    NAMES[usize::from(part)]
}

/// `split(z, [P, Q, Q])`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Named {
    /// The parts in their order, from 1; one of them at least is there once.
    pub(super) parts: Vec<u16>,
    /// What the size of each is a multiple of.
    pub(super) align: u32,
}

impl Named {
    /// The parts as they stand in a list.
    pub(super) fn list(&self) -> String {
        self.parts.iter().map(|part| column_name(*part)).collect::<Vec<_>>().join(", ")
    }

    /// The size of every part's dim, all of which together are N.
    pub(super) fn sizes(&self, columns: usize) -> Vec<(&'static str, usize)> {
        let units = columns / self.align as usize;
        let count = |part: u16| self.parts.iter().filter(|one| **one == part).count();
        let most = self.parts.iter().copied().max().unwrap_or(0);
        let mut sizes: Vec<usize> = Vec::new();
        let rest = (1..=most).rev().find(|part| count(*part) == 1).unwrap_or(1);
        let mut left = units;
        for part in 1..=most {
            // Parts of different sizes, some of them none.
            let size = units / (self.parts.len() + usize::from(part));
            sizes.push(size);
            if part != rest {
                left -= size * count(part);
            }
        }
        sizes[usize::from(rest) - 1] = left;
        let align = self.align as usize;
        (1..=most).map(|part| (column_name(part), sizes[usize::from(part) - 1] * align)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Named;

    #[test]
    fn parts_are_all_of_the_columns_together() {
        for parts in [vec![1, 2], vec![1, 2, 2], vec![2, 2, 1], vec![1, 2, 3], vec![1, 2, 1]] {
            for columns in [0, 8, 16, 40, 48, 200] {
                let named = Named { parts: parts.clone(), align: 8 };
                let sizes = named.sizes(columns);
                let size = |part: &u16| sizes[usize::from(*part) - 1].1;
                assert_eq!(parts.iter().map(size).sum::<usize>(), columns, "{parts:?} {columns}");
            }
        }
    }
}
