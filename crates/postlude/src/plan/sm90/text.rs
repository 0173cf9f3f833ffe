//! The text of a Hopper schedule: a knob a line.

use std::fmt;
use std::str::FromStr;

use super::{Sm90Schedule, Tile};
use crate::plan::ScheduleTextError;

impl fmt::Display for Sm90Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule sm90 {{")?;
        writeln!(f, "    tile {} x {}", self.tile.rows, self.tile.columns)?;
        writeln!(f, "    consumers {}", self.tile.consumers)?;
        writeln!(f, "    cluster {}", self.cluster)?;
        writeln!(f, "    stages {}", self.stages)?;
        writeln!(f, "    store_stages {}", self.store_stages)?;
        writeln!(f, "    raster_group {}", self.raster_group)?;
        if let Some(limit) = self.grid_limit {
            writeln!(f, "    grid_limit {limit}")?;
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

impl FromStr for Sm90Schedule {
    type Err = ScheduleTextError;

    fn from_str(text: &str) -> Result<Sm90Schedule, ScheduleTextError> {
        let (mut tile, mut grid_limit) = (None, None);
        let mut knobs = [
            ("consumers", None),
            ("cluster", None),
            ("stages", None),
            ("store_stages", None),
            ("raster_group", None),
        ];
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        for line in
            lines.filter(|line| !line.is_empty() && *line != "}" && *line != "schedule sm90 {")
        {
            let bad = || ScheduleTextError::Line(line.to_owned());
            let (knob, value) = line.split_once(' ').ok_or_else(bad)?;
            let number =
                |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(bad);
            match knob {
                "tile" => {
                    let (rows, columns) = value.split_once('x').ok_or_else(bad)?;
                    tile = Some((number(rows)?, number(columns)?));
                }
                "grid_limit" => grid_limit = Some(number(value)?),
                _ => {
                    knobs.iter_mut().find(|(name, _)| *name == knob).ok_or_else(bad)?.1 =
                        Some(number(value)?);
                }
            }
        }
        let (rows, columns) = tile.ok_or(ScheduleTextError::Missing("tile"))?;
        let knob = |place: usize| knobs[place].1.ok_or(ScheduleTextError::Missing(knobs[place].0));
        let (consumers, cluster) = (knob(0)?, knob(1)?);
        Ok(Sm90Schedule {
            tile: Tile { rows, columns, consumers, cluster },
            cluster,
            stages: knob(2)?,
            store_stages: knob(3)?,
            raster_group: knob(4)?,
            grid_limit,
        })
    }
}
