//! What `postlude tune` takes.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::{CompileArguments, MathChoice, Pair, SourceArguments};

/// The longest that a problem is tuned.
const MOST_SECONDS: f64 = 24.0 * 3600.0;

/// `postlude tune`
#[derive(Args, Debug)]
#[command(
    after_help = "Schedules of every launch that has a choice are timed in turn, and the last few alone. What was measured is kept, losing schedules too, and later runs of the same kernel, sizes, layouts and GPU take the fastest. `postlude explain SRC --size ... --target sm90` shows it, `--no-tuned` and POSTLUDE_TUNE=off go without, and POSTLUDE_TUNE=FILE names another file. Ctrl-C ends the search and keeps what it knows."
)]
pub(crate) struct TuneArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    /// The sizes of dims: `M=64,N=4096,K=4096`; given again with other sizes of some dims for one more problem
    #[arg(long = "size", value_name = "DIM=SIZE,...")]
    pub(crate) sizes: Vec<SizeList>,
    /// How long each problem is tuned, compiling included: `4s`, `500ms` or `2m`
    #[arg(long, value_name = "TIME", default_value = "4s")]
    pub(crate) budget: Budget,
    /// Append what is measured to this file instead of your own records
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Compute only these outputs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Refuse a kernel that is not one launch on a GPU, as `fused kernel` does
    #[arg(long)]
    pub(crate) one_launch: bool,
    /// Override how accurate functions are [default: by where a value goes]
    #[arg(long)]
    pub(crate) math: Option<MathChoice>,
    /// The seed of random inputs
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// What is tuned for: the first GPU
    #[arg(long, default_value = "cuda", value_parser = ["cuda"], hide = true)]
    pub(crate) backend: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl TuneArguments {
    /// How the kernel is compiled.
    pub(crate) fn compile(&self) -> CompileArguments {
        CompileArguments {
            sizes: Vec::new(),
            only: self.only.clone(),
            one_launch: self.one_launch,
            threads: None,
            math: self.math,
            schedule: None,
            no_tuned: false,
            workspace: None,
        }
    }

    /// The sizes of each problem. A list that names no dim of the lists before it belongs to them; one that does begins
    /// another problem, with the other sizes as they were.
    pub(crate) fn problems(&self) -> Vec<Vec<Pair<usize>>> {
        let mut problems: Vec<Vec<Pair<usize>>> = vec![Vec::new()];
        // Dims that were given for the problem itself, and not taken over.
        let mut own: Vec<&str> = Vec::new();
        for SizeList(list) in &self.sizes {
            let names = list.iter().map(|pair| pair.name.as_str());
            let Some(current) = problems.last_mut() else { continue };
            if !names.clone().any(|name| own.contains(&name)) {
                current.retain(|known| names.clone().all(|name| name != known.name));
                current.extend(list.iter().cloned());
                own.extend(names);
                continue;
            }
            let kept = current.iter().filter(|known| names.clone().all(|name| name != known.name));
            let next = kept.chain(list).cloned().collect();
            own = names.collect();
            problems.push(next);
        }
        problems
    }
}

/// `M=64,N=4096`
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SizeList(Vec<Pair<usize>>);

impl FromStr for SizeList {
    type Err = String;

    fn from_str(text: &str) -> Result<SizeList, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(SizeList)
    }
}

/// A time: `4s`, `500ms` or `2m`; a plain number is in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget(pub(crate) Duration);

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
        let with_unit =
            units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
        let (number, scale) = with_unit.unwrap_or((text, 1.0));
        let seconds = number.trim().parse::<f64>().map(|number| number * scale);
        match seconds {
            Ok(seconds) if seconds > 0.0 && seconds <= MOST_SECONDS => {
                Ok(Budget(Duration::from_secs_f64(seconds)))
            }
            Ok(_) => {
                Err(format!("`{text}` is not a time of more than nothing and of at most a day"))
            }
            Err(_) => Err(format!("`{text}` is not a time such as `4s`, `500ms` or `2m`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(lists: &[&str]) -> Vec<String> {
        let line = ["tune", "D = A @ B"].into_iter();
        let line = line.chain(lists.iter().flat_map(|list| ["--size", *list]));
        let command = <TuneArguments as Args>::augment_args(clap::Command::new("tune"));
        let matches = command.try_get_matches_from(line).unwrap();
        let arguments =
            <TuneArguments as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        let text = |problem: Vec<Pair<usize>>| {
            let pairs = problem.iter().map(|pair| format!("{}={}", pair.name, pair.value));
            pairs.collect::<Vec<_>>().join(",")
        };
        arguments.problems().into_iter().map(text).collect()
    }

    #[test]
    fn sizes_that_are_given_again_are_another_problem() {
        assert_eq!(problems(&["M=1,N=2,K=3"]), ["M=1,N=2,K=3"]);
        assert_eq!(problems(&["M=1", "N=2", "K=3"]), ["M=1,N=2,K=3"]);
        assert_eq!(
            problems(&["M=1,N=2,K=3", "M=4", "M=5"]),
            ["M=1,N=2,K=3", "N=2,K=3,M=4", "N=2,K=3,M=5"]
        );
        assert_eq!(problems(&["M=1,N=2,K=3", "M=4", "K=5"]), ["M=1,N=2,K=3", "N=2,M=4,K=5"]);
        assert_eq!(problems(&[]), [""]);
    }

    #[test]
    fn budgets_are_times() {
        let seconds = |text: &str| text.parse::<Budget>().map(|budget| budget.0.as_secs_f64());
        assert_eq!(seconds("4s"), Ok(4.0));
        assert_eq!(seconds("500ms"), Ok(0.5));
        assert_eq!(seconds("2m"), Ok(120.0));
        assert_eq!(seconds("1.5"), Ok(1.5));
        for wrong in ["", "s", "0", "-1s", "4h", "inf", "nan", "1e9m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
