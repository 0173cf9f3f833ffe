//! The text of a Hopper schedule: a knob a line.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use super::views::MOST_PRODUCTS;
use super::{
    Cluster, EpilogueTransfer, FoldWords, Hints, KernelSchedule, Needs, OperandLoad, Raster,
    RasterOrder, SlotCounts, Sm90Schedule, Tile, fragment,
};
use crate::plan::text::{ScheduleTextError, knobs};

impl fmt::Display for Sm90Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule sm90 {{")?;
        writeln!(f, "    tile {} x {}", self.tile.rows, self.tile.columns)?;
        writeln!(f, "    consumers {}", self.tile.math_warpgroups)?;
        writeln!(f, "    teams {}", self.tile.tiles_in_flight())?;
        writeln!(f, "    cluster {}", self.tile.cluster)?;
        writeln!(f, "    stages {}", self.stages)?;
        writeln!(f, "    subtile {}", self.subtile)?;
        writeln!(f, "    fragment {}", self.fragment)?;
        writeln!(f, "    load_stages {}", self.load_stages)?;
        writeln!(f, "    store_stages {}", self.store_stages)?;
        writeln!(f, "    reuse {}", u32::from(self.reuse))?;
        writeln!(f, "    delay {}", u32::from(self.delay))?;
        writeln!(f, "    looped {}", u32::from(self.looped))?;
        if self.rounds > 0 {
            writeln!(f, "    rounds {}", self.rounds)?;
        }
        writeln!(f, "    pending {}", self.pending)?;
        writeln!(f, "    hints {}", self.hints.name())?;
        writeln!(f, "    walk {} {}", self.raster.order.name(), self.raster.group)?;
        if let Some(limit) = self.grid_limit {
            writeln!(f, "    grid_limit {limit}")?;
        }
        let [left, right] = self.needs.operands.map(OperandLoad::name);
        writeln!(f, "    operands {left} {right}")?;
        for (word, transfers) in
            [("loads", &self.needs.epilogue_loads), ("stores", &self.needs.epilogue_stores)]
        {
            write!(f, "    {word}")?;
            transfers.iter().try_for_each(|transfer| write!(f, " {}", transfer.name()))?;
            writeln!(f)?;
        }
        let SlotCounts { loads, stores, reusable } = self.needs.slots;
        writeln!(f, "    slots {loads} {stores} {reusable}")?;
        writeln!(f, "    column_values {}", self.needs.column_values)?;
        writeln!(f, "    products {}", self.needs.products)?;
        let FoldWords { rows, columns, scalars } = self.needs.folds;
        writeln!(f, "    folds {rows} {columns} {scalars}")?;
        writeln!(f, "    widest_fold {}", self.needs.widest_fold)?;
        writeln!(f, "    whole_columns {}", self.needs.whole_columns)?;
        writeln!(f, "    pass_words {}", self.needs.pass_words)?;
        writeln!(f, "    groups {}", self.needs.groups)?;
        writeln!(f, "    work {}", self.needs.work)?;
        if self.needs.lines > 0 {
            writeln!(f, "    lines {}", self.needs.lines)?;
        }
        writeln!(
            f,
            "    # {} threads, {} bytes of shared memory, {} accumulators a thread",
            self.threads(),
            self.shared_bytes(),
            self.tile.accumulators()
        )?;
        writeln!(f, "}}")
    }
}

/// Knobs that are one number.
const NUMBERS: [&str; 21] = [
    "consumers",
    "teams",
    "stages",
    "subtile",
    "fragment",
    "load_stages",
    "store_stages",
    "reuse",
    "delay",
    "looped",
    "rounds",
    "pending",
    "grid_limit",
    "column_values",
    "products",
    "widest_fold",
    "whole_columns",
    "groups",
    "pass_words",
    "work",
    "lines",
];

/// Knobs that are something else.
const OTHERS: [&str; 9] =
    ["tile", "cluster", "walk", "hints", "operands", "slots", "folds", "loads", "stores"];

impl FromStr for Sm90Schedule {
    type Err = ScheduleTextError;

    fn from_str(text: &str) -> Result<Sm90Schedule, ScheduleTextError> {
        let mut knobs_read = Knobs::default();
        for (line, knob, value) in knobs(text, "schedule sm90 {")? {
            if !NUMBERS.contains(&knob) && !OTHERS.contains(&knob) {
                return Err(ScheduleTextError::Unknown { knob: knob.to_owned(), line });
            }
            knobs_read.read(knob, value).ok_or_else(|| ScheduleTextError::Value {
                knob: knob.to_owned(),
                value: value.to_owned(),
                line,
            })?;
        }
        knobs_read.schedule()
    }
}

