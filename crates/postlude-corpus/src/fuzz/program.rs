//! A kernel of several products in pieces: values of one operation each, so that any of them can be left out.
//!
//! A [`super::sketch::Sketch`] is math on one product, whose values are told apart by how they vary over its tile. Values of
//! a program have dims by name, for those of one product are operands of the next.

use postlude::DType;

/// A place in the list of values.
pub(super) type ValueId = usize;

/// Where a value comes from.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Origin {
    /// A tensor of the caller's.
    Input(DType),
    /// An f32 that the host passes.
    Host,
    /// A statement; each `{}` of its text stands for an operand.
    Statement { text: String, operands: Vec<ValueId> },
}

/// A value with a name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Value {
    pub(super) name: String,
    /// Batch, rows, columns.
    pub(super) dims: Vec<&'static str>,
    pub(super) origin: Origin,
    /// Its usual magnitude.
    pub(super) about: f64,
    /// The last of the products that it is made of.
    pub(super) last: Option<usize>,
    /// The dtype that its statement rounds it to.
    pub(super) rounded: Option<DType>,
}

impl Value {
    /// The dims of a matrix, its batch left out.
    pub(super) fn matrix(&self) -> Option<[&'static str; 2]> {
        let dims: Vec<&'static str> = self.dims.iter().copied().filter(|dim| *dim != "L").collect();
        <[&'static str; 2]>::try_from(dims).ok()
    }

    /// Whether a statement multiplies two matrices.
    pub(super) fn is_product(&self) -> bool {
        matches!(&self.origin, Origin::Statement { text, .. } if text.contains(" @ "))
    }

    fn operands(&self) -> &[ValueId] {
        match &self.origin {
            Origin::Statement { operands, .. } => operands,
            Origin::Input(_) | Origin::Host => &[],
        }
    }
}

/// An output.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<&'static str>,
    pub(super) value: ValueId,
}

/// A kernel of several products in pieces.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The dtype of every operand.
    pub(super) operand: DType,
    /// Operands before what reads them.
    pub(super) values: Vec<Value>,
    pub(super) outputs: Vec<Stored>,
}

/// A tensor or a number that a kernel takes, or a tensor that it gives.
pub(super) struct Declared<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: DType,
    /// `None` for a number that the host passes.
    pub(super) dims: Option<&'a [&'static str]>,
}

impl Declared<'_> {
    fn text(&self) -> String {
        let Declared { name, dtype, dims } = self;
        let dims = dims.map_or_else(String::new, |dims| format!("[{}]", dims.join(", ")));
        format!("{name}: {dtype}{dims}")
    }
}

