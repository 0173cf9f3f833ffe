//! Small kernels written by hand: a warp or more, one buffer, some shared memory.

use postlude_ptx::launch::{Buffer, Launch, Parameter};
use postlude_ptx::shared::Region;
use postlude_sim::{Finding, Options, Output, Report, SimError, Timing, run};

/// Timings under which an error of order must be found.
pub(crate) const TIMINGS: [Timing; 6] = [
    Timing::Eager,
    Timing::Lazy,
    Timing::Random { seed: 1 },
    Timing::Random { seed: 2 },
    Timing::Random { seed: 3 },
    Timing::Random { seed: 4 },
];

/// The first few findings, one a line.
pub(crate) fn listed(findings: &[Finding]) -> String {
    findings.iter().take(6).map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A kernel whose `%rd0` is the address of its buffer.
pub(crate) struct Plain {
    pub(crate) text: String,
    pub(crate) launch: Launch,
    pub(crate) buffer: Vec<u8>,
    pub(crate) timing: Timing,
}

impl Plain {
    /// One warp, 4096 bytes of buffer and of shared memory.
    pub(crate) fn new(body: &str) -> Plain {
        let text = format!(
            ".version 8.3\n.target sm_90a\n.address_size 64
.extern .shared .align 1024 .b8 shared_memory[];
.visible .entry plain(.param .u64 data)\n.maxntid 1024, 1, 1\n{{
.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<64>;
ld.param.u64 %rd1, [data];\ncvta.to.global.u64 %rd0, %rd1;
{body}\n}}\n"
        );
        let launch = Launch {
            grid: [1, 1, 1],
            cluster: [1, 1, 1],
            threads: 32,
            shared_bytes: 4096,
            parameters: vec![Parameter::Pointer { buffer: Buffer(0), offset: 0 }],
            workspace_bytes: 0,
        };
        Plain { text, launch, buffer: vec![0; 4096], timing: Timing::Eager }
    }

    /// A launch of these CTAs, CTAs of a cluster and threads.
    pub(crate) fn launched(body: &str, launch: [u32; 3], timing: Timing) -> Plain {
        let mut plain = Plain::new(body);
        let [grid, cluster, threads] = launch;
        (plain.launch.grid, plain.launch.cluster) = ([grid, 1, 1], [cluster, 1, 1]);
        (plain.launch.threads, plain.timing) = (threads, timing);
        plain
    }

    pub(crate) fn try_run(&mut self) -> Result<Report, SimError> {
        self.run_with(Vec::new())
    }

    /// The same with outputs that must be written whole.
    pub(crate) fn run_with(&mut self, outputs: Vec<Output>) -> Result<Report, SimError> {
        let region = Region { name: "numbers".to_owned(), offset: 0, bytes: 4096 };
        let options = Options {
            timing: self.timing,
            budget: 1_000_000,
            regions: vec![region],
            outputs,
            ..Options::default()
        };
        run(&self.text, &self.launch, std::slice::from_mut(&mut self.buffer), &options)
    }

    pub(crate) fn findings(mut self) -> Vec<Finding> {
        self.try_run().unwrap_or_else(|error| panic!("{error}")).findings
    }

    /// The buffer's 32-bit words after a run without findings.
    pub(crate) fn words(&mut self) -> Vec<u32> {
        let report = self.try_run().unwrap_or_else(|error| panic!("{error}\n{}", self.text));
        let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(told.is_empty() && report.finished, "{}", told.join("\n"));
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        self.buffer.chunks_exact(4).map(word).collect()
    }
}