/// The knobs of a schedule that were read so far.
#[derive(Default)]
struct Knobs {
    numbers: HashMap<&'static str, u32>,
    tile: Option<[u32; 2]>,
    cluster: Option<Cluster>,
    raster: Option<Raster>,
    hints: Option<Hints>,
    operands: Option<[OperandLoad; 2]>,
    loads: Option<Vec<EpilogueTransfer>>,
    stores: Option<Vec<EpilogueTransfer>>,
    slots: SlotCounts,
    folds: FoldWords,
}

impl Knobs {
    /// One knob more, if its value can be read.
    fn read(&mut self, knob: &str, value: &str) -> Option<()> {
        match knob {
            "tile" => {
                let (rows, columns) = value.split_once('x')?;
                self.tile = Some([number(rows)?, number(columns)?]);
            }
            "cluster" => {
                let found = Cluster::ALL.into_iter().find(|each| each.to_string() == value);
                self.cluster = Some(found?);
            }
            "walk" => self.raster = Some(a_raster(value)?),
            "hints" => {
                let found = Hints::ALL.into_iter().find(|each| each.name() == value.trim());
                self.hints = Some(found?);
            }
            "operands" => self.operands = Some(loads(value)?),
            "slots" => {
                let [loads, stores, reusable] = three(value)?;
                self.slots = SlotCounts { loads, stores, reusable };
            }
            "folds" => {
                let [rows, columns, scalars] = three(value)?;
                self.folds = FoldWords { rows, columns, scalars };
            }
            "loads" => self.loads = Some(transfers(value)?),
            "stores" => self.stores = Some(transfers(value)?),
            _ => {
                let name = NUMBERS.into_iter().find(|name| *name == knob)?;
                let value = number(value)?;
                if name == "products" && !(1..=MOST_PRODUCTS).contains(&value) {
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
        let [rows, columns] = self.tile.ok_or(missing("tile"))?;
        let needs = Needs {
            operands: self.operands.ok_or(missing("operands"))?,
            epilogue_loads: self.loads.ok_or(missing("loads"))?,
            epilogue_stores: self.stores.ok_or(missing("stores"))?,
            slots: self.slots,
            column_values: knob("column_values")?,
            products: given("products").unwrap_or(1),
            folds: self.folds,
            widest_fold: given("widest_fold").unwrap_or(0),
            work: given("work").unwrap_or(0),
            lines: given("lines").unwrap_or(0),
            whole_columns: given("whole_columns").unwrap_or(0),
            pass_words: given("pass_words").unwrap_or(0),
            groups: given("groups").unwrap_or(1).max(1),
        };
        let subtile = knob("subtile")?;
        Ok(Sm90Schedule {
            tile: Tile {
                rows,
                columns,
                kernel: if knob("teams")? > 1 {
                    KernelSchedule::PingPong
                } else {
                    KernelSchedule::Cooperative
                },
                math_warpgroups: knob("consumers")?,
                cluster: self.cluster.ok_or(missing("cluster"))?,
            },
            stages: knob("stages")?,
            subtile,
            fragment: given("fragment").unwrap_or_else(|| fragment(&needs, subtile)),
            load_stages: knob("load_stages")?,
            store_stages: knob("store_stages")?,
            reuse: given("reuse").unwrap_or(0) > 0,
            delay: given("delay").unwrap_or(0) > 0,
            looped: given("looped").unwrap_or(0) > 0,
            rounds: given("rounds").unwrap_or(0),
            pending: knob("pending")?,
            hints: self.hints.ok_or(missing("hints"))?,
            raster: self.raster.ok_or(missing("walk"))?,
            grid_limit: given("grid_limit"),
            needs,
        })
    }
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// A raster by its words.
fn a_raster(text: &str) -> Option<Raster> {
    let (order, group) = text.split_once(' ')?;
    let order = RasterOrder::ALL.into_iter().find(|each| each.name() == order)?;
    Some(Raster { order, group: group.trim().parse().ok()? })
}

fn three(text: &str) -> Option<[u32; 3]> {
    let words: Option<Vec<u32>> = text.split_whitespace().map(number).collect();
    words?.try_into().ok()
}

/// Operand loads by their words.
fn loads(text: &str) -> Option<[OperandLoad; 2]> {
    let load = |word: &str| OperandLoad::ALL.into_iter().find(|load| load.name() == word);
    let loads: Option<Vec<OperandLoad>> = text.split_whitespace().map(load).collect();
    loads?.try_into().ok()
}

/// Epilogue transfers by their words.
fn transfers(text: &str) -> Option<Vec<EpilogueTransfer>> {
    let transfer =
        |word: &str| EpilogueTransfer::ALL.into_iter().find(|transfer| transfer.name() == word);
    text.split_whitespace().map(transfer).collect()
}
