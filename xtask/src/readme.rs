//! The commands that the README promises.

use std::fs;

use crate::command::{program, root, run};

/// Runs every `cargo run` of the README's shell blocks; whatever calls this again is left out.
pub(crate) fn run_commands() -> Result<(), String> {
    let text = fs::read_to_string(root().join("README.md"))
        .map_err(|error| format!("README.md: {error}"))?;
    let commands = commands(&text);
    if commands.is_empty() {
        return Err("the README has no `cargo run` in a shell block".to_owned());
    }
    for command in commands {
        run(&mut program("bash", &["-euo", "pipefail", "-c", &command]))?;
    }
    Ok(())
}

/// The commands of blocks that are marked `sh`, continued lines put together.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let (mut inside, mut pending) = (false, String::new());
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            inside = !inside && matches!(language, "sh" | "bash" | "console");
            pending.clear();
        } else if inside {
            let line = line.trim_start().strip_prefix("$ ").unwrap_or(line);
            match line.strip_suffix('\\') {
                Some(start) => pending.push_str(start),
                None => commands.push(std::mem::take(&mut pending) + line),
            }
        }
    }
    commands.retain(|command| command.starts_with("cargo run"));
    commands
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn only_cargo_run_in_shell_blocks_counts() {
        let text = "cargo run no\n```sh\ngit clone x\ncargo run --release -- \\\n  list\n```\n```rust\ncargo run no\n```\n```console\n$ cargo run yes\nanswer\n```\n";
        assert_eq!(commands(text), ["cargo run --release --   list", "cargo run yes"]);
    }
}
