//! Which way tensors travel, by where they lie.

use super::super::needed::needed;
use super::*;
use crate::lower::lower;
use crate::placement::Placement;
use crate::{check, define, syntax};

const KERNEL: &str = "kernel k(A: bf16[B, M, K], W: bf16[B, N, K], C: T[B, M, N]) -> D: T[B, M, N] { D = A @ W.T + C }";
const HALVES: [DType; 2] = [DType::F16, DType::BF16];

/// How C is loaded and D stored, both with these strides and this alignment. Sizes are of B, M and N.
fn transfers(
    dtype: DType,
    sizes: [usize; 3],
    strides: [isize; 3],
    alignment: u64,
) -> [EpilogueTransfer; 2] {
    let ast = syntax::parse(&KERNEL.replace("T[", &format!("{dtype}[")));
    let graph = define::define(&check::check(&ast.expect("it parses")).expect("it types"));
    let sizes = ["B", "M", "N", "K"].into_iter().zip(sizes.into_iter().chain([64]));
    let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).collect();
    let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
    let mut placements = Placements::packed(&graph, &problem);
    let placement = Placement::at(strides.to_vec(), alignment);
    placements.inputs[2] = Some(placement.clone());
    placements.outputs[0] = placement;
    let program = lower(&graph).expect("it is one launch");
    let needs = needed(&program, &problem, &placements, &[]);
    [needs.epilogue_loads[0], needs.epilogue_stores[0]]
}

#[test]
fn either_major_order_travels_by_map() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        assert_eq!(transfers(dtype, [2, 72, 80], [5760, 80, 1], 16), [EpilogueTransfer::Tma; 2]);
        assert_eq!(
            transfers(dtype, [2, 72, 80], [5760, 1, 72], 16),
            [EpilogueTransfer::TmaTransposed; 2]
        );
        // Columns that no store of rows could take, and gaps.
        assert_eq!(
            transfers(dtype, [2, 72, 81], [8000, 1, 88], 16),
            [EpilogueTransfer::TmaTransposed; 2]
        );
    }
}

#[test]
fn transposed_stores_write_whole_chunks() {
    let split = [EpilogueTransfer::TmaTransposed, EpilogueTransfer::Strided];
    for dtype in HALVES {
        assert_eq!(transfers(dtype, [1, 68, 80], [0, 1, 72], 16), split);
    }
    assert_eq!(
        transfers(DType::F32, [1, 68, 80], [0, 1, 72], 16),
        [EpilogueTransfer::TmaTransposed; 2]
    );
    assert_eq!(transfers(DType::F32, [1, 67, 80], [0, 1, 72], 16), split);
}

#[test]
fn what_no_transposed_map_describes_is_strided() {
    let strided = [EpilogueTransfer::Strided; 2];
    for dtype in HALVES {
        assert_eq!(
            transfers(dtype, [1, 72, 80], [0, 1, 76], 16),
            strided,
            "columns between chunks"
        );
        assert_eq!(transfers(dtype, [1, 72, 80], [0, 1, 72], 8), strided, "a start between chunks");
        assert_eq!(
            transfers(dtype, [2, 72, 80], [5764, 1, 72], 16),
            strided,
            "batches between chunks"
        );
        assert_eq!(
            transfers(dtype, [2, 72, 80], [0, 1, 72], 16),
            strided,
            "batches on one another"
        );
        assert_eq!(transfers(dtype, [1, 72, 80], [0, 2, 144], 16), strided, "rows with gaps");
        assert_eq!(transfers(dtype, [1, 72, 80], [0, 1, -72], 16), strided, "backwards");
        assert_eq!(transfers(dtype, [1, 72, 80], [0, 1, 0], 16), strided, "columns on one another");
    }
}

#[test]
fn a_single_column_is_not_transposed() {
    assert_eq!(
        transfers(DType::F32, [1, 72, 1], [0, 1, 72], 16),
        [EpilogueTransfer::Contiguous, EpilogueTransfer::Coalesced]
    );
}

#[test]
fn outputs_that_no_map_describes_leave_in_runs_of_columns() {
    let runs = [EpilogueTransfer::Contiguous, EpilogueTransfer::Coalesced];
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        assert_eq!(transfers(dtype, [1, 72, 81], [0, 81, 1], 16), runs, "columns between chunks");
        assert_eq!(transfers(dtype, [1, 72, 80], [0, 81, 1], 16), runs, "rows between chunks");
        assert_eq!(transfers(dtype, [1, 72, 80], [0, 80, 1], 2), runs, "a start between chunks");
    }
}

#[test]
fn a_path_covers_what_it_moves_as_well() {
    let covered = |transfer: EpilogueTransfer| {
        EpilogueTransfer::ALL.into_iter().filter(|other| transfer.covers(*other)).collect()
    };
    let contiguous = vec![
        EpilogueTransfer::Tma,
        EpilogueTransfer::Pairs,
        EpilogueTransfer::Coalesced,
        EpilogueTransfer::Contiguous,
    ];
    let expected: [(EpilogueTransfer, Vec<EpilogueTransfer>); 7] = [
        (EpilogueTransfer::Tma, vec![EpilogueTransfer::Tma]),
        (EpilogueTransfer::TmaTransposed, vec![EpilogueTransfer::TmaTransposed]),
        (EpilogueTransfer::Pairs, vec![EpilogueTransfer::Pairs]),
        (EpilogueTransfer::Coalesced, contiguous.clone()),
        (EpilogueTransfer::Contiguous, contiguous),
        (
            EpilogueTransfer::Strided,
            vec![
                EpilogueTransfer::Tma,
                EpilogueTransfer::TmaTransposed,
                EpilogueTransfer::Pairs,
                EpilogueTransfer::Coalesced,
                EpilogueTransfer::Contiguous,
                EpilogueTransfer::Strided,
            ],
        ),
        (EpilogueTransfer::Finished, vec![EpilogueTransfer::Finished]),
    ];
    for (transfer, expected) in expected {
        assert_eq!((transfer, expected), (transfer, covered(transfer)));
    }
}
