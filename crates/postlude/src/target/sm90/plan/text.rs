//! The text of a Hopper schedule: a knob a line.

mod renamed;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::lower::MOST_PRODUCTS;
use crate::plan::{ScheduleTextError, knobs};
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::fit::fragment;
use super::hints::Hints;
use super::lists::Lists;
use super::mainloop::Mainloop;
use super::needs::{Needs, SlotCounts};
use super::operand::{OperandLoad, STAGE_ROW_BYTES};
use super::partials::FoldWords;
use super::place::EpilogueTransfer;
use super::raster::{Raster, RasterOrder};
use super::row_needs::RowNeeds;
use super::scaling::Scaling;
use super::schedule::Sm90Schedule;
use super::slots::NARROWEST;

pub(crate) use renamed::renamed_words;

impl fmt::Display for Sm90Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tile { rows, columns, kernel, math_warpgroups, cluster } = self.tile;
        writeln!(f, "{}", Sm90Schedule::OPENING)?;
        writeln!(f, "    kernel {}", kernel.name())?;
        let depth = self.needs.mainloop.as_ref().map_or(0, Mainloop::depth);
        writeln!(f, "    tile {rows} x {columns} x {depth}")?;
        writeln!(f, "    math_warpgroups {math_warpgroups}")?;
        let mut shared = [cluster.columns() > 1, cluster.rows() > 1];
        if self.needs.swap_ab {
            shared.reverse();
        }
        let multicast = match shared.into() {
            _ if self.needs.mainloop.is_none() => "",
            (false, false) => "",
            (true, false) => "  # multicast of A",
            (false, true) => "  # multicast of B",
            (true, true) => "  # multicast of A and B",
        };
        writeln!(f, "    cluster {} x {}{multicast}", cluster.rows(), cluster.columns())?;
        if self.needs.swap_ab {
            writeln!(f, "    swap_ab 1  # rows of a tile are columns of the product")?;
        }
        if cluster.split_k() > 1 {
            writeln!(f, "    split_k {}", cluster.split_k())?;
        }
        if self.split_k_slices > 1 {
            writeln!(f, "    split_k_slices {}", self.split_k_slices)?;
        }
        if self.data_parallel_waves > 0 {
            writeln!(f, "    data_parallel_waves {}", self.data_parallel_waves)?;
        }
        if self.needs.mainloop.is_some() {
            writeln!(f, "    stages {}", self.stages)?;
            writeln!(f, "    wgmma_in_flight {}", self.wgmma_in_flight)?;
        }
        writeln!(f, "    raster {} group {}", self.raster.order.name(), self.raster.group)?;
        writeln!(f, "    hints {}", self.hints.name())?;
        if let Some(limit) = self.grid_limit {
            writeln!(f, "    grid_limit {limit}")?;
        }
        if !self.tile.has_blocks() {
            writeln!(f, "    ctas {}", self.ctas)?;
            writeln!(f, "    c_stages {}", self.c_stages)?;
            self.needs.print_lines(f)?;
            return writeln!(f, "}}");
        }
        writeln!(f, "    epilogue_tile {}", self.epilogue_tile)?;
        writeln!(f, "    fragment {}", self.fragment)?;
        writeln!(f, "    c_stages {}", self.c_stages)?;
        writeln!(f, "    d_stages {}", self.d_stages)?;
        writeln!(f, "    reuse_c {}", u32::from(self.reuse_c))?;
        writeln!(f, "    delay_store {}", u32::from(self.delay_store))?;
        writeln!(f, "    epilogue_loop {}", u32::from(self.epilogue_loop))?;
        if self.rounds > 0 {
            writeln!(f, "    rounds {}", self.rounds)?;
        }
        self.needs.print_lines(f)?;
        writeln!(
            f,
            "    # {} threads, {} bytes of shared memory, {} accumulators a thread",
            self.threads(),
            self.shared_bytes(),
            self.accumulators()
        )?;
        writeln!(f, "}}")
    }
}

