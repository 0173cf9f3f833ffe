//! Elements one after another, by their line and column: only lines are numbered in 32 bits, not the elements of all.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::U32;

use crate::target::sm90::emit::chip::EpilogueChip;

use super::kernel::ElementKernel;

impl<'k, C: EpilogueChip> ElementKernel<'_, 'k, C> {
    /// Runs `body` for the line and column of every `step`-th element, from the one of number `first` on.
    pub(super) fn for_places(
        &self,
        [lines, columns]: [Reg<'k, U32>; 2],
        [first, step]: [Reg<'k, U32>; 2],
        body: impl FnOnce(Reg<'k, U32>, Reg<'k, U32>),
    ) {
        let k = self.k;
        // Lines without columns have no elements.
        let there = columns.ne(0);
        let (lines, columns) = (lines.select(0, there), columns.select(1, there));
        let place = |number: Reg<'k, U32>| {
            let line = number / columns;
            [line, number - line * columns]
        };
        let ([line, column], [down, right]) = (place(first).map(|it| k.var(it)), place(step));
        k.while_(
            || line.get().lt(lines),
            || {
                let [own_line, own_column] = [line.copy(), column.copy()];
                body(own_line, own_column);
                let next = own_column + right;
                let is_beyond = next.ge(columns);
                line.set(own_line + down + k.imm(1).select(0, is_beyond));
                column.set((next - columns).select(next, is_beyond));
            },
        );
    }
}
