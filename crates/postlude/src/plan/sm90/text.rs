//! The text of a Hopper schedule: a knob a line.

use std::fmt;
use std::str::FromStr;

use super::{Cluster, Feed, FoldWords, Hints, Needs, Path, Side, Sm90Schedule, Tile, Walk};
use crate::plan::ScheduleTextError;

impl fmt::Display for Sm90Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule sm90 {{")?;
        writeln!(f, "    tile {} x {}", self.tile.rows, self.tile.columns)?;
        writeln!(f, "    consumers {}", self.tile.consumers)?;
        writeln!(f, "    teams {}", self.tile.teams)?;
        writeln!(f, "    cluster {}", self.tile.cluster)?;
        writeln!(f, "    stages {}", self.stages)?;
        writeln!(f, "    subtile {}", self.subtile)?;
        writeln!(f, "    load_stages {}", self.load_stages)?;
        writeln!(f, "    store_stages {}", self.store_stages)?;
        writeln!(f, "    looped {}", u32::from(self.looped))?;
        writeln!(f, "    pending {}", self.pending)?;
        writeln!(f, "    hints {}", self.hints.name())?;
        writeln!(f, "    walk {} {}", self.walk.grouped.name(), self.walk.group)?;
        if let Some(limit) = self.grid_limit {
            writeln!(f, "    grid_limit {limit}")?;
        }
        let [left, right] = self.needs.operands.map(Feed::name);
        writeln!(f, "    operands {left} {right}")?;
        for (word, paths) in [("loads", &self.needs.loads), ("stores", &self.needs.stores)] {
            write!(f, "    {word}")?;
            paths.iter().try_for_each(|path| write!(f, " {}", path.name()))?;
            writeln!(f)?;
        }
        writeln!(f, "    column_values {}", self.needs.column_values)?;
        writeln!(f, "    products {}", self.needs.products)?;
        let FoldWords { rows, columns, scalars } = self.needs.folds;
        writeln!(f, "    folds {rows} {columns} {scalars}")?;
        writeln!(f, "    whole_columns {}", self.needs.whole_columns)?;
        writeln!(f, "    pass_words {}", self.needs.pass_words)?;
        writeln!(f, "    groups {}", self.needs.groups)?;
        writeln!(f, "    work {}", self.needs.work)?;
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
const NUMBERS: [&str; 13] = [
    "consumers",
    "stages",
    "subtile",
    "load_stages",
    "store_stages",
    "pending",
    "column_values",
    "whole_columns",
    "looped",
    "work",
    "groups",
    "teams",
    "pass_words",
];

impl FromStr for Sm90Schedule {
    type Err = ScheduleTextError;

    fn from_str(text: &str) -> Result<Sm90Schedule, ScheduleTextError> {
        let (mut tile, mut grid_limit, mut products) = (None, None, 1);
        let (mut loads, mut stores, mut folds) = (None, None, None);
        let (mut cluster, mut walk, mut hints, mut operands) = (None, None, None, None);
        let mut knobs = NUMBERS.map(|name| (name, None));
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        for line in
            lines.filter(|line| !line.is_empty() && *line != "}" && *line != "schedule sm90 {")
        {
            let bad = || ScheduleTextError::Line(line.to_owned());
            let (knob, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
            match knob {
                "tile" => {
                    let (rows, columns) = value.split_once('x').ok_or_else(bad)?;
                    tile = Some((number(rows)?, number(columns)?));
                }
                "cluster" => {
                    let found = Cluster::ALL.into_iter().find(|each| each.to_string() == value);
                    cluster = Some(found.ok_or_else(bad)?);
                }
                "walk" => walk = Some(a_walk(value).ok_or_else(bad)?),
                "hints" => {
                    let found = Hints::ALL.into_iter().find(|each| each.name() == value.trim());
                    hints = Some(found.ok_or_else(bad)?);
                }
                "operands" => operands = Some(feeds(value).ok_or_else(bad)?),
                "folds" => folds = Some(fold_words(value).ok_or_else(bad)?),
                "products" => {
                    products = number(value)?;
                    if !(1..=2).contains(&products) {
                        return Err(bad());
                    }
                }
                "grid_limit" => grid_limit = Some(number(value)?),
                "loads" => loads = Some(paths(value).ok_or_else(bad)?),
                "stores" => stores = Some(paths(value).ok_or_else(bad)?),
                _ => {
                    knobs.iter_mut().find(|(name, _)| *name == knob).ok_or_else(bad)?.1 =
                        Some(number(value)?);
                }
            }
        }
        let missing = ScheduleTextError::Missing;
        let (rows, columns) = tile.ok_or(missing("tile"))?;
        let knob = |place: usize| knobs[place].1.ok_or(missing(knobs[place].0));
        Ok(Sm90Schedule {
            tile: Tile {
                rows,
                columns,
                consumers: knob(0)?,
                teams: knob(11)?.max(1),
                cluster: cluster.ok_or(missing("cluster"))?,
            },
            stages: knob(1)?,
            subtile: knob(2)?,
            load_stages: knob(3)?,
            store_stages: knob(4)?,
            looped: knobs[8].1.unwrap_or(0) > 0,
            pending: knob(5)?,
            hints: hints.ok_or(missing("hints"))?,
            walk: walk.ok_or(missing("walk"))?,
            grid_limit,
            needs: Needs {
                operands: operands.ok_or(missing("operands"))?,
                loads: loads.ok_or(missing("loads"))?,
                stores: stores.ok_or(missing("stores"))?,
                column_values: knob(6)?,
                products,
                folds: folds.unwrap_or_default(),
                work: knobs[9].1.unwrap_or(0),
                whole_columns: knobs[7].1.unwrap_or(0),
                pass_words: knobs[12].1.unwrap_or(0),
                groups: knobs[10].1.unwrap_or(1).max(1),
            },
        })
    }
}

/// The order of tiles by its words.
fn a_walk(text: &str) -> Option<Walk> {
    let (side, group) = text.split_once(' ')?;
    let grouped = Side::ALL.into_iter().find(|each| each.name() == side)?;
    Some(Walk { grouped, group: group.trim().parse().ok()? })
}

/// Three numbers of floats.
fn fold_words(text: &str) -> Option<FoldWords> {
    let words: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let [rows, columns, scalars] = words?.try_into().ok()?;
    Some(FoldWords { rows, columns, scalars })
}

/// Two feeds by their words.
fn feeds(text: &str) -> Option<[Feed; 2]> {
    let feed = |word: &str| Feed::ALL.into_iter().find(|feed| feed.name() == word);
    let feeds: Option<Vec<Feed>> = text.split_whitespace().map(feed).collect();
    feeds?.try_into().ok()
}

/// Paths by their words.
fn paths(text: &str) -> Option<Vec<Path>> {
    let path = |word: &str| Path::ALL.into_iter().find(|path| path.name() == word);
    text.split_whitespace().map(path).collect()
}
