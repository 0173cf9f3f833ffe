//! Versions that have to fit one another: the PTX text's, its target's, the driver's and the GPU's.

use std::fmt;
use std::fs;

use crate::runtime::error::RuntimeError;

/// A version of CUDA as a driver reports it, such as 12.3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CudaVersion {
    /// Before the point.
    pub major: u32,
    /// After it.
    pub minor: u32,
}

/// A version of the PTX language.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PtxVersion {
    /// Before the point.
    pub major: u32,
    /// After it.
    pub minor: u32,
}

/// A target of the PTX language, or what a GPU is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// 90 for `sm_90a`.
    pub capability: u32,
    /// On which other GPUs its code runs.
    pub reach: Reach,
}

/// On which GPUs code for a target runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// On this and everything later: `sm_90`.
    Later,
    /// On this and later ones of the family: `sm_100f`.
    Family,
    /// On this alone: `sm_90a`.
    Exact,
}

/// A version of PTX, the CUDA version that brought it, and that one's driver branch.
type First = ((u32, u32), (u32, u32), u32);

/// The first CUDA version and driver branch for each version of PTX (PTX ISA, "Release Notes").
#[rustfmt::skip] // A table: one line a version.
const FIRST_DRIVERS: &[First] = &[
    ((7, 0), (11, 0), 450),
    ((7, 1), (11, 1), 455),
    ((7, 2), (11, 2), 460),
    ((7, 3), (11, 3), 465),
    ((7, 4), (11, 4), 470),
    ((7, 5), (11, 5), 495),
    ((7, 6), (11, 6), 510),
    ((7, 7), (11, 7), 515),
    ((7, 8), (11, 8), 520),
    ((8, 0), (12, 0), 525),
    ((8, 1), (12, 1), 530),
    ((8, 2), (12, 2), 535),
    ((8, 3), (12, 3), 545),
    ((8, 4), (12, 4), 550),
    ((8, 5), (12, 5), 555),
    ((8, 6), (12, 7), 565),
    ((8, 7), (12, 8), 570),
    ((8, 8), (12, 9), 575),
    ((9, 0), (13, 0), 580),
    ((9, 1), (13, 1), 590),
];

impl CudaVersion {
    /// From the driver's number: 12030 is 12.3.
    pub const fn from_number(number: i32) -> CudaVersion {
        let number = number.unsigned_abs();
        CudaVersion { major: number / 1000, minor: number % 1000 / 10 }
    }

    /// The driver branch that brought it, as far as it is known.
    fn branch(self) -> Option<u32> {
        let at_most = |entry: &&First| entry.1 <= (self.major, self.minor);
        FIRST_DRIVERS.iter().rev().find(at_most).map(|entry| entry.2)
    }
}

/// Refuses PTX that a driver does not know yet.
///
/// `release` is the driver's own number, such as `525.60.13`, where it is known.
pub fn check_driver(
    ptx: PtxVersion,
    target: Target,
    driver: CudaVersion,
    release: Option<&str>,
) -> Result<(), RuntimeError> {
    let Some((_, first, branch)) =
        FIRST_DRIVERS.iter().find(|entry| entry.0 >= (ptx.major, ptx.minor))
    else {
        // Newer than the table: the driver itself decides.
        return Ok(());
    };
    if (driver.major, driver.minor) >= *first {
        return Ok(());
    }
    let number = release.map(str::to_owned).or_else(|| driver.branch().map(|b| b.to_string()));
    let driver = match number {
        Some(number) => format!("{number} (CUDA {driver})"),
        None => format!("for CUDA {driver}"),
    };
    let needs = format!("driver {branch} (CUDA {}.{}) or newer", first.0, first.1);
    Err(RuntimeError::DriverTooOld { driver, ptx, target, needs })
}

/// The version and target that a PTX text declares.
pub fn declared(text: &str) -> Result<(PtxVersion, Target), RuntimeError> {
    let after = |directive: &'static str| {
        let lines = text.lines().map(str::trim_start);
        let mut rests = lines.filter_map(|line| line.strip_prefix(directive));
        rests.next().map(str::trim).ok_or(RuntimeError::NotPtx { directive })
    };
    let version = after(".version ")?;
    let version = version.split_whitespace().next().and_then(|version| version.split_once('.'));
    let number = |text: &str| text.parse().ok();
    let version = version.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
    let (major, minor) = version.ok_or(RuntimeError::NotPtx { directive: ".version " })?;
    let target = after(".target ")?.split([',', ' ', '/']).next().and_then(Target::parse);
    let target = target.ok_or(RuntimeError::NotPtx { directive: ".target " })?;
    Ok((PtxVersion { major, minor }, target))
}

