//! The index of an element among the elements that `topk` folds together.

use super::{
    Binary, Columns, Concat, Constant, Fold, Graph, IndexAxis, Merge, NodeId, Op, Over, Part, Run,
    Split,
};

/// Where each element of a value is along the one dim that is folded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The index of each element times `stride`, i32.
    pub(crate) index: NodeId,
    /// The rows or columns that one element stands for.
    pub(crate) stride: u32,
}

impl Place {
    /// An index that a fold gives, times the stride.
    pub(crate) fn scaled(self, graph: &mut Graph, index: NodeId) -> NodeId {
        if self.stride == 1 {
            return index;
        }
        let stride = graph.make(Op::Constant(Constant::I32(self.stride as i32)));
        graph.make(Op::Binary(Binary::Multiply, index, stride))
    }
}

impl Graph {
    /// The index of each element of a value among the folded elements; `None` where several dims are.
    pub(crate) fn place_along(&mut self, over: Over, value: NodeId) -> Option<Place> {
        match over {
            Over { batch: false, row: None, column: Some(Run::All) } => {
                let own = self.ty(value).axes.columns()?;
                self.column_of(value).or_else(|| self.column_among(own))
            }
            Over { batch: false, row: Some(Run::All), column: None } => {
                let stride = self.ty(value).axes.row?;
                let row = self.make(Op::Index(IndexAxis::Row));
                let run = Over { row: Some(Run::Group(stride)), ..Over::NOTHING };
                Some(self.first_of(run, Place { index: row, stride: 1 }, stride))
            }
            Over { batch: true, row: None, column: None } => {
                Some(Place { index: self.make(Op::Index(IndexAxis::Batch)), stride: 1 })
            }
            _ => None,
        }
    }

    /// The place of a column in what its value is made of: a launch has parts of one value in one place, and no others.
    fn column_of(&mut self, value: NodeId) -> Option<Place> {
        let own = self.ty(value).axes.columns()?;
        if own == self.space().accumulator_axes().columns()? {
            return Some(Place { index: self.make(Op::Index(IndexAxis::Column)), stride: 1 });
        }
        let mut value = value;
        loop {
            match self[value].op {
                Op::Part(part, whole) => {
                    let before = self.columns_before(part, own)?;
                    let whole = self.column_of(whole).filter(|whole| whole.stride == 1)?;
                    let index = self.make(Op::Part(part, whole.index));
                    return Some(Place { index: self.after(index, before), stride: 1 });
                }
                Op::Reduce(_, over @ Over { column: Some(Run::Group(run)), .. }, of) => {
                    let whole = self.column_of(of)?;
                    let over = Over { column: over.column, ..Over::NOTHING };
                    return Some(self.first_of(over, whole, run));
                }
                _ => {}
            }
            let has_own = |operand: &NodeId| self.ty(*operand).axes.columns() == Some(own);
            value = self[value].op.operands().find(has_own)?;
        }
    }

    /// The columns in front of a part, part by part; `None` where the columns of a part are not beside each other.
    fn columns_before(&self, part: Part, own: Columns) -> Option<Vec<Columns>> {
        match part {
            Part::First => Some(Vec::new()),
            Part::Second => Some(vec![own]),
            Part::Equal { index, run: None, .. } => Some(vec![own; index.into()]),
            Part::Listed { split, index } => {
                let split = self.space().splits.get(usize::from(split))?;
                Some(split.parts.get(..index.into())?.to_vec())
            }
            Part::Even | Part::Odd | Part::Equal { run: Some(_), .. } | Part::Repeated { .. } => {
                None
            }
        }
    }

    /// An index counted from behind these columns.
    fn after(&mut self, index: NodeId, before: Vec<Columns>) -> NodeId {
        before.into_iter().fold(index, |index, columns| {
            let count = self.make(Op::Size(self.space().column_dim(columns)));
            self.make(Op::Binary(Binary::Subtract, index, count))
        })
    }

    /// The place of a column among these, whatever value it is of: that in the first of as many equal parts.
    fn column_among(&mut self, own: Columns) -> Option<Place> {
        let listed = || {
            let mut splits = self.space().splits.iter().enumerate();
            let first = |(split, of): (usize, &Split)| {
                let index = of.parts.iter().position(|part| part.part == own.part)?;
                Some((split as u16, index as u16, of.whole, of.parts[index]))
            };
            splits.find_map(first)
        };
        let product = self.space().accumulator_axes().columns()?;
        let (index, whole) = if own.part == product.part {
            (self.make(Op::Index(IndexAxis::Column)), product)
        } else {
            let (split, index, whole, part) = listed()?;
            let whole = self.column_among(whole)?.index;
            let start = self.columns_before(Part::Listed { split, index }, part)?;
            let own = self.make(Op::Part(Part::Listed { split, index }, whole));
            (self.after(own, start), part)
        };
        let common = greatest_common_divisor(own.divisor, whole.divisor);
        let index = self.place_in_merged(index, whole, whole.divisor / common);
        let part = match own.divisor / common {
            1 => return Some(Place { index, stride: 1 }),
            2 => Part::First,
            count => Part::Equal { index: 0, count: count.try_into().ok()?, run: None },
        };
        Some(Place { index: self.make(Op::Part(part, index)), stride: 1 })
    }

    /// The place among this many times as many columns: the index in each of as many equal parts, one behind the other.
    fn place_in_merged(&mut self, index: NodeId, of: Columns, count: u32) -> NodeId {
        let (mut index, mut of, mut count) = (index, of, count);
        while count.is_multiple_of(2) {
            let second = self.behind(index, of, 1);
            index = self.make(Op::Merge(Merge::Concat, index, second));
            (of.divisor, count) = (of.divisor / 2, count / 2);
        }
        if count == 1 {
            return index;
        }
        let parts = (0..count).map(|before| self.behind(index, of, before)).collect();
        self.make(Op::Concat(Concat::Equal(None), parts))
    }

    /// An index with these columns some times in front of it.
    fn behind(&mut self, index: NodeId, columns: Columns, times: u32) -> NodeId {
        let count = self.make(Op::Size(self.space().column_dim(columns)));
        (0..times).fold(index, |index, _| self.make(Op::Binary(Binary::Add, index, count)))
    }

    /// The first index of each run.
    fn first_of(&mut self, over: Over, of: Place, run: u32) -> Place {
        if run == 1 {
            return of;
        }
        let index = self.make(Op::Reduce(Fold::Min, over, of.index));
        Place { index, stride: of.stride.saturating_mul(run) }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
