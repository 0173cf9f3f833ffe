//! `cargo xtask bench cpu`: Postlude beside NumPy and SciPy on the same machine.
//!
//! Both sides are timed the same way (warm buffers, the median of about a second of calls), two threads each, in
//! interleaved rounds, so that a machine that slows down slows both.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::command::{answer, cargo, program, root, run};
use crate::python;

/// Between these marks the README shows the latest comparison.
const BEGIN: &str = "<!-- benchmark:begin -->";
const END: &str = "<!-- benchmark:end -->";
const ROUNDS: usize = 5;
const THREADS: &str = "2";

/// One line of the comparison.
struct Case {
    /// What it is called here and in `bench/numpy_cpu.py`.
    name: &'static str,
    source: &'static str,
    sizes: &'static str,
    /// The least ratio of NumPy's time to ours.
    bar: f64,
}

const CASES: &[Case] = &[
    Case { name: "product", source: "D = A @ B", sizes: "M=2048,N=2048,K=2048", bar: 0.3 },
    Case {
        name: "gelu",
        source: "D = gelu(A @ W.T + bias[N])",
        sizes: "M=4096,N=4096,K=512",
        bar: 1.5,
    },
];

/// Compares, prints a table and keeps the numbers.
pub(crate) fn cpu() -> Result<(), String> {
    let python = python::prepare("bench/requirements.txt")?;
    run(&mut cargo(&["build", "--release", "-p", "postlude-cli"]))?;
    let mut results = Vec::new();
    for case in CASES {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            ours.push(time_postlude(case)?);
            theirs.push(time_numpy(&python, case)?);
            println!(
                "{} round {round}: postlude {:.2} ms, numpy {:.2} ms",
                case.name,
                1e3 * ours[round - 1],
                1e3 * theirs[round - 1]
            );
        }
        results.push((case, ours, theirs));
    }
    println!("\n{:<10}{:>14}{:>12}{:>8}{:>8}", "case", "postlude ms", "numpy ms", "ratio", "bar");
    let mut cases = Vec::new();
    for (case, ours, theirs) in results {
        let (our, their) = (median(&ours), median(&theirs));
        let ratio = their / our;
        let met = if ratio >= case.bar { "met" } else { "MISSED" };
        println!(
            "{:<10}{:>14.2}{:>12.2}{:>8.2}{:>8.2} {met}",
            case.name,
            1e3 * our,
            1e3 * their,
            ratio,
            case.bar
        );
        cases.push(json!({
            "case": case.name, "source": case.source, "sizes": case.sizes, "dtype": "f32",
            "postlude_seconds": ours, "numpy_seconds": theirs,
            "postlude_median": our, "numpy_median": their, "ratio": ratio, "bar": case.bar,
        }));
    }
    save(&cases)
}

fn save(cases: &[Value]) -> Result<(), String> {
    let machine = answer(&mut postlude(&["info", "--json"]))?;
    let machine: Value = serde_json::from_str(&machine).map_err(|error| error.to_string())?;
    let kept = json!({
        "schema": 1, "threads": 2, "rounds": ROUNDS, "commit": machine["commit"],
        "processor": machine["processor"], "cores": machine["cores"],
        "instruction_sets": machine["instruction_sets"], "cases": cases,
    });
    let folder = root().join("bench/results");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let text = serde_json::to_string_pretty(&kept).map_err(|error| error.to_string())? + "\n";
    fs::write(folder.join("cpu.json"), text).map_err(|error| error.to_string())?;
    println!("\nkept in bench/results/cpu.json");
    update_readme(&kept)
}

/// Puts the table between the README's marks, if it has them.
fn update_readme(kept: &Value) -> Result<(), String> {
    let path = root().join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let (Some((before, _)), Some((_, after))) = (text.split_once(BEGIN), text.split_once(END))
    else {
        return Ok(());
    };
    let processor = kept["processor"].as_str().unwrap_or("unknown processor");
    let mut table = format!("{processor}, {THREADS} threads, f32 (`cargo xtask bench cpu`):\n\n");
    table.push_str("| kernel | sizes | Postlude | NumPy and SciPy | faster |\n| --- | --- | --- | --- | --- |\n");
    for case in kept["cases"].as_array().into_iter().flatten() {
        let milliseconds = |key: &str| 1e3 * case[key].as_f64().unwrap_or(f64::NAN);
        let word = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
        table += &format!(
            "| `{}` | {} | {:.1} ms | {:.1} ms | {:.2}x |\n",
            word("source"),
            word("sizes"),
            milliseconds("postlude_median"),
            milliseconds("numpy_median"),
            case["ratio"].as_f64().unwrap_or(f64::NAN)
        );
    }
    let text = format!("{before}{BEGIN}\n{table}{END}{after}");
    fs::write(&path, text).map_err(|error| error.to_string())
}

fn time_postlude(case: &Case) -> Result<f64, String> {
    let arguments = ["run", case.source, "--dtype", "f32", "--size", case.sizes];
    let flags = ["--threads", THREADS, "--backend", "cpu", "--time", "--json"];
    seconds(&answer(&mut postlude(&[&arguments[..], &flags].concat()))?)
}

fn time_numpy(python: &PathBuf, case: &Case) -> Result<f64, String> {
    let mut command = program(python, &["bench/numpy_cpu.py", case.name, case.sizes]);
    for variable in ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
        command.env(variable, THREADS);
    }
    seconds(&answer(&mut command)?)
}

/// The command, already built: cargo only says where it is.
fn postlude(arguments: &[&str]) -> std::process::Command {
    let run = ["run", "--quiet", "--release", "-p", "postlude-cli", "--"];
    cargo(&[&run[..], arguments].concat())
}

fn seconds(object: &str) -> Result<f64, String> {
    let object: Value =
        serde_json::from_str(object).map_err(|error| format!("{error}: {object}"))?;
    object["seconds"].as_f64().ok_or_else(|| format!("no time in {object}"))
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
