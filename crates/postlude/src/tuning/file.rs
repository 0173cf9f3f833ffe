//! Files of records: lines are appended and never changed.
//!
//! Invariant: an append is one write of whole lines, so records of processes that append at the same time stay whole. A
//! file that ends in the middle of a line gets an end of line first.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use etcetera::BaseStrategy;

use super::Records;
use super::record::{Line, Record};
use crate::process;

/// What is shipped.
const SHIPPED: &str = include_str!("shipped.jsonl");
/// The file in the user's folder of data.
const NAME: &str = "tuned.jsonl";
/// What turns records off where a file's name is expected.
const OFF: &str = "off";
/// No file of records is as large as this.
const LARGEST: u64 = 256 << 20;

/// The records of a file.
#[derive(Default, Debug)]
pub(super) struct Loaded {
    /// In the order of the file.
    pub(super) records: Vec<Record>,
    /// Lines that are damaged, counted from 1.
    pub(super) damaged: Vec<usize>,
    length: u64,
    modified: Option<SystemTime>,
}

impl Loaded {
    fn read(text: &str) -> Loaded {
        let mut loaded = Loaded::default();
        for (number, line) in text.lines().enumerate() {
            match Record::read(line) {
                Line::Record(record) => loaded.records.push(*record),
                Line::Other => {}
                Line::Damaged => loaded.damaged.push(number + 1),
            }
        }
        loaded
    }
}

impl Records {
    /// The file that is read and appended to: none where records are off, or where the user has no home.
    pub fn file(&self) -> Option<PathBuf> {
        match self.resolved() {
            Records::At(path) => Some(path),
            Records::Standard | Records::Shipped | Records::Off => None,
        }
    }

    /// The same with what the environment says.
    pub(super) fn resolved(&self) -> Records {
        match self {
            Records::Standard => standard(std::env::var_os("POSTLUDE_TUNE").as_deref()),
            Records::At(_) | Records::Shipped | Records::Off => self.clone(),
        }
    }

    /// The lines of the file that are damaged, counted from 1: they are passed over.
    pub fn damaged(&self) -> Vec<usize> {
        self.file().map_or_else(Vec::new, |path| loaded(&path).damaged.clone())
    }

    /// Appends records to the file, and says which one it is; none where records are off.
    pub fn append(&self, records: &[Record]) -> io::Result<Option<PathBuf>> {
        let Some(path) = self.file() else { return Ok(None) };
        if !records.is_empty() {
            append(&path, records)?;
        }
        Ok(Some(path))
    }
}

/// What `POSTLUDE_TUNE` says: a file, or `off`.
fn standard(given: Option<&std::ffi::OsStr>) -> Records {
    match given.filter(|given| !given.is_empty()) {
        Some(given) if given == OFF => Records::Off,
        Some(given) => Records::At(PathBuf::from(given)),
        None => match etcetera::choose_base_strategy() {
            Ok(strategy) => Records::At(strategy.data_dir().join("postlude").join(NAME)),
            Err(_) => Records::Standard,
        },
    }
}

/// The records that are shipped.
pub(super) fn shipped() -> &'static Loaded {
    static SHIPPED_RECORDS: std::sync::OnceLock<Loaded> = std::sync::OnceLock::new();
    process::once(&SHIPPED_RECORDS, || Loaded::read(SHIPPED))
}

