//! What a launch can hold: counts in 32 bits, lines of code.
//!
//! In: what a program needs, a schedule, a problem. Out: why a launch would not hold them. Invariant: no counter or index
//! that a kernel keeps in 32 bits wraps.

use crate::lower::{TileProgram, least_common_multiple};
use crate::problem::Problem;
use crate::target::tile::Tile;

use super::code::held_elements;
use super::needs::Needs;
use super::refusal::Sm90Refusal;
use super::schedule::Sm90Schedule;
use super::slots::NARROWEST;
use super::work;

/// The longest kernel that is emitted, in lines for all elements of a thread: assembling one takes many minutes.
const MOST_CODE: u64 = 200_000;
/// Numbers of tiles and partial results up to here, and the steps beyond them, are 32-bit numbers.
const MOST_COUNTED: u64 = i32::MAX as u64;

/// Refuses graphs that no tile has short code for.
pub(super) fn refuse_code(program: &TileProgram, needs: &Needs) -> Result<(), Sm90Refusal> {
    let vectors = work::vector_lines(program);
    let lines = |tile: &Tile| code_lines(*tile, needs, vectors);
    let least = needs.tiles().filter(|tile| tile.takes(needs)).map(lines).min();
    match least {
        Some(lines) if lines > MOST_CODE => Err(Sm90Refusal::LongCode { lines, most: MOST_CODE }),
        Some(_) | None => Ok(()),
    }
}

/// About how many lines a kernel has at least: what a thread does for its elements of one round, and for its rows,
/// columns and scalars.
fn code_lines(tile: Tile, needs: &Needs, vectors: [u64; 3]) -> u64 {
    let round = least_common_multiple(needs.groups, NARROWEST);
    let elements = if tile.holds_rows() {
        u64::from(held_elements(tile))
    } else {
        u64::from(tile.blocks()) * u64::from(round) / 2
    };
    let [rows, columns, scalars] = vectors;
    let turns = u64::from(needs.width(tile).div_ceil(128 * tile.warpgroups_per_tile()));
    (u64::from(needs.lines).saturating_mul(elements))
        .saturating_add(rows.saturating_mul(2 * u64::from(tile.blocks())))
        .saturating_add(columns.saturating_mul(turns + 1))
        .saturating_add(scalars.saturating_mul(2))
}