impl Program {
    /// The statements that reach an output.
    pub(super) fn lines(&self) -> Vec<String> {
        let live = self.live();
        let used = self.values.iter().zip(live).filter(|(_, live)| *live);
        let lines = used.filter_map(|(value, _)| match &value.origin {
            Origin::Statement { text, operands } => {
                Some(format!("{} = {}", value.name, self.with_names(text, operands)))
            }
            Origin::Input(_) | Origin::Host => None,
        });
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|one| format!("{} = {}", one.name, self.values[one.value].name));
        lines.chain(outputs).collect()
    }

    fn with_names(&self, text: &str, operands: &[ValueId]) -> String {
        let mut operands = operands.iter();
        let mut pieces = text.split("{}");
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            filled.extend(operands.next().map(|operand| self.values[*operand].name.as_str()));
            filled.push_str(piece);
        }
        filled
    }

    /// What comes in, as far as an output needs it.
    pub(super) fn inputs(&self) -> impl Iterator<Item = Declared<'_>> {
        let used = self.values.iter().zip(self.live()).filter(|(_, live)| *live);
        used.filter_map(|(value, _)| {
            let (dtype, dims) = match value.origin {
                Origin::Input(dtype) => (dtype, Some(value.dims.as_slice())),
                Origin::Host => (DType::F32, None),
                Origin::Statement { .. } => return None,
            };
            Some(Declared { name: &value.name, dtype, dims })
        })
    }

    /// What goes out.
    pub(super) fn results(&self) -> impl Iterator<Item = Declared<'_>> {
        self.outputs.iter().map(|output| {
            let Stored { name, dtype, dims, .. } = output;
            Declared { name, dtype: *dtype, dims: Some(dims) }
        })
    }

    /// The signature.
    pub(super) fn signature(&self) -> String {
        let inputs = self.inputs().map(|input| input.text()).collect::<Vec<_>>();
        let outputs = self.results().map(|output| output.text()).collect::<Vec<_>>();
        format!("kernel k({}) -> ({})", inputs.join(", "), outputs.join(", "))
    }

    /// Which values reach an output.
    pub(super) fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.values.len()];
        self.outputs.iter().for_each(|output| live[output.value] = true);
        for (place, value) in self.values.iter().enumerate().rev() {
            if live[place] {
                value.operands().iter().for_each(|operand| live[*operand] = true);
            }
        }
        live
    }

    /// Which products reach an output.
    pub(super) fn live_products(&self) -> Vec<ValueId> {
        let live = self.live();
        let all = self.values.iter().enumerate();
        let own = all.filter(|(place, value)| live[*place] && value.is_product());
        own.map(|(place, _)| place).collect()
    }

    /// Programs in which an operand of the same dims stands for a statement's value, the last statements first.
    pub(super) fn with_one_less(&self) -> Vec<Program> {
        let live = self.live();
        let mut all = Vec::new();
        for (old, value) in self.values.iter().enumerate().rev().filter(|(place, _)| live[*place]) {
            if !matches!(value.origin, Origin::Statement { .. }) {
                continue;
            }
            // An input of the same dims is as good as an operand, and needs less.
            let inputs = (0..old).filter(|id| matches!(self.values[*id].origin, Origin::Input(_)));
            for new in inputs.chain(value.operands().iter().copied()) {
                if self.values[new].dims == value.dims {
                    all.push(self.replaced(old, new));
                }
            }
        }
        all
    }

    fn replaced(&self, old: ValueId, new: ValueId) -> Program {
        let mut program = self.clone();
        let swap = |value: &mut ValueId| {
            if *value == old {
                *value = new;
            }
        };
        for value in &mut program.values {
            if let Origin::Statement { operands, .. } = &mut value.origin {
                operands.iter_mut().for_each(swap);
            }
        }
        program.outputs.iter_mut().for_each(|output| swap(&mut output.value));
        program
    }

    /// What the fuzzer's coverage counts.
    pub(super) fn features(&self) -> Vec<&'static str> {
        let live = self.live();
        let products: Vec<&Value> =
            self.live_products().iter().map(|id| &self.values[*id]).collect();
        let operands = || products.iter().flat_map(|product| product.operands());
        let computed = |id: &ValueId| matches!(self.values[*id].origin, Origin::Statement { .. });
        let made_of = |output: &Stored| self.values[output.value].last;
        let mut seen: Vec<Option<usize>> = self.outputs.iter().map(made_of).collect();
        seen.sort_unstable();
        seen.dedup();
        let shared = operands().any(|one| operands().filter(|other| *other == one).count() > 1);
        let statements = || {
            let used = self.values.iter().zip(&live).filter(|(_, live)| **live);
            used.filter_map(|(value, _)| match &value.origin {
                Origin::Statement { text, operands } => Some((text, operands, value)),
                Origin::Input(_) | Origin::Host => None,
            })
        };
        let transposed = statements().any(|(text, operands, _)| {
            let Some((left, right)) = text.split_once(" @ ") else { return false };
            let sides = [(left, operands.first()), (right, operands.last())];
            let computed = |operand: Option<&ValueId>| operand.is_some_and(computed);
            sides.iter().any(|(side, operand)| side.contains(".T") && computed(*operand))
        });
        let reduces = |text: &str| {
            ["softmax(", "mean(", "max(", "sum("].iter().any(|fold| text.contains(fold))
        };
        let last = products.iter().filter_map(|product| product.last).max();
        let statistics = statements().any(|(text, _, value)| reduces(text) && value.last < last);
        let found = [
            (products.len() > 1, "a program"),
            (operands().any(computed), "a product of a computed value"),
            (shared, "products of one operand"),
            (seen.len() > 1, "outputs of several products"),
            (statistics, "a reduction between products"),
            (transposed, "a computed value transposed"),
        ];
        found.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
    }
}