impl Target {
    /// What a GPU of this compute capability is.
    pub const fn of_capability(major: u32, minor: u32) -> Target {
        Target { capability: major * 10 + minor, reach: Reach::Later }
    }

    /// Reads `sm_90a`.
    pub fn parse(text: &str) -> Option<Target> {
        let number = text.strip_prefix("sm_")?;
        let (number, reach) = match number.as_bytes().last()? {
            b'a' => (&number[..number.len() - 1], Reach::Exact),
            b'f' => (&number[..number.len() - 1], Reach::Family),
            _ => (number, Reach::Later),
        };
        Some(Target { capability: number.parse().ok()?, reach })
    }

    /// Whether its code runs on a GPU of this capability (90 for 9.0).
    pub const fn runs_on(self, capability: u32) -> bool {
        match self.reach {
            Reach::Later => capability >= self.capability,
            Reach::Family => {
                capability >= self.capability && capability / 10 == self.capability / 10
            }
            Reach::Exact => capability == self.capability,
        }
    }
}

/// The number of the driver's release, such as `580.65.06`, where the system tells it.
pub(crate) fn driver_release() -> Option<String> {
    let text = fs::read_to_string("/sys/module/nvidia/version")
        .or_else(|_| fs::read_to_string("/proc/driver/nvidia/version"))
        .ok()?;
    release_in(&text)
}

/// The first word that looks like a release: digits, a point, digits.
fn release_in(text: &str) -> Option<String> {
    let is_release = |word: &&str| {
        word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    text.split_whitespace().find(is_release).map(str::to_owned)
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = match self.reach {
            Reach::Later => "",
            Reach::Family => "f",
            Reach::Exact => "a",
        };
        write!(f, "sm_{}{ending}", self.capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOPPER: Target = Target { capability: 90, reach: Reach::Exact };

    #[test]
    fn an_old_driver_is_told_what_it_needs() {
        let ptx = PtxVersion { major: 8, minor: 3 };
        let twelve = CudaVersion::from_number(12000);
        let error = check_driver(ptx, HOPPER, twelve, None).unwrap_err();
        assert_eq!(error.to_string(), "driver 525 (CUDA 12.0) is too old for PTX 8.3 on sm_90a");
        let fix = "install driver 545 (CUDA 12.3) or newer, or use the CPU backend";
        assert_eq!(error.fix().as_deref(), Some(fix));
        let error = check_driver(ptx, HOPPER, twelve, Some("525.60.13")).unwrap_err();
        assert!(error.to_string().starts_with("driver 525.60.13 (CUDA 12.0)"), "{error}");
        assert_eq!(check_driver(ptx, HOPPER, CudaVersion::from_number(12030), None), Ok(()));
        let future = PtxVersion { major: 99, minor: 0 };
        assert_eq!(check_driver(future, HOPPER, CudaVersion::from_number(13000), None), Ok(()));
    }

    #[test]
    fn the_table_rises() {
        for pair in FIRST_DRIVERS.windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1 && pair[0].2 < pair[1].2);
        }
    }

    #[test]
    fn version_and_target_are_read_from_the_text() {
        let text = "// a comment\n.version 8.3\n.target sm_90a, debug\n.address_size 64\n";
        assert_eq!(declared(text), Ok((PtxVersion { major: 8, minor: 3 }, HOPPER)));
        assert!(declared(".version 8.3\n").is_err());
        assert!(declared("").is_err());
        for text in ["sm_90a", "sm_80", "sm_100f"] {
            assert_eq!(Target::parse(text).map(|target| target.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn code_runs_where_its_target_says() {
        let runs = |target: &str, on| Target::parse(target).is_some_and(|t| t.runs_on(on));
        assert!(
            runs("sm_80", 90) && runs("sm_90", 90) && runs("sm_90a", 90) && runs("sm_100f", 103)
        );
        assert!(!runs("sm_90a", 100) && !runs("sm_90", 89) && !runs("sm_100f", 120));
    }

    #[test]
    fn the_release_is_found_in_the_systems_words() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version: 12.2\n";
        assert_eq!(release_in(text).as_deref(), Some("580.65.06"));
        assert_eq!(release_in("535.104.05\n").as_deref(), Some("535.104.05"));
    }
}
