//! Random sizes, data, places and ways to run.

use std::collections::BTreeMap;

use postlude::MathMode;
use postlude::dtype::Elem;
use postlude::sim::Timing;
use postlude::target::Overlap;

use super::super::place::Place;
use super::super::sketch::Form;
use super::super::specimen::{Drawn, Specimen, Way};
use super::{Draw, Extent};
use crate::fill::Fill;
use crate::random::Random;

/// Sizes at which something begins or ends.
const EDGES: [usize; 14] = [1, 2, 3, 7, 8, 9, 15, 16, 63, 64, 65, 127, 128, 129];
/// The longest rows that a tile holds.
const WIDEST_ROWS: usize = 256;

impl Draw {
    /// The kernel with data.
    pub(super) fn finish(mut self, seed: u64, extent: Extent) -> Specimen {
        let mut sizes = self.sizes(extent);
        // By numbers of their own: what else is drawn stays as it is.
        let random = &mut Random::new(!seed);
        self.spread_batch(random);
        self.share_operand(random, &mut sizes);
        self.scale_blocks(random, &mut sizes);
        self.cut_rows(random);
        let mut specimen = Specimen {
            seed,
            sizes: sizes.to_vec(),
            fills: BTreeMap::new(),
            set: BTreeMap::new(),
            places: BTreeMap::new(),
            way: way(&mut self.random, seed),
            drawn: Drawn::Kernel(self.sketch.clone()),
        };
        self.fill(&mut specimen);
        self.place(&mut specimen);
        specimen
    }

    fn sizes(&mut self, extent: Extent) -> [usize; 4] {
        let (most, inner) = match extent {
            // Free kernels are about what meets what: most of them need no more than a tile.
            Extent::Small if self.traits.free && !self.random.one_in(8) => ([3, 40, 48], 24),
            Extent::Small => ([3, 160, 200], 136),
            Extent::Large => ([4, 640, 640], 400),
        };
        let multiples = self.sketch.multiples();
        let random = &mut self.random;
        let mut sizes = [0; 4];
        for place in 0..3 {
            let multiple = multiples[place];
            let limit = most[place].max(multiple);
            let size = if place == 0 { random.range(1, limit) } else { size(random, limit) };
            // A multiple near what was drawn, though never more than the limit.
            let size = size.next_multiple_of(multiple);
            sizes[place] = if size > limit { size - multiple } else { size };
        }
        if self.traits.rows_again && sizes[2] > WIDEST_ROWS && !random.one_in(20) {
            let less = sizes[2] % WIDEST_ROWS;
            sizes[2] = (less - less % multiples[2]).max(multiples[2]);
        }
        if random.one_in(60) && !self.sketch.gives_indices() {
            sizes[random.range(usize::from(!self.traits.free), 2)] = 0;
        }
        let least = self.sketch.least_columns();
        sizes[2] = sizes[2].max(least.next_multiple_of(multiples[2]));
        sizes[3] = if random.one_in(60) { 0 } else { size(random, inner) };
        sizes
    }

    fn fill(&mut self, specimen: &mut Specimen) {
        let floats = self.float_fills();
        for (place, name) in ["A", "B"].into_iter().enumerate() {
            // One nan in a row of A would be all that its row shows.
            let kind = *self.random.pick(&floats);
            let kind =
                if matches!(kind, Fill::Special | Fill::Large) { Fill::Normal } else { kind };
            if place == 0 || !self.sketch.shares_operand {
                specimen.fills.insert(name.to_owned(), kind);
            }
        }
        for input in self.sketch.inputs.clone() {
            let name = self.sketch.values[input.value].name.clone();
            let picks = self.sketch.statements.iter().any(|statement| {
                statement.text.starts_with("pick") && statement.operands[1] == input.value
            });
            let elem = input.dtype.elem();
            if input.dims.is_none() {
                let value = self.scalar(elem);
                specimen.set.insert(name, value);
                continue;
            }
            let kind = match elem {
                _ if picks && !self.random.one_in(8) => Fill::Labels,
                Elem::I32 => *self.random.pick(&[Fill::Integers, Fill::Labels]),
                Elem::Bool => *self.random.pick(&[Fill::Normal, Fill::Uniform, Fill::Ones]),
                Elem::F32 => *self.random.pick(&floats),
            };
            specimen.fills.insert(name, kind);
        }
    }

    fn float_fills(&mut self) -> Vec<Fill> {
        if self.traits.whole {
            return vec![Fill::Integers];
        }
        let mut kinds = vec![Fill::Normal; 6];
        kinds.extend([Fill::Uniform, Fill::Uniform, Fill::Integers]);
        if self.random.one_in(8) {
            kinds.push(Fill::Special);
            kinds.push(Fill::Ones);
        }
        if self.random.one_in(30) {
            kinds.push(Fill::Large);
        }
        kinds
    }

    fn scalar(&mut self, elem: Elem) -> f64 {
        match elem {
            Elem::I32 | Elem::Bool => self.random.whole(),
            Elem::F32 if self.traits.whole => self.random.whole(),
            Elem::F32 => *self.random.pick(&[2.0, -0.5, 0.1, 1.0, -1.25, 3.0]),
        }
    }

    fn place(&mut self, specimen: &mut Specimen) {
        let plain = self.random.one_in(4);
        let factor = |place: usize| 2 + self.sketch.factor_batches(place).len();
        let mut all: Vec<(String, usize, bool)> =
            vec![("A".to_owned(), factor(0), true), ("B".to_owned(), factor(1), true)];
        for input in &self.sketch.inputs {
            if let Some(dims) = &input.dims {
                all.push((self.sketch.values[input.value].name.clone(), dims.len(), true));
            }
        }
        // The dims of a one-liner's outputs are inferred, and may differ from the sketch's.
        let declared = self.sketch.form == Form::Kernel;
        let outputs = self.sketch.outputs.iter().filter(|_| declared);
        all.extend(outputs.map(|output| (output.name.clone(), output.dims.len(), false)));
        for (name, rank, read) in all {
            let place = Place::any(&mut self.random, rank, read);
            let passed = name != "B" || !self.sketch.shares_operand;
            if !plain && !place.is_packed() && passed {
                specimen.places.insert(name, place);
            }
        }
    }
}

/// A size up to a limit: at an edge, a multiple of 8, or any.
pub(super) fn size(random: &mut Random, limit: usize) -> usize {
    let size = match random.below(4) {
        0 => *random.pick(&EDGES),
        1 => random.range(1, limit.div_ceil(8)) * 8,
        _ => random.range(1, limit),
    };
    size.min(limit)
}

/// How a kernel is run.
pub(super) fn way(random: &mut Random, seed: u64) -> Way {
    let timing = match random.below(10) {
        0 | 1 => Timing::Eager,
        2..=4 => Timing::Lazy,
        _ => Timing::Random { seed: random.below(1000) as u64 },
    };
    let grid_limit = (random.below(10) > 5).then(|| random.range(1, 4) as u32);
    let math = match random.below(10) {
        0 => MathMode::Accurate,
        1 => MathMode::Fast,
        _ => MathMode::Default,
    };
    let tile = random.one_in(2).then(|| random.below(1000));
    let overlap = if seed % 2 == 1 { Overlap::InPrograms } else { Overlap::Never };
    Way { timing, grid_limit, math, tile, overlap }
}
