//! The parameters of a launch: how many and how large they may be.

use crate::graph::InputId;
use crate::lower::TileProgram;
use crate::placement::Placements;

use super::mainloop::Mainloop;
use super::needs::Needs;
use super::operand::{OperandLoad, STAGGER};
use super::place::EpilogueTransfer;
use super::refusal::Sm90Refusal;
use super::shared_strides::SharedStrides;
use super::widened::widened_operand;

/// The most bytes that parameters take, as in `runtime/parameters`.
const MOST_BYTES: usize = 32_704;
/// Bytes and parameters of a launch that the host passes without an allocation: one of more goes without tensor maps.
const FEW_BYTES: usize = 4096;
const FEW: usize = 512;
/// The launch's parameters as they lie one behind the other.
#[derive(Clone, Copy, Default)]
pub(super) struct Parameters {
    count: usize,
    bytes: usize,
    /// Batch dims that every tensor has a stride along.
    batch_dims: usize,
}

impl Parameters {
    fn push(&mut self, count: usize, size: usize, alignment: usize) {
        for _ in 0..count {
            self.bytes = self.bytes.next_multiple_of(alignment) + size;
        }
        self.count += count;
    }

    fn maps(&mut self, count: usize) {
        self.push(count, 128, 64);
    }

    /// A pointer, and strides along batch dims, rows and columns.
    fn memory(&mut self) {
        self.push(3 + self.batch_dims, 8, 8);
    }

    fn words(&mut self, count: usize) {
        self.push(count, 4, 4);
    }

    /// The table of a list.
    fn table(&mut self, listed: bool) {
        self.push(listed.into(), 8, 8);
    }

    /// A tensor; only its pointer where another one has its strides.
    fn tensor(&mut self, transfer: EpilogueTransfer, shares: Option<usize>) {
        match (transfer.major(), shares) {
            (Some(_), _) => self.maps(1),
            (None, Some(_)) => self.push(1, 8, 8),
            (None, None) => self.memory(),
        }
    }

    fn operand(&mut self, load: OperandLoad) {
        match load {
            OperandLoad::TmaKMajor
            | OperandLoad::TmaMnMajor
            | OperandLoad::Widened4
            | OperandLoad::Widened8 => self.maps(1),
            OperandLoad::Staggered => {
                let classes = STAGGER as usize;
                self.maps(classes);
                // What is before each class, and two selectors.
                self.words(classes + 2);
            }
            OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor => self.memory(),
        }
        // Whether it has each batch dim.
        self.words(self.batch_dims);
    }

    /// Those of a graph, in the order in which a kernel declares them.
    pub(super) fn of(program: &TileProgram, needs: &Needs) -> Parameters {
        let batch_dims = program.graph().space().batch.len().max(1);
        let mut all = Parameters { batch_dims, ..Parameters::default() };
        if let Some(Mainloop { operands: [left, right], products, scaling, .. }) = &needs.mainloop {
            all.operand(*left);
            (0..*products).for_each(|_| all.operand(*right));
            (0..scaling.count()).for_each(|_| all.memory());
            // Tables of operands, scales and shared values, each behind its tensor.
            let body = |input: &&InputId| program.body_inputs.contains(input);
            let before = needs.lists.inputs.iter().filter(|input| !body(input)).count();
            (0..before).for_each(|_| all.table(true));
            if let Some((_, input)) = widened_operand(program.graph()) {
                let computed = program.graph().inputs()[input.0 as usize].computed.as_ref();
                computed.iter().flat_map(|graph| graph.inputs()).for_each(|_| all.memory());
            }
            // K.
            all.words(1);
        }
        // Sizes, with those of batch dims behind the first, and the order of tiles.
        all.words(4 + batch_dims + program.sizes.len());
        let (graph, segmented) = (program.graph(), program.graph().space().is_segmented());
        // What the order of tiles divides by.
        all.words(if segmented { 0 } else { 8 });
        if segmented || graph.contraction_ends().or(graph.row_counts()).is_some() {
            // Where segments end, or how many rows are used, and how far these numbers lie apart.
            all.push(2, 8, 8);
        }
        // Where windows of columns begin, and how wide they are.
        all.words(2 * program.windows());
        let tiles = &program.tile_operands;
        let shared = SharedStrides::of(program, needs);
        for (input, shares) in program.body_inputs.iter().zip(shared.inputs) {
            if program.graph().inputs()[input.0 as usize].dims.is_none() {
                all.words(1);
                continue;
            }
            let place = tiles.iter().position(|tile| tile == input);
            let transfer =
                place.map_or(EpilogueTransfer::Strided, |place| needs.epilogue_loads[place]);
            all.tensor(transfer, shares);
            all.table(needs.lists.has_input(*input));
        }
        let stores = needs.epilogue_stores.iter().zip(shared.outputs).enumerate();
        for (place, (transfer, shares)) in stores.filter(|(place, _)| !shared.implied[*place]) {
            all.tensor(*transfer, shares);
            all.table(needs.lists.has_output(place));
            if segmented && transfer.major().is_some() {
                all.memory();
            }
        }
        if needs.folds.any() {
            all.push(4, 8, 8);
        } else if needs.mainloop.is_some() {
            // Slices of K, by which numbers are divided, whole tiles before them and their partial sums.
            all.words(4);
            all.push(1, 8, 8);
        }
        all
    }

    /// Whether they are few.
    pub(super) fn are_few(self) -> bool {
        self.count <= FEW && self.bytes <= FEW_BYTES
    }
}

/// Lets tiles go straight between registers and memory where their tensor maps are many: first operands, then outputs,
/// too. Where that is not enough, vectors that lie alike share their strides.
pub(super) fn shorten(program: &TileProgram, placements: &Placements, needs: &mut Needs) {
    let whole = needs.clone();
    make_direct(program, needs);
    if Parameters::of(program, needs).are_few() {
        return;
    }
    let mut shared = Needs { shared_strides: true, ..whole };
    make_direct(program, &mut shared);
    if SharedStrides::of(program, &shared).holds(program, placements) {
        *needs = shared;
    }
}

fn make_direct(program: &TileProgram, needs: &mut Needs) {
    if !Parameters::of(program, needs).are_few() {
        needs.epilogue_loads.iter_mut().for_each(EpilogueTransfer::make_direct);
    }
    if !Parameters::of(program, needs).are_few() {
        needs.epilogue_stores.iter_mut().for_each(EpilogueTransfer::make_direct);
    }
}

/// Refuses more tensors and scalars than a launch has parameters for.
pub(super) fn refuse(program: &TileProgram, needs: &Needs) -> Result<(), Sm90Refusal> {
    let all = Parameters::of(program, needs);
    if all.bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(Sm90Refusal::Parameters { bytes: all.bytes, most: MOST_BYTES })
}
