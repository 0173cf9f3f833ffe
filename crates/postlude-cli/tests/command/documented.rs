//! The examples of `docs/cli.md` print what the page says.
//!
//! Numbers may differ a little. A line `...` stands for any lines, `...` within a line for any text. With `POSTLUDE_BLESS=1` the page is rewritten where
//! it is wrong; lines with `...` stay as they are.

use std::fs;
use std::process::Command;

use super::{NOTE, repository};

#[test]
fn the_examples_of_the_page_are_true() {
    let path = repository().join("docs/cli.md");
    let text = fs::read_to_string(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut blessed = String::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (place, part) in text.split("```console\n").enumerate() {
        if place == 0 {
            blessed.push_str(part);
            continue;
        }
        let (block, rest) = part.split_once("```").expect("a block that ends");
        blessed.push_str("```console\n");
        for example in block.split_inclusive('\n').collect::<String>().split("$ ").skip(1) {
            count += 1;
            let (line, wanted) = example.split_once('\n').unwrap();
            let printed = run(line, folder.path());
            blessed.extend(["$ ", line, "\n"]);
            if matches(wanted, &printed) {
                blessed.push_str(wanted);
            } else {
                blessed.push_str(&printed);
                wrong.push(format!("{line}\n{printed}"));
            }
        }
        blessed.push_str("```");
        blessed.push_str(rest);
    }
    assert!(count > 15, "{count}");
    if std::env::var_os("POSTLUDE_BLESS").is_some() {
        fs::write(&path, blessed).unwrap();
    } else {
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// What a line prints on both outputs.
fn run(line: &str, folder: &std::path::Path) -> String {
    let line = line.replacen("postlude", env!("CARGO_BIN_EXE_postlude"), 1);
    let corpus = repository().join("corpus").canonicalize().unwrap();
    let line = line.replace(" corpus ", &format!(" corpus --folder {} ", corpus.display()));
    let output = Command::new("bash")
        .args(["-c", &format!("{line} 2>&1")])
        .current_dir(folder)
        .env("POSTLUDE_CACHE_DIR", folder.join("cache"))
        .env("POSTLUDE_TUNE", "off")
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    // A machine with a GPU would not say why it used none.
    printed.split_inclusive('\n').filter(|line| !line.starts_with(NOTE)).collect()
}

fn matches(wanted: &str, printed: &str) -> bool {
    let wanted: Vec<&str> = wanted.lines().collect();
    let mut printed = printed.lines();
    let mut any = false;
    for line in wanted {
        if line == "..." {
            any = true;
        } else if any {
            if !printed.by_ref().any(|printed| line_matches(line, printed)) {
                return false;
            }
            any = false;
        } else if !printed.next().is_some_and(|printed| line_matches(line, printed)) {
            return false;
        }
    }
    any || printed.next().is_none()
}

fn line_matches(wanted: &str, printed: &str) -> bool {
    // How far a result is from the reference is the machine's own.
    if wanted.starts_with("check ok") {
        return printed.starts_with("check ok");
    }
    if let Some((output, _)) = wanted.split_once("largest error") {
        return printed.starts_with(output) && printed.contains("largest error");
    }
    match wanted.split_once("...") {
        None => {
            let (wanted, printed) = (wanted.split(' '), printed.split(' '));
            wanted.clone().count() == printed.clone().count()
                && wanted.zip(printed).all(|(wanted, printed)| word_matches(wanted, printed))
        }
        Some((start, end)) => {
            printed.strip_prefix(start).is_some_and(|printed| printed.ends_with(end))
        }
    }
}

/// The order of accumulation is the machine's own: numbers are nearly the same.
fn word_matches(wanted: &str, printed: &str) -> bool {
    match (wanted.parse::<f64>(), printed.parse::<f64>()) {
        (Ok(wanted), Ok(printed)) => (wanted - printed).abs() <= 1e-3 * wanted.abs(),
        (Ok(_), Err(_)) | (Err(_), Ok(_) | Err(_)) => wanted == printed,
    }
}
