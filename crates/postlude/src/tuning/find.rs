//! Which recorded schedule a launch takes.

use std::path::PathBuf;

use crate::graph::{Graph, MathMode};
use crate::target::{Planned, Planning, Schedule};

use super::Records;
use super::file::{loaded, shipped};
use super::key::{LaunchKey, Machine};
use super::record::Record;

/// The record whose schedule a launch takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The record.
    pub record: Record,
    /// Everything that was measured with it, itself too, fastest first.
    pub session: Vec<Record>,
    /// The file it is from; `None` for what is shipped.
    pub file: Option<PathBuf>,
    /// Whether it is of the launch's product alone.
    pub plain: bool,
}

impl Found {
    /// What the planner's own choice took in the same rounds.
    pub fn planned(&self) -> Option<&Record> {
        self.session.iter().find(|record| record.planned)
    }
}

impl Records {
    /// The newest record of a launch whose schedule still fits, with that schedule: the user's before what is shipped. Where there
    /// is none, that of its product alone.
    pub fn find(
        &self,
        (graph, math): (&Graph, MathMode),
        is_machine: impl Fn(&Machine) -> bool,
        planning: &Planning<'_>,
    ) -> Option<(Found, Planned)> {
        let own = match self.resolved() {
            Records::Off => return None,
            Records::At(path) => Some((loaded(&path), path)),
            Records::Standard | Records::Shipped => None,
        };
        let own_records = own.as_ref().map_or(&[][..], |(loaded, _)| &loaded.records);
        if own_records.is_empty() && shipped().records.is_empty() {
            return None;
        }
        let from = [(own_records, true), (&shipped().records[..], false)];
        let of_key = |key: &LaunchKey, accepted: &dyn Fn(&Schedule) -> Option<Planned>| {
            from.iter().find_map(|(all, is_own)| {
                let (record, planned) = newest(all, key, &is_machine, accepted)?;
                let file = own.as_ref().filter(|_| *is_own).map(|(_, path)| path.clone());
                let session = session(all, record);
                Some((Found { record: record.clone(), session, file, plain: false }, planned))
            })
        };
        let (problem, placements) = (planning.problem, planning.placements);
        let key = LaunchKey::new(graph, math, problem, placements);
        of_key(&key, &|schedule| planning.accept(schedule).ok()).or_else(|| {
            let plain = LaunchKey::plain(graph, math, problem, placements)?;
            let (found, planned) = of_key(&plain, &|schedule| planning.like(schedule).ok()?)?;
            Some((Found { plain: true, ..found }, planned))
        })
    }
}

/// The newest record of a launch whose schedule is one of this release and is accepted.
fn newest<'a>(
    all: &'a [Record],
    key: &LaunchKey,
    is_machine: &dyn Fn(&Machine) -> bool,
    accepted: &dyn Fn(&Schedule) -> Option<Planned>,
) -> Option<(&'a Record, Planned)> {
    let chosen = all.iter().rev().filter(|record| record.chosen && record.launch == *key);
    chosen.filter(|record| is_machine(&record.machine)).find_map(|record| {
        let schedule: Schedule = record.schedule.parse().ok()?;
        Some((record, accepted(&schedule)?))
    })
}