impl Needs {
    /// The lines of a schedule that say what a graph needs of it.
    fn print_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mainloop) = &self.mainloop {
            let [left, right] = mainloop.operands.map(OperandLoad::name);
            writeln!(f, "    operands {left} {right}")?;
            if mainloop.promoted {
                writeln!(f, "    promoted 1")?;
            }
            if mainloop.scaling.count() > 0 {
                let Scaling { rows, columns, runs, run } = mainloop.scaling;
                let remark = "# block scales multiply the sums that are promoted";
                writeln!(f, "    scaling {rows} {columns} {runs} {run}  {remark}")?;
            }
            if mainloop.split {
                writeln!(f, "    split 1")?;
            }
            if mainloop.short_rows > 0 {
                writeln!(f, "    short_rows {}", mainloop.short_rows)?;
            }
            if mainloop.half_spans {
                writeln!(f, "    half_spans 1")?;
            }
            if mainloop.segmented {
                writeln!(f, "    segmented 1  # rows of a batch are a segment")?;
            }
            if mainloop.ragged {
                writeln!(f, "    ragged 1  # K of a batch is a segment")?;
            }
            if mainloop.masked {
                writeln!(
                    f,
                    "    masked 1  # rows of a batch from its count on are not multiplied"
                )?;
            }
        }
        let (loads, stores) = (&self.epilogue_loads, &self.epilogue_stores);
        for (word, transfers) in [("epilogue_loads", loads), ("epilogue_stores", stores)] {
            write!(f, "    {word}")?;
            transfers.iter().try_for_each(|transfer| write!(f, " {}", transfer.name()))?;
            writeln!(f)?;
        }
        let SlotCounts { loads, stores, reusable } = self.slots;
        writeln!(f, "    slots {loads} {stores} {reusable}")?;
        writeln!(f, "    column_values {}", self.column_values)?;
        writeln!(f, "    products {}", self.products())?;
        let FoldWords { rows, columns, scalars } = self.folds;
        writeln!(f, "    folds {rows} {columns} {scalars}")?;
        writeln!(f, "    widest_fold {}", self.widest_fold)?;
        writeln!(f, "    whole_columns {}", self.whole_columns)?;
        writeln!(f, "    pass_words {}", self.pass_words)?;
        writeln!(f, "    groups {}", self.groups)?;
        if self.block_words > 0 {
            writeln!(f, "    block_rows {}", self.block_rows)?;
            writeln!(f, "    block_words {}", self.block_words)?;
        }
        writeln!(f, "    work {}", self.work)?;
        if self.lines > 0 {
            writeln!(f, "    lines {}", self.lines)?;
        }
        if self.shared_strides {
            writeln!(f, "    shared_strides 1")?;
        }
        if self.copied_bytes > 0 {
            writeln!(f, "    copied_bytes {}  # rows are copied as they lie", self.copied_bytes)?;
        }
        if !self.lists.is_empty() {
            writeln!(f, "    lists {}", self.lists.words())?;
        }
        if let Some(rows) = self.rows {
            let RowNeeds { vector, loaded, moved, kept, least, .. } = rows;
            let RowNeeds { vectors, passes, words, columns, multiple, gathered, .. } = rows;
            let remark = "# rows that threads hold";
            writeln!(
                f,
                "    held {vector} {loaded} {moved} {kept} {least} {vectors} {passes} {words} {columns} {multiple}  {remark}"
            )?;
            if gathered > 0 {
                writeln!(
                    f,
                    "    gathered {gathered}  # bytes of an element that come from gathered rows"
                )?;
            }
        }
        Ok(())
    }
}

/// Knobs that are one number.
const NUMBERS: [&str; 37] = [
    "swap_ab",
    "ctas",
    "gathered",
    "segmented",
    "ragged",
    "masked",
    "promoted",
    "split",
    "short_rows",
    "half_spans",
    "math_warpgroups",
    "split_k",
    "split_k_slices",
    "data_parallel_waves",
    "stages",
    "wgmma_in_flight",
    "grid_limit",
    "epilogue_tile",
    "fragment",
    "c_stages",
    "d_stages",
    "reuse_c",
    "delay_store",
    "epilogue_loop",
    "rounds",
    "column_values",
    "products",
    "widest_fold",
    "whole_columns",
    "groups",
    "block_rows",
    "block_words",
    "pass_words",
    "work",
    "lines",
    "shared_strides",
    "copied_bytes",
];

/// Knobs that are something else.
const OTHERS: [&str; 13] = [
    "held",
    "lists",
    "kernel",
    "tile",
    "cluster",
    "raster",
    "hints",
    "operands",
    "scaling",
    "epilogue_loads",
    "epilogue_stores",
    "slots",
    "folds",
];

impl FromStr for Sm90Schedule {
    type Err = ScheduleTextError;

    /// Reads a schedule of this release or, by its older words, of the last.
    fn from_str(text: &str) -> Result<Sm90Schedule, ScheduleTextError> {
        let mut knobs_read = Knobs::default();
        let mut seen: Vec<String> = Vec::new();
        for (line, word, written) in knobs(text, Sm90Schedule::OPENING)? {
            for (knob, value) in renamed::modern(word, written) {
                if !NUMBERS.contains(&&*knob) && !OTHERS.contains(&&*knob) {
                    return Err(ScheduleTextError::Unknown { knob: word.to_owned(), line });
                }
                if seen.contains(&knob) {
                    return Err(ScheduleTextError::Twice { knob: word.to_owned(), line });
                }
                knobs_read.read(&knob, &value).ok_or_else(|| ScheduleTextError::Value {
                    knob: word.to_owned(),
                    value: written.to_owned(),
                    line,
                })?;
                seen.push(knob);
            }
        }
        knobs_read.schedule()
    }
}

