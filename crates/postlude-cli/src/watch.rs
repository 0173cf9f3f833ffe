//! What the simulator shows of a run: findings, meters, a timeline.
//!
//! In: the flags of the command line and what was observed. Out: one object, or text.

use postlude::sim::{Finding, Report};
use postlude_ptx::shared::Region;
use postlude_sim::meters::{Counts, Meter, Reading};
use postlude_sim::trace::{Event, Timeline, chrome, draw};
use postlude_sim::{Several, Unwritten, observe::Observer};
use serde::Serialize;
use serde_json::{Value, json};

use crate::arguments::WatchArguments;
use crate::failure::Failure;
use crate::files::write_whole;
use crate::print;

/// Lines that waste something, listed at most.
const MOST_LINES: usize = 8;
/// Letters of an instruction that are shown.
const SHOWN: usize = 60;

/// Those who watch.
pub(crate) struct Watching {
    meter: Option<Meter>,
    timeline: Option<Timeline>,
}

/// What they saw of a run, launch by launch.
pub(crate) struct Watched<'a> {
    arguments: &'a WatchArguments,
    launches: Vec<Launched>,
    findings: Vec<Finding>,
    unwritten: Vec<Value>,
    /// Events of all launches, one launch after the other.
    events: Vec<Event>,
    lost: u64,
}

/// What they saw of one launch.
#[derive(Debug, Serialize)]
struct Launched {
    name: String,
    instructions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    meters: Option<Value>,
    #[serde(skip)]
    shown: String,
}

/// A run, for people and as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Simulated {
    timing: String,
    /// Those of all launches.
    instructions: u64,
    findings: Vec<Value>,
    /// Buffers that were not written whole.
    unwritten: Vec<Value>,
    /// Those of the only launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    meters: Option<Value>,
    /// Where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    launches: Vec<Launched>,
    #[serde(skip)]
    shown: String,
}

impl Watching {
    /// Those that the flags ask for.
    pub(crate) fn new(
        arguments: &WatchArguments,
        buffers: &[Vec<u8>],
        regions: &[Region],
    ) -> Watching {
        let sizes: Vec<usize> = buffers.iter().map(Vec::len).collect();
        Watching {
            meter: arguments.meters.then(|| Meter::new(&sizes, regions)),
            timeline: arguments.trace.is_some().then(|| Timeline::new(regions)),
        }
    }

    /// All of them as one.
    pub(crate) fn observer(&mut self) -> Several<'_> {
        let meter = self.meter.iter_mut().map(|meter| meter as &mut dyn Observer);
        let timeline = self.timeline.iter_mut().map(|timeline| timeline as &mut dyn Observer);
        Several(meter.chain(timeline).collect())
    }
}

impl<'a> Watched<'a> {
    /// Nothing yet.
    pub(crate) fn new(arguments: &'a WatchArguments) -> Watched<'a> {
        let (launches, findings, unwritten) = (Vec::new(), Vec::new(), Vec::new());
        Watched { arguments, launches, findings, unwritten, events: Vec::new(), lost: 0 }
    }

    /// Adds what was seen of a launch of a program with these buffers.
    pub(crate) fn add(
        &mut self,
        watching: Watching,
        (name, program): (&str, &str),
        names: &[String],
        report: &Report,
    ) {
        let mut shown = String::new();
        for unwritten in &report.unwritten {
            let name = names.get(unwritten.buffer).map_or("", String::as_str);
            shown.push_str(&format!("{name}: {unwritten}\n"));
            self.unwritten.push(unwritten_object(unwritten, names));
        }
        let reading = watching.meter.map(|meter| meter.read());
        if let Some(reading) = &reading {
            shown.push_str(&meters_text(reading, names, program));
        }
        if let Some(timeline) = watching.timeline {
            let before: u64 = self.launches.iter().map(|launch| launch.instructions).sum();
            let later =
                |event: Event| Event { from: event.from + before, to: event.to + before, ..event };
            self.events.extend(timeline.events().into_iter().map(later));
            self.lost += timeline.lost();
        }
        self.findings.extend(report.findings.iter().cloned());
        self.launches.push(Launched {
            name: name.to_owned(),
            instructions: report.instructions,
            meters: reading.map(|reading| meters_object(&reading, names)),
            shown,
        });
    }

    /// All of it; a timeline is written to its file.
    pub(crate) fn finish(mut self) -> Result<Simulated, Failure> {
        let timing = self.arguments.timing.unwrap_or_default().to_string();
        let (launches, of) = (&self.launches, self.launches.len());
        let instructions = launches.iter().map(|launch| launch.instructions).sum();
        let several = if of > 1 { format!(" in {of} launches") } else { String::new() };
        let mut shown = format!("simulated {instructions} warp instructions{several}, {timing}\n");
        if self.arguments.findings {
            shown.push_str(&findings_text(&self.findings));
        }
        for (number, launch) in (1..).zip(launches) {
            if of > 1 && !launch.shown.is_empty() {
                let Launched { name, instructions, .. } = launch;
                shown.push_str(&format!(
                    "launch {number} of {of}, {name}: {instructions} warp instructions\n"
                ));
            }
            shown.push_str(&launch.shown);
        }
        if let Some(path) = &self.arguments.trace {
            self.events.sort_by_key(|event| (event.cta, event.row, event.from));
            write_whole(path, chrome(&self.events).as_bytes())?;
            shown.push_str(&draw(&self.events, 0));
            if self.lost > 0 {
                shown.push_str(&format!("{} more events are left out\n", self.lost));
            }
        }
        let mut launches = self.launches;
        let meters = if let [only] = &mut launches[..] { only.meters.take() } else { None };
        if of == 1 {
            launches.clear();
        }
        let findings = self.findings.iter().map(finding_object).collect();
        let unwritten = self.unwritten;
        Ok(Simulated { timing, instructions, findings, unwritten, meters, launches, shown })
    }
}

impl Simulated {
    /// How many findings there are.
    pub(crate) fn findings(&self) -> usize {
        self.findings.len()
    }

