//! Long kernels are no deadlocks, kernels that wait for an event that never comes are, and no launch ends the process.

use crate::plain::Plain;
use postlude_corpus::pick;
use postlude_ptx::launch::{Buffer, Launch, Parameter};
use postlude_sim::{Diagnosis, Options, SimError, Timing, run};

const TIMINGS: [Timing; 3] = [Timing::Eager, Timing::Lazy, Timing::Random { seed: 3 }];

/// Runs a kernel with a budget that it cannot use up.
fn run_long(mut plain: Plain) -> (Vec<u8>, u64) {
    let options = Options { timing: plain.timing, ..Options::default() };
    let buffers = std::slice::from_mut(&mut plain.buffer);
    let report = run(&plain.text, &plain.launch, buffers, &options);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.finished && told.is_empty(), "{}", told.join("\n"));
    (plain.buffer, report.instructions)
}

#[test]
fn a_long_loop_of_loads_is_no_deadlock() {
    for timing in pick(&TIMINGS, "loads", 1) {
        let mut plain = Plain::new(
            "mov.b32 %r1, 0;\nmov.b32 %r2, 0;\nL1:\nld.global.b32 %r3, [%rd0+64];\nadd.u32 %r2, %r2, %r3;
add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p0, %r1, 500000;\n@%p0 bra L1;
mov.u32 %r4, %tid.x;\nmul.wide.u32 %rd2, %r4, 4;\nadd.u64 %rd2, %rd2, %rd0;\nst.global.b32 [%rd2+128], %r2;\nret;",
        );
        plain.timing = timing;
        plain.buffer[64] = 3;
        let (buffer, instructions) = run_long(plain);
        assert!(instructions > 2_000_000);
        assert_eq!(buffer[128..132], 1_500_000_u32.to_le_bytes());
    }
}

#[test]
fn a_long_loop_is_no_deadlock_while_others_wait_for_it() {
    for timing in pick(&TIMINGS, "waits", 1) {
        let mut plain = Plain::new(
            "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;\nmbarrier.init.shared::cta.b64 [shared_memory], 32;\nL1:\nbar.sync 0;
setp.ge.u32 %p1, %r0, 32;\n@%p1 bra L3;\nmov.b32 %r1, 0;\nL2:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p0, %r1, 700000;\n@%p0 bra L2;
mbarrier.arrive.shared::cta.b64 _, [shared_memory];\nst.release.gpu.global.u32 [%rd0], 1;\nret;\nL3:
setp.ge.u32 %p1, %r0, 64;\n@%p1 bra L5;\nL4:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L4;\nret;\nL5:
ld.acquire.gpu.global.u32 %r5, [%rd0];\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra L5;\nret;",
        );
        (plain.launch.threads, plain.timing) = (96, timing);
        run_long(plain);
    }
}

#[test]
fn a_long_loop_that_counts_its_questions_is_no_deadlock() {
    let plain = Plain::new(
        "mov.b32 %r1, 0;\nL1:\nld.relaxed.gpu.global.u32 %r5, [%rd0];\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p0, %r1, 400000;\n@%p0 bra L1;\nret;",
    );
    run_long(plain);
}

#[test]
fn a_naive_product_of_plain_loads_runs_under_every_timing() {
    // Each of 32 x 32 threads sums over K = 2048.
    for timing in pick(&TIMINGS, "product", 1) {
        let mut plain = Plain::new(
            "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.b32 %f0, 0f00000000;\nmov.b32 %r2, 0;
mul.wide.u32 %rd2, %r1, 8192;\nadd.u64 %rd2, %rd2, %rd0;\nmul.wide.u32 %rd3, %r0, 4;\nadd.u64 %rd3, %rd3, %rd0;\nL1:
ld.global.f32 %f1, [%rd2];\nld.global.f32 %f2, [%rd3+262144];\nfma.rn.f32 %f0, %f1, %f2, %f0;
add.u64 %rd2, %rd2, 4;\nadd.u64 %rd3, %rd3, 128;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p0, %r2, 2048;\n@%p0 bra L1;
mad.lo.u32 %r3, %r1, 32, %r0;\nmul.wide.u32 %rd4, %r3, 4;\nadd.u64 %rd4, %rd4, %rd0;\nst.global.f32 [%rd4+524288], %f0;\nret;",
        );
        (plain.launch.grid, plain.timing) = ([32, 1, 1], timing);
        plain.buffer = vec![0; 524_288 + 4096];
        for word in plain.buffer[..524_288].chunks_exact_mut(4) {
            word.copy_from_slice(&1.0_f32.to_le_bytes());
        }
        let (buffer, _) = run_long(plain);
        let sums = buffer[524_288..].chunks_exact(4);
        assert!(sums.into_iter().all(|sum| sum == 2048.0_f32.to_le_bytes()));
    }
}

#[test]
fn a_million_instructions_in_a_row_are_no_deadlock() {
    let body = format!("mov.b32 %r1, 0;\n{}ret;", "add.u32 %r1, %r1, 1;\n".repeat(1_000_000));
    let (_, instructions) = run_long(Plain::new(&body));
    assert!(instructions > 1_000_000);
}

