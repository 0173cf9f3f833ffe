//! Splits into several parts: equal ones, inside of runs, of dims with names; what is made of the parts, and the way back.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Kind, Type};

use super::super::named::{Named, column_name};
use super::super::sketch::{Form, Known, Statement, ValueId};
use super::{Draw, Fits};

/// Parts of one split by their numbers.
const LISTS: [&[u16]; 6] = [&[1, 2], &[1, 2, 2], &[2, 2, 1], &[1, 2, 3], &[1, 2, 1], &[2, 1]];
/// What named parts are multiples of.
const ALIGNS: [u32; 4] = [1, 8, 8, 16];
/// The run that heads of named parts have.
const HEAD: u32 = 8;

impl Draw {
    /// Parts in a kernel that is shaped for Hopper.
    pub(super) fn parts(&mut self) {
        let base = self.sketch.base;
        let whole = move |known: &Known| {
            !known.late && known.ty.axes.column == Some(base) && known.ty.axes.row == Some(1)
        };
        if base == 1 && self.random.one_in(2) && self.split_named(&whole).is_some() {
            return;
        }
        let Some(x) = self.float(&whole) else { return };
        let Some(parts) = self.split_value(x) else { return };
        let mut last = parts.clone();
        for (place, part) in parts.iter().enumerate() {
            last[place] = self.of_part(*part);
        }
        let even = parts.len() != 3 && parts.len() != 5;
        let axes = self.ty(parts[0]).axes;
        if even && self.random.one_in(2) {
            let text = *self.random.pick(&["{} * {}", "silu({}) * {}", "{} - {}"]);
            let about = self.about(last[0]) * self.about(last[1]).min(30.0);
            last[0] = self.assign(text, &[last[0], last[1]], Type { elem: Elem::F32, axes }, about);
        }
        if self.random.one_in(2) {
            let run = self.run_of(parts.len() as u32);
            self.concat(&last, run);
        }
    }

    /// What becomes of one part by itself.
    fn of_part(&mut self, part: ValueId) -> ValueId {
        let mut names = vec![self.sketch.values[part].name.clone()];
        let ty = self.ty(part);
        let mut last = part;
        for _ in 0..*self.random.pick(&[0, 1, 1, 2]) {
            let own = |known: &Known| {
                let meets = known.ty.axes.column.is_none() && known.folds == 0;
                names.contains(&known.name) || meets
            };
            let Some(value) = self.step(&own) else { continue };
            names.push(self.sketch.values[value].name.clone());
            if self.ty(value) == ty {
                last = value;
            }
        }
        last
    }

    /// The length of a run that splits into this many parts.
    fn run_of(&mut self, parts: u32) -> Option<u32> {
        let length = *self.random.pick(&[1, 2, 2, 4, 8]);
        self.random.one_in(2).then_some(parts * length)
    }

    /// A split of anything that has columns, into equal parts.
    pub(super) fn split_any(&mut self, fits: Fits<'_>) -> Option<Vec<ValueId>> {
        let x = self.anywhere(&|known| known.ty.axes.column.is_some() && fits(known))?;
        self.split_value(x)
    }

    fn split_value(&mut self, x: ValueId) -> Option<Vec<ValueId>> {
        let Type { elem, axes } = self.ty(x);
        let by = axes.column?;
        let function = *self.random.pick(&["split", "split", "split", "halves", "pairs"]);
        let count = if function == "split" { *self.random.pick(&[2, 3, 3, 4, 4, 5]) } else { 2 };
        let run = self.run_of(count).or((function != "split").then_some(2 * count));
        let multiple = run.map_or(1, |run| by * run);
        if !self.stays_small(by * count) || !self.stays_small(multiple) {
            return None;
        }
        let ty = Type { elem, axes: Axes { column: Some(by * count), ..axes } };
        let (about, positive) = (self.about(x), self.is_positive(x));
        let targets: Vec<ValueId> = (0..count).map(|_| self.known(&[x], ty, about)).collect();
        for target in &targets {
            self.sketch.values[*target].positive = positive;
            // Some of the parts put together are a part too.
            let fewer = (2..=count).filter(|some| count % some == 0).map(|some| by * some);
            self.sketch.values[*target].splits.extend(fewer);
        }
        let parts = if function == "split" { format!(", {count}") } else { String::new() };
        let run = run.map_or_else(String::new, |run| format!(", {run}"));
        let text = format!("{function}({{}}{parts}{run})");
        let mut statement = Statement::new(targets.clone(), text, vec![x]);
        statement.multiple = multiple;
        self.sketch.statements.push(statement);
        Some(targets)
    }

    /// Values of the same fraction of columns, put together.
    pub(super) fn merge_parts(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let count = *self.random.pick(&[2, 2, 3, 4]);
        let even = |known: &Known| {
            known.ty.axes.column.is_some_and(|by| by % count == 0) && known.ty.elem != Elem::Bool
        };
        let first = self.anywhere(&|known| even(known) && fits(known))?;
        let column = self.ty(first).axes.column;
        let like = |known: &Known| even(known) && known.ty.axes.column == column && fits(known);
        let mut all = vec![first];
        for _ in 1..count {
            all.push(self.anywhere(&like)?);
        }
        let run = self.run_of(count);
        self.concat(&all, run)
    }