/// The knobs of a schedule that were read so far.
#[derive(Default)]
struct Knobs {
    numbers: HashMap<&'static str, u32>,
    kernel: Option<KernelSchedule>,
    tile: Option<[u32; 2]>,
    operand_bytes: Option<u32>,
    cluster: Option<[u32; 2]>,
    raster: Option<Raster>,
    hints: Option<Hints>,
    operands: Option<[OperandLoad; 2]>,
    scaling: Scaling,
    loads: Option<Vec<EpilogueTransfer>>,
    stores: Option<Vec<EpilogueTransfer>>,
    slots: SlotCounts,
    folds: FoldWords,
    lists: Lists,
    rows: Option<RowNeeds>,
}

impl Knobs {
    /// One knob more, if its value can be read.
    fn read(&mut self, knob: &str, value: &str) -> Option<()> {
        match knob {
            "kernel" => {
                self.kernel =
                    Some(KernelSchedule::ALL.into_iter().find(|each| each.name() == value)?);
            }
            "tile" => {
                let [rows, columns, depth] = sizes(value)?;
                self.tile = Some([rows, columns]);
                // Without a product a stage has no depth.
                self.operand_bytes = STAGE_ROW_BYTES.checked_div(depth);
                [0, 32, 64, 128].contains(&depth).then_some(())?;
            }
            "cluster" => {
                let cluster = sizes(value)?;
                let mut all = Cluster::ALL.iter();
                self.cluster =
                    all.any(|each| [each.rows(), each.columns()] == cluster).then_some(cluster);
                self.cluster?;
            }
            "raster" => self.raster = Some(a_raster(value)?),
            "hints" => {
                self.hints = Some(Hints::ALL.into_iter().find(|each| each.name() == value)?);
            }
            "lists" => self.lists = Lists::read(value)?,
            "operands" => self.operands = Some(operand_loads(value)?),
            "scaling" => {
                let [rows, columns, runs, run] = numbers(value)?;
                self.scaling = Scaling { rows, columns, runs, run };
            }
            "slots" => {
                let [loads, stores, reusable] = numbers(value)?;
                self.slots = SlotCounts { loads, stores, reusable };
            }
            "folds" => {
                let [rows, columns, scalars] = numbers(value)?;
                self.folds = FoldWords { rows, columns, scalars };
            }
            "held" => {
                let [vector, loaded, moved, kept, least, vectors, passes, words, columns, multiple] =
                    numbers(value)?;
                let needs = RowNeeds {
                    vector,
                    loaded,
                    moved,
                    gathered: 0,
                    kept,
                    least,
                    vectors,
                    passes,
                    words,
                    columns,
                    multiple,
                };
                self.rows = (vector > 0 && multiple > 0).then_some(needs);
                self.rows?;
            }
            "epilogue_loads" => self.loads = Some(transfers(value)?),
            "epilogue_stores" => self.stores = Some(transfers(value)?),
            _ => {
                let name = NUMBERS.into_iter().find(|name| *name == knob)?;
                let value = number(value)?;
                let fits = match name {
                    "products" => (0..=MOST_PRODUCTS).contains(&value),
                    "split_k" => Cluster::ALL.iter().any(|each| each.split_k() == value),
                    _ => true,
                };
                if !fits {
                    return None;
                }
                self.numbers.insert(name, value);
            }
        }
        Some(())
    }

