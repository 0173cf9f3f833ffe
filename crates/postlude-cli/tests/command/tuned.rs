//! Records of tuning: `explain` shows them, and nothing about them stops a command.

use std::fs;
use std::path::Path;

use postlude::placement::Placements;
use postlude::target::{Chip, Schedule};
use postlude::tuning::{LaunchKey, Machine, Record, Records};
use postlude::{Bindings, Kernel, MathMode, Options};

use super::{Ended, command};

const SOURCE: &str = "D = A @ W.T";
const EXPLAIN: [&str; 8] =
    ["explain", SOURCE, "--size", "M=64,N=4096,K=14336", "--target", "sm90", "--stage", "schedule"];

fn explained(records: &Path, more: &[&str]) -> Ended {
    let mut command = command(&[&EXPLAIN[..], more].concat());
    Ended::of(&command.env("POSTLUDE_TUNE", records).output().unwrap())
}

/// The planner's choice and another schedule, which was faster.
fn write_records(path: &Path) -> [Schedule; 2] {
    let compiled =
        Kernel::infer(SOURCE, &Bindings::default()).unwrap().compile(&Options::default());
    let sizes = [("M", 64), ("N", 4096), ("K", 14336)];
    let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
    let problem = compiled.problem(&sizes).unwrap();
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).unwrap();
    let planned = planning.best().unwrap();
    let other = planned.contenders().unwrap()[0].schedule();
    let schedules = [planned.schedule(), other];
    let graph = compiled.optimised();
    let launch = LaunchKey::new(graph, MathMode::Default, &problem, &placements);
    let record = |place: usize, us: f64| Record {
        launch: launch.clone(),
        machine: Machine { name: "NVIDIA H200".to_owned(), capability: (9, 0), processors: 132 },
        driver: "580.65.06".to_owned(),
        postlude: "0.1.0".to_owned(),
        session: "1-2-3".to_owned(),
        schedule: schedules[place].to_string(),
        interleaved_us: us,
        alone_us: None,
        rounds: 40,
        planned: place == 0,
        chosen: place == 1,
        note: None,
    };
    Records::At(path.to_owned()).append(&[record(0, 13.1), record(1, 12.3)]).unwrap();
    schedules
}

#[test]
fn explain_shows_what_was_measured_and_what_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuned.jsonl");
    let [planned, taken] = write_records(&path);
    let text = explained(&path, &[]).fine();
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("# tuned: measured 12.3 us; the planner's choice 13.1 us (NVIDIA H200"),
        "{first}"
    );
    assert!(text.lines().any(|line| line.starts_with("# lost: 13.1 us: ")), "{text}");
    assert_eq!(text.parse::<Schedule>(), Ok(taken));
    for untuned in [explained(&path, &["--no-tuned"]), explained(Path::new("off"), &[])] {
        assert_eq!(untuned.fine(), planned.to_string());
    }
    // Other sizes were not measured.
    let mut other =
        command(&["explain", SOURCE, "--size", "M=65,N=4096,K=14336", "--target", "sm90"]);
    let other = Ended::of(&other.env("POSTLUDE_TUNE", &path).output().unwrap()).fine();
    assert!(!other.contains("tuned"), "{other}");
}

#[test]
fn damaged_records_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuned.jsonl");
    fs::write(&path, "{\"format\":1,\n{\"format\":2}\n").unwrap();
    let [_, taken] = write_records(&path);
    let ended = explained(&path, &[]);
    assert!(ended.errors.contains("line 1 is damaged and passed over"), "{}", ended.errors);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.output.parse::<Schedule>(), Ok(taken));
    // A folder is no file of records.
    assert_eq!(explained(folder.path(), &[]).code, Some(0));
}

#[test]
fn tuning_without_a_gpu_is_refused_and_no_other_backend_advised() {
    let sizes = ["--size", "M=64,N=128,K=256"];
    let tuned = super::postlude(&[&["tune", SOURCE][..], &sizes].concat()).mistake();
    let run = super::postlude(&[&["run", SOURCE, "--backend", "cuda"][..], &sizes].concat());
    assert_eq!(tuned.lines().next(), run.mistake().lines().next());
    assert!(tuned.contains("help: tune on a machine with a Hopper GPU"), "{tuned}");
    let unsized_ = super::postlude(&["tune", SOURCE, "--size", "M=64"]).mistake();
    assert!(unsized_.contains("--size"), "{unsized_}");
    let budget = [&["tune", SOURCE, "--budget", "5h"][..], &sizes].concat();
    assert!(super::postlude(&budget).mistake().contains("500ms"));
}
