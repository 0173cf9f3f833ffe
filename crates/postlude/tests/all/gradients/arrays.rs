//! Numbers by the names of their dims, and what folds, splits and multiplies them.

use super::jet::Jet;

/// A dim of a value: one element for each run of the dim of that name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) divisor: usize,
    pub(super) size: usize,
}

/// Numbers along dims, the last one fastest; truth is 1.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Array {
    pub(super) axes: Vec<Axis>,
    pub(super) data: Vec<Jet>,
}

/// Dims whose values are rows; all other dims are columns or batches.
const ROWS: [&str; 3] = ["M", "T", "S"];

impl Array {
    pub(super) fn number(value: f64) -> Array {
        Array { axes: Vec::new(), data: vec![Jet::from(value)] }
    }

    /// One with these dims, each element from its place along each.
    pub(super) fn filled(axes: Vec<Axis>, element: impl Fn(&[usize]) -> Jet) -> Array {
        let count = axes.iter().map(|axis| axis.size).product();
        let mut data = Vec::with_capacity(count);
        let mut place = vec![0; axes.len()];
        for _ in 0..count {
            data.push(element(&place));
            for (own, axis) in place.iter_mut().zip(&axes).rev() {
                *own += 1;
                if *own < axis.size {
                    break;
                }
                *own = 0;
            }
        }
        Array { axes, data }
    }

    /// Its element at a place along other dims, of which it may lack some, or have them in runs.
    pub(super) fn at(&self, axes: &[Axis], place: &[usize]) -> Jet {
        let mut index = 0;
        for own in &self.axes {
            let of = axes.iter().position(|axis| axis.name == own.name);
            let of = of.unwrap_or_else(|| panic!("{own:?} is not one of {axes:?}"));
            index = index * own.size + place[of] * own.size / axes[of].size;
        }
        self.data[index]
    }

    pub(super) fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    /// The elements in the order of these dims, repeated along dims that the array lacks.
    pub(super) fn ordered(&self, axes: &[Axis]) -> Array {
        Array::filled(axes.to_vec(), |place| self.at(axes, place))
    }

    /// Its columns: the dim that is no row's.
    pub(super) fn columns(&self) -> Option<Axis> {
        self.axes.iter().find(|axis| !ROWS.contains(&axis.name.as_str())).cloned()
    }

    /// Every element rounded to f32.
    pub(super) fn rounded(mut self) -> Array {
        self.data.iter_mut().for_each(|jet| *jet = jet.rounded());
        self
    }
}

/// The dims of values that meet, each as fine as the finest.
pub(super) fn meet(arrays: &[&Array]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for axis in arrays.iter().flat_map(|array| &array.axes) {
        match axes.iter_mut().find(|own| own.name == axis.name) {
            Some(own) if own.size < axis.size => *own = axis.clone(),
            Some(_) => {}
            None => axes.push(axis.clone()),
        }
    }
    axes
}

/// The part of a column, and the column's index in the part; equal parts alternate after `length` columns.
pub(super) fn source(columns: &[Axis], length: Option<usize>, index: usize) -> (usize, usize) {
    if let Some(length) = length {
        let run = length * columns.len();
        return (index % run / length, index / run * length + index % length);
    }
    let mut at = index;
    let part = columns.iter().position(|own| {
        let inside = at < own.size;
        at -= if inside { 0 } else { own.size };
        inside
    });
    (part.expect("a part"), at)
}

/// Some columns of a value, each from the place that is given.
pub(super) fn part_of(
    x: &Array,
    whole: &Axis,
    own: Axis,
    source: impl Fn(usize) -> usize,
) -> Array {
    let at = x.axes.iter().position(|axis| axis == whole).expect("its columns");
    let mut axes = x.axes.clone();
    axes[at] = own;
    Array::filled(axes, |place| {
        let mut from = place.to_vec();
        from[at] = source(place[at]);
        x.at(&x.axes, &from)
    })
}

/// The elements of a value whose place along one dim an index says; nan outside.
pub(super) fn element(x: &Array, along: &Axis, index: &Array, axes: &[Axis]) -> Array {
    Array::filled(axes.to_vec(), |place| {
        let number = index.at(axes, place).value;
        if number < 0.0 || number as usize >= along.size {
            return Jet::from(f64::NAN);
        }
        let own = x.axes.iter().map(|axis| {
            let of = axes.iter().position(|other| other.name == axis.name);
            if axis == along { number as usize } else { place[of.expect("its dim")] }
        });
        let own: Vec<usize> = own.collect();
        x.at(&x.axes, &own)
    })
}

