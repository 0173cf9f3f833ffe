//! Meters of whole kernels: the numbers of the reference tables, and of our own kernels.

use crate::bound::{Bound, epilogue, tile};
use crate::plain::Plain;
use postlude::DType;
use postlude_sim::meters::{Coverage, Meter, Reading};
use postlude_sim::{Options, Timing, run_observed};

/// Rows and columns of the tile that the hand-written kernels store, of 2 bytes an element.
const TILE_BYTES: usize = 128 * 128 * 2;

/// 128 threads store a tile of 128x128 bf16, 8 bytes a thread and step.
fn stored_tile(start: &str, step_bytes: u32) -> Reading {
    let mut body = format!(
        "mov.u32 %r0, %tid.x;\nshr.u32 %r1, %r0, 5;\nand.b32 %r2, %r0, 31;\n{start}
cvt.u64.u32 %rd2, %r3;\nadd.u64 %rd3, %rd0, %rd2;\n"
    );
    let store = |step| format!("st.global.v2.b32 [%rd3+{}], {{%r0, %r1}};\n", step * step_bytes);
    body.extend((0..32).map(store));
    body.push_str("ret;");
    let mut plain = Plain::new(&body);
    plain.launch.threads = 128;
    plain.buffer = vec![0; TILE_BYTES];
    let mut meter = Meter::new(&[TILE_BYTES], &[]);
    let buffers = std::slice::from_mut(&mut plain.buffer);
    let report = run_observed(&plain.text, &plain.launch, buffers, &Options::default(), &mut meter);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.findings.is_empty() && report.finished, "{:?}", report.findings);
    meter.read()
}

#[test]
fn a_thread_a_row_touches_sixteen_times_the_lines_of_a_staged_tile() {
    let apart = stored_tile("shl.b32 %r3, %r0, 8;", 8);
    let staged =
        stored_tile("shl.b32 %r3, %r1, 13;\nshl.b32 %r4, %r2, 3;\nadd.u32 %r3, %r3, %r4;", 256);
    for (reading, lines) in [(&apart, 4096), (&staged, 256)] {
        let total = reading.total;
        assert_eq!((total.global_requests, total.lines, total.least_lines), (128, lines, 256));
        let once = Coverage { never: 0, once: TILE_BYTES as u64, more: 0 };
        assert_eq!(reading.coverage, [once]);
        let steps = reading.lines.iter().filter(|(_, counts)| counts.global_requests > 0);
        assert_eq!(steps.clone().count(), 32);
        for (_, counts) in steps {
            assert_eq!(counts.lines / counts.global_requests, lines / 128);
        }
    }
}

/// An epilogue's reading, and the text of its lines.
fn read(name: &str, dtype: DType, sizes: [usize; 4]) -> (Reading, Vec<String>, usize) {
    let bound = Bound::new(&epilogue(name, dtype), sizes, tile(128, 128, 1), 2);
    let mut buffers = bound.buffers.clone();
    let sizes: Vec<usize> = buffers.iter().map(Vec::len).collect();
    let mut meter = Meter::new(&sizes, &bound.regions);
    let options = Options {
        timing: Timing::Random { seed: 3 },
        regions: bound.regions.clone(),
        ..Options::default()
    };
    let report = run_observed(&bound.text, &bound.launch, &mut buffers, &options, &mut meter);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let reading = meter.read();
    assert!(report.findings.is_empty() && report.finished);
    assert_eq!(reading.total.products, report.meters.products);
    assert_eq!(reading.total.loaded_bytes, report.meters.bytes_loaded);
    assert_eq!(reading.total.shared_requests, report.meters.shared_requests);
    assert_eq!(reading.total.global_requests, report.meters.global_requests);
    (reading, bound.text.lines().map(str::to_owned).collect(), buffers.len() - 1)
}

#[test]
fn matrices_of_sixteen_bits_meet_no_bank_conflicts() {
    for dtype in [DType::BF16, DType::F16] {
        let (reading, text, output) = read("residual", dtype, [1, 256, 256, 128]);
        let mut matrices = 0;
        for (line, counts) in &reading.lines {
            let line = &text[*line as usize - 1];
            if line.contains("ldmatrix") || line.contains("stmatrix") {
                matrices += counts.shared_requests;
                assert_eq!(counts.wavefronts, counts.least_wavefronts, "{line}");
            }
        }
        // Each element of C and of D once, in matrices of 4 x 8 x 8.
        assert_eq!(matrices, 2 * 256 * 256 / 256);
        let once = Coverage { never: 0, once: 256 * 256 * 2, more: 0 };
        assert_eq!(reading.coverage[output], once);
        assert_eq!(reading.total.stored_bytes, 256 * 256 * 2);
        assert_eq!(reading.total.multiply_adds, 256 * 256 * 128);
    }
}

#[test]
fn floats_are_staged_in_twice_the_least_wavefronts_at_most() {
    let (reading, text, output) = read("wide", DType::BF16, [1, 256, 256, 128]);
    let (mut wavefronts, mut least) = (0, 0);
    for (line, counts) in &reading.lines {
        if text[*line as usize - 1].contains("st.shared") {
            wavefronts += counts.wavefronts;
            least += counts.least_wavefronts;
        }
    }
    assert!(least >= 256 * 256 * 4 / 128, "{least}");
    assert!(wavefronts <= 2 * least, "{wavefronts} against {least}");
    let once = Coverage { never: 0, once: 256 * 256 * 4, more: 0 };
    assert_eq!(reading.coverage[output], once);
}

#[test]
fn roles_are_told_apart_and_add_up() {
    let (reading, _, _) = read("residual", DType::BF16, [1, 256, 256, 128]);
    let names: Vec<&str> = reading.roles.iter().map(|role| role.name.as_str()).collect();
    let multiply = ["multiply, warpgroup 1", "multiply, warpgroup 2"];
    assert_eq!(names[0], "load, stages");
    assert_eq!(names[1], "load, tile operands");
    assert_eq!(names[names.len() - 2..], multiply);
    let mut total = postlude_sim::meters::Counts::default();
    for role in &reading.roles {
        total += role.counts;
    }
    assert_eq!(total, reading.total);
    let mut total = postlude_sim::meters::Counts::default();
    for (_, counts) in &reading.lines {
        total += *counts;
    }
    assert_eq!(total, reading.total);
    assert_eq!(reading.roles[0].warps, (0, 0));
    assert_eq!(reading.roles[1].warps, (1, 2));
}
