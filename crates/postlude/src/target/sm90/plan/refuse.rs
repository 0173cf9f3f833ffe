//! What no Hopper kernel runs: rows, runs of columns and products that no tile of the table holds.

use crate::lower::{TileProgram, needing};

use crate::target::tile::Tile;

use super::needs::Needs;
use super::ranked;
use super::refusal::Sm90Refusal;

/// Refuses rows, runs of columns and products that no tile of the table holds.
pub(super) fn refuse(program: &TileProgram, needs: &Needs) -> Result<(), Sm90Refusal> {
    ranked::refuse(program, needs)?;
    refuse_rows(program, needs)?;
    refuse_width(program, needs)?;
    refuse_height(program, needs)?;
    let products = needs.products();
    if products > 1 && !needs.tiles().any(|tile| tile.takes(needs)) {
        return Err(Sm90Refusal::ManyProducts { products });
    }
    Ok(())
}

/// Refuses rows that no cluster's tiles hold.
fn refuse_rows(program: &TileProgram, needs: &Needs) -> Result<(), Sm90Refusal> {
    let most = needs.tiles().filter(|tile| !tile.holds_rows());
    let most = most.map(|tile| tile.row_columns(needs)).max().unwrap_or(0);
    let most = most.max(needs.longest_held());
    if needs.whole_columns <= most {
        return Ok(());
    }
    let graph = program.graph();
    let mut after_pass = graph.nodes().filter(|(id, _)| program.passes[id.index()] > 0);
    let statement = after_pass.find_map(|(id, _)| graph.statement(id));
    let bytes = statement.map(|statement| statement.bytes);
    Err(Sm90Refusal::LongRows { columns: needs.whole_columns, most, bytes })
}

/// Refuses runs that no tile is a multiple of.
fn refuse_width(program: &TileProgram, needs: &Needs) -> Result<(), Sm90Refusal> {
    let fits = needs.tiles().any(|tile| {
        tile.columns.is_multiple_of(needs.parts())
            && needs.width(*tile).is_multiple_of(needs.groups)
    });
    let run = needs.groups;
    let longest = program.run_lengths.first().copied().unwrap_or(run);
    if fits {
        return Ok(());
    }
    Err(Sm90Refusal::LongGroups { run, bytes: needing(program.graph(), longest) })
}

/// Refuses runs of rows that no tile is a multiple of.
fn refuse_height(program: &TileProgram, needs: &Needs) -> Result<(), Sm90Refusal> {
    let fits = |tile: &Tile| tile.rows.is_multiple_of(needs.block_rows);
    if needs.tiles().any(fits) {
        return Ok(());
    }
    let longest = program.row_run_lengths.first().copied().unwrap_or(needs.block_rows);
    let statement = program.graph().statement_needing_rows(longest);
    let bytes = statement.map(|statement| statement.bytes);
    Err(Sm90Refusal::LongBlocks { run: needs.block_rows, bytes })
}