    fn schedule(self) -> Result<Sm90Schedule, ScheduleTextError> {
        let missing = ScheduleTextError::Missing;
        let given = |name: &'static str| self.numbers.get(name).copied();
        let knob = |name: &'static str| given(name).ok_or(missing(name));
        let tile = self.tile()?;
        let mainloop = self.mainloop()?;
        let of_products = |name| match mainloop {
            Some(_) => knob(name),
            None => Ok(given(name).unwrap_or(0)),
        };
        let gathered = given("gathered").unwrap_or(0);
        let (stages, wgmma_in_flight) = (of_products("stages")?, of_products("wgmma_in_flight")?);
        let needs = Needs {
            mainloop,
            swap_ab: given("swap_ab").unwrap_or(0) > 0,
            epilogue_loads: self.loads.ok_or(missing("epilogue_loads"))?,
            epilogue_stores: self.stores.ok_or(missing("epilogue_stores"))?,
            slots: self.slots,
            column_values: knob("column_values")?,
            folds: self.folds,
            widest_fold: given("widest_fold").unwrap_or(0),
            work: given("work").unwrap_or(0),
            lines: given("lines").unwrap_or(0),
            whole_columns: given("whole_columns").unwrap_or(0),
            pass_words: given("pass_words").unwrap_or(0),
            groups: given("groups").unwrap_or(1).max(1),
            block_rows: given("block_rows").unwrap_or(1).max(1),
            block_words: given("block_words").unwrap_or(0),
            shared_strides: given("shared_strides").unwrap_or(0) > 0,
            lists: self.lists,
            rows: self.rows.map(|rows| RowNeeds { gathered, ..rows }),
            copied_bytes: given("copied_bytes").unwrap_or(0),
            by_elements: tile.is_by_elements(),
        };
        // Only math warpgroups have epilogue tiles and slots.
        let of_slots = |name: &'static str, without: u32| {
            let blocks = tile.has_blocks() && self.rows.is_none();
            if blocks { knob(name) } else { Ok(given(name).unwrap_or(without)) }
        };
        let epilogue_tile = of_slots("epilogue_tile", NARROWEST)?;
        Ok(Sm90Schedule {
            tile,
            stages,
            epilogue_tile,
            fragment: given("fragment").unwrap_or_else(|| fragment(&needs, epilogue_tile)),
            c_stages: of_slots("c_stages", 2)?,
            d_stages: of_slots("d_stages", 1)?,
            reuse_c: given("reuse_c").unwrap_or(0) > 0,
            delay_store: given("delay_store").unwrap_or(0) > 0,
            epilogue_loop: given("epilogue_loop").unwrap_or(0) > 0,
            rounds: given("rounds").unwrap_or(0),
            wgmma_in_flight,
            hints: self.hints.ok_or(missing("hints"))?,
            raster: self.raster.ok_or(missing("raster"))?,
            ctas: given("ctas").unwrap_or(1),
            split_k_slices: given("split_k_slices").unwrap_or(1),
            data_parallel_waves: given("data_parallel_waves").unwrap_or(0),
            grid_limit: given("grid_limit"),
            needs,
        })
    }

    /// What the products need; a schedule without products may leave out their knobs.
    fn mainloop(&self) -> Result<Option<Mainloop>, ScheduleTextError> {
        let missing = ScheduleTextError::Missing;
        let given = |name: &'static str| self.numbers.get(name).copied();
        let products = given("products").unwrap_or(1);
        if products == 0 {
            return Ok(None);
        }
        Ok(Some(Mainloop {
            operands: self.operands.ok_or(missing("operands"))?,
            operand_bytes: self.operand_bytes.ok_or(missing("tile"))?,
            promoted: given("promoted").unwrap_or(0) > 0,
            split: given("split").unwrap_or(0) > 0,
            short_rows: given("short_rows").unwrap_or(0),
            half_spans: given("half_spans").unwrap_or(0) > 0,
            scaling: self.scaling,
            products,
            segmented: given("segmented").unwrap_or(0) > 0,
            ragged: given("ragged").unwrap_or(0) > 0,
            masked: given("masked").unwrap_or(0) > 0,
        }))
    }

    fn tile(&self) -> Result<Tile, ScheduleTextError> {
        let missing = ScheduleTextError::Missing;
        let number = |name: &'static str| self.numbers.get(name).copied();
        let [rows, columns] = self.tile.ok_or(missing("tile"))?;
        let [below, beside] = self.cluster.ok_or(missing("cluster"))?;
        Ok(Tile {
            rows,
            columns,
            kernel: self.kernel.ok_or(missing("kernel"))?,
            math_warpgroups: number("math_warpgroups").ok_or(missing("math_warpgroups"))?,
            cluster: Cluster::new(below, beside, number("split_k").unwrap_or(1)),
        })
    }
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// Sizes with an `x` between each two.
fn sizes<const COUNT: usize>(text: &str) -> Option<[u32; COUNT]> {
    let sizes: Option<Vec<u32>> = text.split('x').map(number).collect();
    sizes?.try_into().ok()
}

/// A raster by its words.
fn a_raster(text: &str) -> Option<Raster> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [order, "group", group] = words[..] else { return None };
    let order = RasterOrder::ALL.into_iter().find(|each| each.name() == order)?;
    Some(Raster { order, group: number(group)? })
}

fn numbers<const COUNT: usize>(text: &str) -> Option<[u32; COUNT]> {
    let words: Option<Vec<u32>> = text.split_whitespace().map(number).collect();
    words?.try_into().ok()
}

/// Operand loads by their words.
fn operand_loads(text: &str) -> Option<[OperandLoad; 2]> {
    let load = |word: &str| OperandLoad::ALL.into_iter().find(|load| load.name() == word);
    let loads: Option<Vec<OperandLoad>> = text.split_whitespace().map(load).collect();
    loads?.try_into().ok()
}

/// Epilogue transfers by their words.
fn transfers(text: &str) -> Option<Vec<EpilogueTransfer>> {
    let transfer = |word: &str| EpilogueTransfer::ALL.into_iter().find(|one| one.name() == word);
    text.split_whitespace().map(transfer).collect()
}