    fn concat(&mut self, all: &[ValueId], run: Option<u32>) -> Option<ValueId> {
        let count = all.len() as u32;
        let axes = self.join(all)?;
        let by = axes.column? / count;
        let multiple = run.map_or(1, |run| run * by);
        if !self.stays_small(multiple) {
            return None;
        }
        let function = if count == 2 { *self.random.pick(&["concat", "join"]) } else { "concat" };
        let places = vec!["{}"; all.len()].join(", ");
        let run = run.map_or_else(String::new, |run| format!(", {run}"));
        let ty = Type { elem: self.together(all), axes: Axes { column: Some(by), ..axes } };
        let about = all.iter().map(|one| self.about(*one)).fold(0.0, f64::max);
        let value = self.assign(format!("{function}({places}{run})"), all, ty, about);
        if let Some(statement) = self.sketch.statements.last_mut() {
            statement.multiple = multiple;
        }
        Some(value)
    }

    /// A split into dims with names, and what becomes of the parts. There is one in a kernel at most.
    pub(super) fn split_named(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        if self.sketch.named.is_some() || self.sketch.base != 1 || self.scope != 0 {
            return None;
        }
        if self.sketch.form == Form::OneLiner {
            return None;
        }
        let x = self.float(&|known| known.ty.axes.column == Some(1) && fits(known))?;
        let align = *self.random.pick(&ALIGNS);
        if !self.stays_small(align) {
            return None;
        }
        let parts = self.random.pick(&LISTS).to_vec();
        let named = Named { parts: parts.clone(), align };
        let Type { elem, axes } = self.ty(x);
        let about = self.about(x);
        let targets: Vec<ValueId> = parts
            .iter()
            .map(|part| self.known(&[x], Type { elem, axes: Axes { part: *part, ..axes } }, about))
            .collect();
        let text = format!("split({{}}, [{}])", named.list());
        self.sketch.statements.push(Statement::new(targets.clone(), text, vec![x]));
        self.sketch.named = Some(named);
        let mut last = targets.clone();
        for place in 0..targets.len() {
            self.scope = parts[place];
            last[place] = self.of_named(targets[place], align);
        }
        self.scope = 0;
        if !self.random.one_in(3) {
            return Some(targets[0]);
        }
        let about = last.iter().map(|one| self.about(*one)).fold(0.0, f64::max);
        let places = vec!["{}"; last.len()].join(", ");
        Some(self.assign(format!("concat({places})"), &last, Type { elem, axes }, about))
    }

    /// What becomes of a part with a name: another value of its type.
    fn of_named(&mut self, part: ValueId, align: u32) -> ValueId {
        let ty = self.ty(part);
        if self.random.one_in(3) {
            let row = ty.axes.row.filter(|_| self.random.one_in(3));
            let own = Axes { batch: false, row, ..ty.axes };
            let dtype = *self.random.pick(&[DType::F32, DType::BF16, DType::F16, DType::I8]);
            self.declare_tensor(dtype, own);
        }
        let mut last = part;
        let late = self.sketch.values[part].late;
        let inside = move |known: &Known| late || !known.late;
        if self.random.one_in(3) {
            last = self.head(last, align);
        }
        for _ in 0..*self.random.pick(&[0, 1, 1, 2]) {
            if let Some(value) = self.step(&inside)
                && self.ty(value) == ty
            {
                last = value;
            }
        }
        if self.random.one_in(4) && ty.axes.kind() == Kind::Tile {
            let dim = column_name(ty.axes.part);
            let fold = *self.random.pick(&["sum", "max", "mean", "absmax", "logsumexp"]);
            let x = self.bounded(last, 60.0);
            let left = ty.axes.along(None);
            let about = 20.0 * self.about(x);
            let text = format!("{fold}({{}}, {dim})");
            let value = self.assign(text, &[x], Type { elem: Elem::F32, axes: left }, about);
            let known = &mut self.sketch.values[value];
            (known.late, known.folds) = (true, known.folds + 1);
        }
        last
    }

    /// A norm or a rotation inside of heads, as queries and keys have them.
    fn head(&mut self, x: ValueId, align: u32) -> ValueId {
        let ty = self.ty(x);
        let dim = column_name(ty.axes.part);
        if !align.is_multiple_of(HEAD) || ty.axes.kind() != Kind::Tile {
            return x;
        }
        let about = self.about(x);
        if self.random.one_in(2) {
            let runs = Axes { column: Some(HEAD), ..ty.axes };
            let x = self.bounded(x, 60.0);
            let runs = Type { elem: Elem::F32, axes: runs };
            let power =
                self.assign(format!("mean(square({{}}), {dim}, {HEAD})"), &[x], runs, about);
            return self.assign("{} * rsqrt({} + 0.001)", &[x, power], ty, 1.0);
        }
        let half = Type { elem: ty.elem, axes: Axes { column: Some(2), ..ty.axes } };
        let parts = [self.known(&[x], half, about), self.known(&[x], half, about)];
        for part in parts {
            self.sketch.values[part].splits.push(2);
        }
        let (split, merge) = *self.random.pick(&[("halves", "concat"), ("pairs", "join")]);
        let text = format!("{split}({{}}, {HEAD})");
        self.sketch.statements.push(Statement::new(parts.to_vec(), text, vec![x]));
        let [a, b] = parts;
        let turned = [[a, b], [b, a]]
            .map(|[one, other]| self.assign("{} * 0.8 - {} * 0.6", &[one, other], half, about));
        self.assign(format!("{merge}({{}}, {{}}, {HEAD})"), &turned, ty, about)
    }
}