/// The product: along the dim that both have.
pub(super) fn product(a: &Array, b: &Array) -> Array {
    let shared = a.axes.iter().find(|axis| b.axis(&axis.name).is_some());
    let shared = shared.unwrap_or_else(|| panic!("{:?} @ {:?}", a.axes, b.axes)).clone();
    let all = meet(&[a, b]);
    let axes: Vec<Axis> = all.iter().filter(|axis| axis.name != shared.name).cloned().collect();
    let along: Vec<Axis> = axes.iter().cloned().chain([shared.clone()]).collect();
    Array::filled(axes, |place| {
        let term = |k: usize| {
            let at: Vec<usize> = place.iter().copied().chain([k]).collect();
            a.at(&along, &at) * b.at(&along, &at)
        };
        (0..shared.size).map(term).sum()
    })
}

/// The elements that a reduction folds into one, for each result.
fn groups(x: &Array, over: &[(String, Option<usize>)]) -> (Vec<Axis>, Vec<Vec<Jet>>) {
    let left =
        x.axes.iter().filter_map(|axis| match over.iter().find(|(name, _)| *name == axis.name) {
            None => Some(axis.clone()),
            Some((_, None)) => None,
            Some((_, Some(run))) => Some(Axis {
                name: axis.name.clone(),
                divisor: axis.divisor * run,
                size: axis.size / run,
            }),
        });
    let axes: Vec<Axis> = left.collect();
    let count = axes.iter().map(|axis| axis.size).product();
    let numbers = Array {
        axes: axes.clone(),
        data: (0..count).map(|place| Jet::from(place as f64)).collect(),
    };
    let result = Array::filled(x.axes.clone(), |place| numbers.at(&x.axes, place));
    let mut all = vec![Vec::new(); count];
    for (jet, group) in x.data.iter().zip(&result.data) {
        all[group.value as usize].push(*jet);
    }
    (axes, all)
}

pub(super) fn reduced(function: &str, x: &Array, over: &[(String, Option<usize>)]) -> Array {
    let (axes, groups) = groups(x, over);
    Array { axes, data: groups.iter().map(|group| folded(function, group)).collect() }
}

fn folded(function: &str, group: &[Jet]) -> Jet {
    let all = || group.iter().copied();
    let count = Jet::from(group.len() as f64);
    let largest = |jets: Vec<Jet>| jets.into_iter().reduce(Jet::max).expect("elements");
    match function {
        "sum" => all().sum(),
        "mean" => all().sum::<Jet>() / count,
        "var" => {
            let mean = folded("mean", group);
            all().map(|x| (x - mean) * (x - mean)).sum::<Jet>() / count
        }
        "max" => largest(all().collect()),
        "min" => -largest(all().map(|x| -x).collect()),
        "absmax" => largest(all().map(Jet::abs).collect()),
        "prod" => all().fold(Jet::from(1.0), |product, x| product * x),
        "logsumexp" => {
            let top = Jet::from(largest(all().collect()).value);
            all().map(|x| (x - top).exp()).sum::<Jet>().ln() + top
        }
        _ => panic!("`{function}` folds nothing"),
    }
}

pub(super) fn composite(
    function: &str,
    x: &Array,
    over: &[(String, Option<usize>)],
    eps: Jet,
) -> Array {
    let fold = |function: &str, x: &Array| reduced(function, x, over);
    let each = |other: &Array, of: &dyn Fn(Jet, Jet) -> Jet| {
        Array::filled(x.axes.clone(), |place| of(x.at(&x.axes, place), other.at(&x.axes, place)))
    };
    match function {
        "softmax" => each(&fold("logsumexp", x), &|x, total| (x - total).exp()),
        "log_softmax" => each(&fold("logsumexp", x), &|x, total| x - total),
        "rms_norm" => {
            let squares = Array { data: x.data.iter().map(|x| *x * *x).collect(), ..x.clone() };
            each(&fold("mean", &squares), &|x, mean| x / (mean + eps).sqrt())
        }
        _ => {
            let apart = each(&fold("mean", x), &|x, mean| x - mean);
            let variance = fold("var", x);
            Array::filled(x.axes.clone(), |place| {
                apart.at(&x.axes, place) / (variance.at(&x.axes, place) + eps).sqrt()
            })
        }
    }
}