/// Everything that was measured with a record, fastest first.
fn session(all: &[Record], record: &Record) -> Vec<Record> {
    let together = |other: &&Record| {
        (&other.launch, &other.session, &other.machine)
            == (&record.launch, &record.session, &record.machine)
    };
    let mut session: Vec<Record> = all.iter().filter(together).cloned().collect();
    session.sort_by(|a, b| a.interleaved_us.total_cmp(&b.interleaved_us));
    session
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::define::defined;
    use crate::lower::{TileProgram, lower};
    use crate::placement::Placements;
    use crate::problem::Problem;
    use crate::target::Chip;

    struct Case {
        graph: Graph,
        program: Arc<TileProgram>,
        problem: Problem,
        placements: Placements,
        folder: tempfile::TempDir,
    }

    impl Case {
        fn new() -> Case {
            Case::of("D = A @ W.T")
        }

        fn of(source: &str) -> Case {
            let graph = defined(source);
            let sizes = [("M", 64), ("N", 4096), ("K", 14336)];
            let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
            let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
            let placements = Placements::packed(&graph, &problem);
            let program = Arc::new(lower(&graph).expect("it is one launch"));
            let folder = tempfile::tempdir().expect("a folder");
            Case { graph, program, problem, placements, folder }
        }

        fn planning(&self) -> Planning<'_> {
            let Case { program, problem, placements, .. } = self;
            Planning { program, problem, placements, chip: Chip::STANDARD }
        }

        fn records(&self) -> Records {
            Records::At(self.folder.path().join("tuned.jsonl"))
        }

        /// A record of the last tile that fits, which the planner does not take.
        fn record(&self) -> Record {
            let every = self.planning().every().expect("it is planned");
            let mut texts = every.iter().rev().map(ToString::to_string);
            let schedule = texts.find(|text| !text.contains("swap_ab")).expect("a tile fits");
            let launch = self.key(MathMode::Default);
            let machine = Machine { name: "a GPU".to_owned(), ..Record::example().machine };
            Record { launch, machine, schedule, ..Record::example() }
        }

        fn key(&self, math: MathMode) -> LaunchKey {
            LaunchKey::new(&self.graph, math, &self.problem, &self.placements)
        }

        fn found(&self, math: MathMode, machine: &str) -> Option<(Found, Planned)> {
            let is_machine = |found: &Machine| found.name == machine && found.is(Chip::STANDARD);
            self.records().find((&self.graph, math), is_machine, &self.planning())
        }
    }

    #[test]
    fn a_launch_takes_the_newest_record_of_its_own() {
        let case = Case::new();
        let record = case.record();
        let planned = case.planning().best().expect("it is planned").schedule().to_string();
        assert_ne!(planned, record.schedule);
        let older = Record { schedule: planned.clone(), session: "0".to_owned(), ..record.clone() };
        let slow = |us| Record { interleaved_us: us, chosen: false, ..record.clone() };
        let lost = Record { schedule: planned, planned: true, ..slow(13.0) };
        let all = [older, slow(15.0), record.clone(), lost.clone()];
        case.records().append(&all).expect("it is written");
        let (found, planned) = case.found(MathMode::Default, "a GPU").expect("it is recorded");
        assert_eq!(planned.schedule().to_string(), record.schedule);
        assert_eq!((&found.record, found.planned()), (&record, Some(&lost)));
        let times: Vec<f64> = found.session.iter().map(|record| record.interleaved_us).collect();
        assert_eq!(times, [12.25, 13.0, 15.0]);
    }

    #[test]
    fn records_of_other_launches_and_gpus_are_passed_over() {
        let case = Case::new();
        case.records().append(&[case.record()]).expect("it is written");
        assert!(case.found(MathMode::Default, "a GPU").is_some());
        assert!(case.found(MathMode::Default, "another GPU").is_none());
        assert!(case.found(MathMode::Fast, "a GPU").is_none());
        let off = Records::Off;
        let launch = (&case.graph, MathMode::Default);
        assert!(off.find(launch, |_| true, &case.planning()).is_none());
        let fewer = Machine { processors: 114, ..case.record().machine };
        assert!(!fewer.is(Chip::STANDARD));
    }

    #[test]
    fn schedules_that_no_longer_fit_are_passed_over_for_older_ones() {
        let case = Case::new();
        let record = case.record();
        let with = |from: &str, to: &str| {
            assert!(record.schedule.contains(from), "{}", record.schedule);
            Record { schedule: record.schedule.replacen(from, to, 1), ..record.clone() }
        };
        let unknown = with("stages ", "stagse ");
        let too_much = with("stages ", "stages 3");
        let all = [record.clone(), unknown, too_much, Record { chosen: false, ..case.record() }];
        case.records().append(&all).expect("it is written");
        let (_, planned) = case.found(MathMode::Default, "a GPU").expect("one fits");
        assert_eq!(planned.schedule().to_string(), record.schedule);
    }

    #[test]
    fn a_light_epilogue_takes_the_record_of_its_product() {
        let plain = Case::new();
        let record = plain.record();
        let tile = |schedule: &str| {
            let lines = schedule.lines().map(str::trim);
            let told = |line: &&str| {
                ["kernel", "tile", "cluster", "raster"].iter().any(|it| line.starts_with(it))
            };
            lines.filter(told).map(str::to_owned).collect::<Vec<_>>()
        };
        let found = |source: &str| {
            let case = Case::of(source);
            case.records().append(std::slice::from_ref(&record)).expect("it is written");
            case.found(MathMode::Default, "a GPU")
        };
        let (found_plain, planned) = found("D = silu(A @ W.T + bias[N])").expect("it is light");
        assert!(found_plain.plain);
        assert_eq!(tile(&planned.schedule().to_string()), tile(&record.schedule));
        assert!(found("D = A @ W.T").is_some_and(|(found, _)| !found.plain));
        let heavy = "D = gelu(A @ W.T) * tanh(A @ W.T + bias[N])";
        assert!(found(heavy).is_none());
        assert!(
            found("kernel k(A: bf16[M, K], W: bf16[N, K]) -> s: f32[M] { s = sum(A @ W.T, N) }")
                .is_none()
        );
    }
}