impl Sm90Schedule {
    /// Whether a kernel's 32-bit numbers of tiles, and of partial results and their counters, hold a problem's.
    pub(super) fn counts(&self, problem: &Problem) -> bool {
        let tile = self.tile;
        let product =
            |sizes: &[u64]| sizes.iter().fold(1_u64, |all, size| all.saturating_mul(*size));
        let [rows, columns] = self.clusters(problem).map(|count| count.max(1));
        let batch = (problem.batch as u64).max(1);
        if product(&[rows, columns, batch]) > MOST_COUNTED {
            return false;
        }
        let words = self.needs.folds;
        if !words.any() {
            return true;
        }
        let units = rows * u64::from(tile.cluster.rows() * tile.partials_per_tile());
        let tiles = columns * u64::from(tile.cluster.columns());
        let most = u64::from(words.rows.max(words.columns).max(words.scalars));
        let counters = product(&[units + tiles + 1, batch + 1]);
        product(&[units, tiles, batch]) <= MOST_COUNTED
            && u32::try_from(counters.max(product(&[most + 1, batch]))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::sync::Arc;

    use super::super::candidates::CANDIDATES;
    use super::super::chip::Sm90;
    use super::super::fit::fit;
    use super::super::parameters::Parameters;
    use super::super::place::EpilogueTransfer;
    use super::super::rank::schedules;
    use super::*;
    use crate::define::defined;
    use crate::lower::{BoundProgram, lower};
    use crate::placement::Placements;

    fn planned(
        source: &str,
        sizes: &[(&str, usize)],
    ) -> Result<(BoundProgram, Sm90Schedule), Sm90Refusal> {
        let graph = defined(source);
        let sizes = sizes.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect();
        let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
        let placements = Placements::packed(&graph, &problem);
        let bound = BoundProgram::new(&Arc::new(lower(&graph)?), &problem, &placements)?;
        let schedule = schedules(&bound, Sm90::H200)?.swap_remove(0);
        Ok((bound, schedule))
    }

    const SMALL: [(&str, usize); 3] = [("M", 64), ("N", 64), ("K", 64)];

    fn sum_of_tiles(count: usize) -> String {
        let tiles: Vec<String> = (0..count).map(|number| format!("T{number}")).collect();
        format!("D = A @ W.T + {}", tiles.join(" + "))
    }

    #[test]
    fn tiles_go_straight_to_registers_where_there_are_many() {
        let (_, few) = planned(&sum_of_tiles(20), &SMALL).expect("it is planned");
        assert!(few.needs.epilogue_loads.iter().all(|transfer| *transfer == EpilogueTransfer::Tma));
        let (bound, many) = planned(&sum_of_tiles(60), &SMALL).expect("it is planned");
        assert!(
            many.needs
                .epilogue_loads
                .iter()
                .all(|transfer| *transfer == EpilogueTransfer::Contiguous)
        );
        assert_eq!(many.needs.epilogue_stores, [EpilogueTransfer::Tma]);
        assert!(Parameters::of(bound.program(), &many.needs).are_few());
    }

    #[test]
    fn vectors_that_lie_alike_share_strides_where_there_are_many() {
        let sum_of_vectors = |count: usize| {
            let vectors: Vec<String> = (0..count).map(|number| format!("v{number}[N]")).collect();
            format!("D = A @ W.T + {}", vectors.join(" + "))
        };
        let (_, few) = planned(&sum_of_vectors(100), &SMALL).expect("it is planned");
        assert!(!few.needs.shared_strides);
        let (bound, many) = planned(&sum_of_vectors(200), &SMALL).expect("it is planned");
        assert!(many.needs.shared_strides);
        assert!(Parameters::of(bound.program(), &many.needs).are_few());
        assert_eq!(many.to_string().parse().as_ref(), Ok(&many));
    }

    #[test]
    fn more_tensors_than_a_launch_takes_are_refused() {
        let refusal = planned(&sum_of_tiles(1100), &SMALL).expect_err("it is refused");
        assert!(matches!(refusal, Sm90Refusal::Parameters { .. }), "{refusal}");
    }

    #[test]
    fn code_that_nobody_could_assemble_is_refused() {
        let chain = |count: usize, step: &str| {
            let mut source = "x0 = A @ W.T\n".to_owned();
            for number in 0..count {
                let step = step.replace('X', &format!("x{number}"));
                let _ = writeln!(source, "x{} = {step}", number + 1);
            }
            source + &format!("D = f32(x{count})")
        };
        for (count, step) in [(600, "pow(X, 1.25)"), (200, "softmax(X, N)"), (900, "X - max(X, N)")]
        {
            let refusal = planned(&chain(count, step), &SMALL).expect_err("it is refused");
            assert!(matches!(refusal, Sm90Refusal::LongCode { .. }), "{step}: {refusal}");
        }
        assert!(planned(&chain(2000, "X + 1.0"), &SMALL).is_ok());
    }

    #[test]
    fn numbers_of_tiles_and_partial_results_stay_below_31_bits() {
        let source = "kernel k(A: bf16[L, M, K], W: bf16[N, K]) -> s: f32[] { s = sum(A @ W.T) }";
        let sizes = |batch, rows, columns| [("L", batch), ("M", rows), ("N", columns), ("K", 1)];
        for sizes in [sizes(1 << 30, 1, 1), sizes(1, 1 << 21, 1 << 21), sizes(4, 0, 1)] {
            let (bound, schedule) = planned(source, &sizes).expect("it is planned");
            let problem = bound.problem();
            assert!(schedule.counts(problem), "{sizes:?}");
            // A cluster of four tiles has partial results for each of them.
            let wide = CANDIDATES.iter().filter(|tile| tile.cluster.columns() == 4);
            let wide = wide.filter_map(|tile| fit(*tile, &schedule.needs, Sm90::H200));
            let counts: Vec<bool> = wide.map(|schedule| schedule.counts(problem)).collect();
            assert!(counts.iter().all(|counts| *counts == (sizes[0].1 < 1 << 30)), "{sizes:?}");
        }
        for sizes in [sizes((1 << 31) - 2000, 1, 1), sizes(1 << 28, 1 << 28, 0)] {
            let refusal = planned(source, &sizes).expect_err("it is refused");
            assert_eq!(refusal, Sm90Refusal::TooLarge, "{sizes:?}");
        }
    }
}