#[test]
fn questions_that_are_never_answered_are_deadlocks() {
    let asks = [
        "L1:\nld.acquire.gpu.global.u32 %r5, [%rd0];\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra L1;\nret;",
        "L1:\natom.relaxed.gpu.global.cas.b32 %r5, [%rd0], 1, 2;\nsetp.ne.u32 %p3, %r5, 1;\n@%p3 bra L1;\nret;",
        "L1:\nnanosleep.u32 100;\nld.relaxed.gpu.global.u32 %r5, [%rd0];\nld.relaxed.gpu.global.u32 %r6, [%rd0+4];\nor.b32 %r5, %r5, %r6;\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra L1;\nret;",
        "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 32;\n@%p0 bra L2;\nL1:\nld.acquire.gpu.global.u32 %r5, [%rd0];\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra L1;\nL2:\nbar.sync 0;\nret;",
    ];
    for ask in asks {
        for timing in TIMINGS {
            let mut plain = Plain::new(ask);
            (plain.launch.threads, plain.timing) = (64, timing);
            let report = plain.try_run().unwrap_or_else(|error| panic!("{error}\n{ask}"));
            let found = report.findings.iter().any(|each| each.diagnosis == Diagnosis::Deadlock);
            assert!(found && !report.finished, "{ask}");
        }
    }
}

#[test]
fn an_endless_loop_uses_up_its_budget() {
    for body in ["L1:\nbra L1;", "mov.b32 %r0, 0;\nL1:\nadd.u32 %r0, %r0, 1;\nbra L1;"] {
        let error = Plain::new(body).try_run().expect_err("it does not end");
        assert_eq!(error, SimError::Budget { budget: 1_000_000 });
        let told = "budget of 1000000 warp instructions used up; the kernel had not ended";
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn an_endless_loop_after_a_finding_ends_with_the_findings() {
    for body in
        ["L1:\n@!%p0 bra L1;\nret;", "L1:\nadd.u32 %r0, %r1, 1;\nmov.b32 %r2, %r0;\nbra L1;"]
    {
        for timing in TIMINGS {
            let mut plain = Plain::new(body);
            plain.timing = timing;
            let report = plain.try_run().unwrap_or_else(|error| panic!("{error}"));
            let found: Vec<Diagnosis> = report.findings.iter().map(|each| each.diagnosis).collect();
            assert_eq!(found, [Diagnosis::UndefinedRegister, Diagnosis::Deadlock]);
            assert!(report.instructions < 800_000, "before its budget");
        }
    }
    let mut plain = Plain::new("mov.b32 %r0, %r1;\nL1:\nadd.u32 %r0, %r0, 1;\nbra L1;");
    let report = plain.try_run().unwrap_or_else(|error| panic!("{error}"));
    assert!(report.findings[1].message.contains("budget of 1000000"), "{}", report.findings[1]);
}

#[test]
fn a_buffer_or_scratch_memory_that_is_too_large_is_refused() {
    let mut plain = Plain::new("ret;");
    plain.launch.workspace_bytes = 80_000_000_000;
    let error = plain.try_run().expect_err("it is refused");
    assert!(matches!(error, SimError::Memory { .. }), "{error}");
    plain.launch.workspace_bytes = u64::MAX;
    assert!(plain.try_run().is_err());
    plain.launch.workspace_bytes = 0;
    for grid in [[1 << 25, 1, 1], [u32::MAX; 3], [1, 65_536, 1], [1, 1, 65_536], [0, 1, 1]] {
        plain.launch.grid = grid;
        assert!(matches!(plain.try_run(), Err(SimError::Launch { .. })), "{grid:?}");
    }
}

#[test]
fn nested_brackets_are_an_error_and_no_overflow() {
    let mut plain = Plain::new(&format!("mov.b32 %r0, {}%r1;", "(".repeat(200_000)));
    assert!(matches!(plain.try_run(), Err(SimError::Text(_))));
}

/// Resident memory of this process in megabytes, where the system says.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|size| size / 1024)
}

#[test]
fn ctas_that_ended_take_no_memory() {
    let text = Plain::new("mov.u32 %r0, %ctaid.x;\nst.global.b32 [%rd0], 1;\nret;").text;
    let launch = Launch {
        grid: [200_000, 1, 1],
        cluster: [1, 1, 1],
        threads: 32,
        shared_bytes: 4096,
        parameters: vec![Parameter::Pointer { buffer: Buffer(0), offset: 0 }],
        workspace_bytes: 0,
    };
    let before = resident();
    let mut buffers = [vec![0; 64]];
    let report = run(&text, &launch, &mut buffers, &Options::default());
    assert!(report.is_ok_and(|report| report.finished));
    // 200,000 CTAs of 4 kB of shared memory would be 800 MB; other tests of this file run at the same time.
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after < before + 400, "{before} MB before, {after} MB after");
    }
}
