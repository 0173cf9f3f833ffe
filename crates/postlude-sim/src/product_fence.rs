//! `wgmma.fence`: which registers matrix products may not use yet.
//!
//! In: a warp's accesses to registers that products use, its fences and its products. Out: what a product lacks a fence
//! for. Invariant: a register that anything touched since the last fence is not used by a product, unless products of
//! one shape have it as accumulator one after the other, or products only read it (PTX ISA, "wgmma.fence").

use postlude_ptx::modifier::Shape;

/// What products last did with a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Sum(Shape),
    Fragment,
}

/// A register's last accesses.
#[derive(Clone, Copy, Default, Debug)]
struct Accessed {
    /// By an ordinary instruction: fences before it, and its line.
    ordinary: Option<(u32, u32)>,
    /// By a product: fences before it.
    product: Option<(u32, Role)>,
}

/// Why a product needs a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lacking {
    /// No fence came before.
    Any,
    /// A register, by its place, was touched since the last one, at that line.
    Ordinary { place: usize, line: u32 },
    /// A register was used since the last one by a product of another shape, or as something else.
    Product { place: usize },
}

/// What a warp has touched since its last fence.
#[derive(Clone, Default, Debug)]
pub(crate) struct ProductFence {
    fences: u32,
    registers: Vec<Accessed>,
}

impl ProductFence {
    /// The state for this many registers.
    pub(crate) fn new(registers: usize) -> Self {
        ProductFence { fences: 0, registers: vec![Accessed::default(); registers] }
    }

    /// The warp executes `wgmma.fence`.
    pub(crate) fn fence(&mut self) {
        self.fences += 1;
    }

    /// An ordinary instruction reads or writes registers.
    pub(crate) fn touch(&mut self, places: &[usize], line: u32) {
        for place in places {
            self.registers[*place].ordinary = Some((self.fences, line));
        }
    }

    /// A product is issued; what it lacks a fence for.
    pub(crate) fn multiply(
        &mut self,
        shape: Shape,
        sums: &[usize],
        fragments: &[usize],
    ) -> Option<Lacking> {
        let mut lacking = (self.fences == 0).then_some(Lacking::Any);
        let sums = sums.iter().map(|place| (*place, Role::Sum(shape)));
        let fragments = fragments.iter().map(|place| (*place, Role::Fragment));
        for (place, role) in sums.chain(fragments) {
            let register = &mut self.registers[place];
            match (register.ordinary, register.product) {
                (Some((fences, line)), _) if fences == self.fences => {
                    lacking = lacking.or(Some(Lacking::Ordinary { place, line }));
                }
                (_, Some((fences, other))) if fences == self.fences && other != role => {
                    lacking = lacking.or(Some(Lacking::Product { place }));
                }
                (_, _) => {}
            }
            register.product = Some((self.fences, role));
        }
        lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { m: 64, n: 8, k: 16 };

    #[test]
    fn a_fence_is_needed_after_each_ordinary_access_of_the_same_register() {
        let mut fence = ProductFence::new(8);
        assert_eq!(fence.multiply(SHAPE, &[0, 1], &[]), Some(Lacking::Any));
        fence.fence();
        assert_eq!(fence.multiply(SHAPE, &[0, 1], &[4]), None);
        assert_eq!(fence.multiply(SHAPE, &[0, 1], &[4]), None);
        fence.touch(&[2], 7);
        assert_eq!(fence.multiply(SHAPE, &[0, 1], &[]), None);
        fence.touch(&[1], 9);
        assert_eq!(
            fence.multiply(SHAPE, &[0, 1], &[]),
            Some(Lacking::Ordinary { place: 1, line: 9 })
        );
        fence.fence();
        assert_eq!(fence.multiply(SHAPE, &[0, 1], &[]), None);
    }

    #[test]
    fn products_of_another_shape_or_role_need_a_fence_between() {
        let mut fence = ProductFence::new(8);
        fence.fence();
        assert_eq!(fence.multiply(SHAPE, &[0, 1], &[4]), None);
        let other = Shape { n: 16, ..SHAPE };
        assert_eq!(fence.multiply(other, &[1, 2], &[]), Some(Lacking::Product { place: 1 }));
        assert_eq!(fence.multiply(SHAPE, &[4, 5], &[]), Some(Lacking::Product { place: 4 }));
    }
}