    /// Whether something was found.
    pub(crate) fn is_wrong(&self) -> bool {
        self.findings() > 0
    }

    /// For a person.
    pub(crate) fn text(&self) -> String {
        self.shown.clone()
    }
}

fn findings_text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no findings\n".to_owned();
    }
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!("{finding}\n"));
    }
    let plural = if findings.len() == 1 { "" } else { "s" };
    text.push_str(&format!("{} finding{plural}\n", findings.len()));
    text
}

fn unwritten_object(unwritten: &Unwritten, names: &[String]) -> Value {
    json!({
        "name": names.get(unwritten.buffer),
        "bytes": unwritten.bytes,
        "of": unwritten.of,
        "first": unwritten.first,
    })
}

fn finding_object(finding: &Finding) -> Value {
    json!({
        "diagnosis": finding.diagnosis.title(),
        "line": finding.line,
        "instruction": finding.text,
        "cta": finding.cta,
        "warp": finding.warp,
        "region": finding.region,
        "address": finding.address,
        "message": finding.message,
    })
}

/// A number beside the least it could be.
fn beside(number: u64, least: u64) -> String {
    if number == 0 { "-".to_owned() } else { format!("{number}/{least}") }
}

fn meters_text(reading: &Reading, names: &[String], program: &str) -> String {
    let mut rows = vec![
        [
            "role",
            "warps",
            "instructions",
            "products",
            "bytes in",
            "bytes out",
            "wavefronts",
            "lines",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for role in &reading.roles {
        let counts = role.counts;
        rows.push(vec![
            role.name.clone(),
            format!("{}-{}", role.warps.0, role.warps.1),
            counts.instructions.to_string(),
            counts.products.to_string(),
            counts.loaded_bytes.to_string(),
            counts.stored_bytes.to_string(),
            beside(counts.wavefronts, counts.least_wavefronts),
            beside(counts.lines, counts.least_lines),
        ]);
    }
    let mut text = print::table(&rows);
    text.push_str(&wasteful_text(reading, program));
    for (name, coverage) in names.iter().zip(&reading.coverage) {
        if coverage.once + coverage.more > 0 {
            let (never, once, more) = (coverage.never, coverage.once, coverage.more);
            text.push_str(&format!(
                "{name}: {once} bytes written once, {more} more often, {never} never\n"
            ));
        }
    }
    text
}

/// Lines that take more than the least, the worst first.
fn wasteful_text(reading: &Reading, program: &str) -> String {
    let waste = |counts: &Counts| {
        (counts.wavefronts - counts.least_wavefronts.min(counts.wavefronts))
            + (counts.lines - counts.least_lines.min(counts.lines))
    };
    let mut wasteful: Vec<&(u32, Counts)> =
        reading.lines.iter().filter(|(_, counts)| waste(counts) > 0).collect();
    wasteful.sort_by_key(|(line, counts)| (std::cmp::Reverse(waste(counts)), *line));
    let mut text = String::new();
    for (line, counts) in wasteful.iter().take(MOST_LINES) {
        let instruction = program.lines().nth(*line as usize - 1).unwrap_or_default().trim();
        let instruction: String = instruction.chars().take(SHOWN).collect();
        let what = if counts.wavefronts > 0 {
            format!("{} wavefronts", beside(counts.wavefronts, counts.least_wavefronts))
        } else {
            format!("{} lines", beside(counts.lines, counts.least_lines))
        };
        text.push_str(&format!("line {line}: {what}: {instruction}\n"));
    }
    if wasteful.len() > MOST_LINES {
        text.push_str(&format!(
            "{} more lines take more than the least\n",
            wasteful.len() - MOST_LINES
        ));
    }
    text
}

fn counts_object(counts: &Counts) -> Value {
    json!({
        "instructions": counts.instructions,
        "shared_requests": counts.shared_requests,
        "wavefronts": counts.wavefronts,
        "least_wavefronts": counts.least_wavefronts,
        "global_requests": counts.global_requests,
        "sectors": counts.sectors,
        "least_sectors": counts.least_sectors,
        "lines": counts.lines,
        "least_lines": counts.least_lines,
        "loads": counts.loads,
        "loaded_bytes": counts.loaded_bytes,
        "stores": counts.stores,
        "stored_bytes": counts.stored_bytes,
        "products": counts.products,
        "multiply_adds": counts.multiply_adds,
        "atomics": counts.atomics,
    })
}

fn meters_object(reading: &Reading, names: &[String]) -> Value {
    let roles = reading.roles.iter().map(|role| {
        json!({
            "role": role.name,
            "first_warp": role.warps.0,
            "last_warp": role.warps.1,
            "counts": counts_object(&role.counts),
        })
    });
    let lines = reading
        .lines
        .iter()
        .map(|(line, counts)| json!({ "line": line, "counts": counts_object(counts) }));
    let buffers = names.iter().zip(&reading.coverage).map(|(name, coverage)| {
        json!({
            "name": name,
            "never": coverage.never,
            "once": coverage.once,
            "more": coverage.more,
        })
    });
    json!({
        "total": counts_object(&reading.total),
        "roles": roles.collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
        "buffers": buffers.collect::<Vec<_>>(),
    })
}