/// The records of a file as it is now; none where it cannot be read. It is read again only when it has changed.
pub(super) fn loaded(path: &Path) -> Arc<Loaded> {
    static FILES: Mutex<BTreeMap<PathBuf, Arc<Loaded>>> = Mutex::new(BTreeMap::new());
    let Ok(found) = fs::metadata(path) else { return Arc::default() };
    let (length, modified) = (found.len(), found.modified().ok());
    let mut files = process::open(&FILES);
    if let Some(known) = files.as_ref().and_then(|files| files.get(path))
        && (known.length, known.modified) == (length, modified)
    {
        return known.clone();
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
    if read.is_err() {
        return Arc::default();
    }
    let text = String::from_utf8_lossy(&bytes);
    let fresh = Arc::new(Loaded { length, modified, ..Loaded::read(&text) });
    if let Some(files) = &mut files {
        files.insert(path.to_owned(), fresh.clone());
    }
    fresh
}

fn append(path: &Path, records: &[Record]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    // Where a file system has no locks, one write of whole lines has to be enough.
    let locked = file.lock().is_ok();
    let mut text = if ends_within_a_line(&mut file)? { "\n".to_owned() } else { String::new() };
    text.extend(records.iter().map(Record::line));
    let written = file.write_all(text.as_bytes());
    if locked {
        file.unlock().ok();
    }
    written
}

fn ends_within_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::MathMode;
    use crate::kernel::{Kernel, Options};
    use crate::placement::Placements;
    use crate::problem::Sizes;
    use crate::target::Chip;
    use crate::tuning::LaunchKey;

    fn numbered(session: usize) -> Record {
        Record { session: session.to_string(), ..Record::example() }
    }

    #[test]
    fn what_is_appended_is_read_and_appended_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/tuned.jsonl");
        let records = Records::At(path.clone());
        assert!(loaded(&path).records.is_empty() && records.damaged().is_empty());
        assert_eq!(
            records.append(&[numbered(1), numbered(2)]).expect("it is written"),
            Some(path.clone())
        );
        assert_eq!(loaded(&path).records, [numbered(1), numbered(2)]);
        records.append(&[numbered(3)]).expect("it is written");
        assert_eq!(loaded(&path).records, [numbered(1), numbered(2), numbered(3)]);
    }

    #[test]
    fn damaged_lines_are_passed_over_and_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tuned.jsonl");
        // The second line was cut off when its process died.
        let line = numbered(1).line();
        fs::write(&path, format!("{line}{}", &line[..40])).expect("it is written");
        let records = Records::At(path.clone());
        records.append(&[numbered(2)]).expect("it is written");
        assert_eq!(loaded(&path).records, [numbered(1), numbered(2)]);
        assert_eq!(records.damaged(), [2]);
        fs::write(&path, [0xff, 0xfe, b'\n', 0]).expect("it is written");
        assert_eq!((loaded(&path).records.len(), records.damaged()), (0, vec![1, 2]));
    }

    #[test]
    fn appends_at_the_same_time_stay_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tuned.jsonl");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let records = Records::At(path.clone());
                scope.spawn(move || {
                    for place in 0..20 {
                        let number = 100 * thread + place;
                        let both = [numbered(number), numbered(number)];
                        records.append(&both).expect("it is written");
                    }
                });
            }
        });
        let loaded = loaded(&path);
        assert_eq!((loaded.records.len(), loaded.damaged.len()), (320, 0));
        assert!(loaded.records.chunks(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn the_environment_names_a_file_or_turns_records_off() {
        let given = |text: &str| standard(Some(text.as_ref()));
        assert_eq!(given("off"), Records::Off);
        assert_eq!(given("records.jsonl"), Records::At("records.jsonl".into()));
        assert_eq!(given(""), standard(None));
        assert_eq!(Records::Off.file(), None);
    }

    /// The launches of a kernel of packed tensors, at any accuracy of functions.
    fn launches(kernel: &Kernel, sizes: &Sizes) -> Vec<LaunchKey> {
        let modes = [MathMode::Default, MathMode::Accurate, MathMode::Fast];
        let mut keys = Vec::new();
        for math in modes {
            let compiled = kernel.compile(&Options { math, ..Options::default() });
            let problem = compiled.problem(sizes).expect("sizes of every dim");
            let packed = Placements::packed(compiled.optimised(), &problem);
            keys.push(LaunchKey::new(compiled.optimised(), math, &problem, &packed));
            for launch in compiled.launches(&problem, Chip::STANDARD).expect("it is planned") {
                let (graph, problem) = (launch.graph(), &launch.problem);
                keys.push(LaunchKey::new(graph, math, problem, &launch.placements));
            }
        }
        keys
    }

    #[test]
    fn every_shipped_record_of_a_whole_kernel_is_of_a_launch_that_it_has() {
        for record in &shipped().records {
            let kernel = Kernel::parse(record.note.as_deref().unwrap_or_default());
            let kernel = kernel.expect("a note is the kernel that was tuned");
            let sizes = record.launch.dims.iter().cloned().zip(record.launch.sizes.clone());
            let sizes: Sizes = sizes.collect();
            // Launches before the last one have dims of their own.
            if kernel.compile(&Options::default()).problem(&sizes).is_ok() {
                let known = launches(&kernel, &sizes).contains(&record.launch);
                assert!(known, "tune it again: {record:?}");
            }
        }
    }

    #[test]
    fn every_shipped_line_is_read() {
        assert_eq!(shipped().damaged, Vec::<usize>::new());
        let text = SHIPPED.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(shipped().records.len(), text);
    }
}
