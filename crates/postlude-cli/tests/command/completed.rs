//! Words that a shell completes.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::checkpoints::{floats, safetensors};
use super::{postlude, postlude_in};

/// The words for the end of a line.
fn words(folder: &Path, line: &str) -> Vec<String> {
    let output = postlude_in(folder, &["complete", "--line", line]).fine();
    output.lines().map(str::to_owned).collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..50).map(|layer| format!("layers.{layer}.weight")).collect();
    let members: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), "F32", &[1, 1][..], floats(&[1.0])))
        .chain([("norm", "F32", &[1, 1][..], floats(&[1.0]))])
        .collect();
    fs::write(folder.path().join("model.safetensors"), safetensors(&members)).unwrap();
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    fs::create_dir(folder.path().join("more")).unwrap();
    folder
}

#[test]
fn kernels_names_files_and_tensors_are_known() {
    let folder = folder();
    for (line, wanted) in [
        ("postlude run bce_loss_", &["bce_loss_gradient"][..]),
        ("postlude show softcap_", &["softcap_cross_entropy"]),
        ("postlude run --seed 1 softcap_", &["softcap_cross_entropy"]),
        ("postlude run softcap --in ", &["A=", "W="]),
        ("postlude run softcap --set c", &["cap="]),
        ("postlude run softcap --out ", &["D="]),
        ("postlude run softcap --print D", &["D"]),
        ("postlude run softcap --size M=4,", &["M=4,K=", "M=4,M=", "M=4,N="]),
        ("postlude run 'Z = A @ B; D = relu(Z)' --only Z,", &["Z,Z", "Z,D"]),
        ("postlude run softcap --fill A=sp", &["A=special"]),
        ("postlude run softcap --in W=", &["W=model.safetensors", "W=more/"]),
        ("postlude run softcap --in W=mod", &["W=model.safetensors:"]),
        ("postlude run softcap --in=W=mod", &["--in=W=model.safetensors:"]),
        (
            "postlude run softcap --in W=model.safetensors:",
            &["W=model.safetensors:layers.", "W=model.safetensors:norm"],
        ),
        (
            "postlude run softcap --in W=model.safetensors:layers.49",
            &["W=model.safetensors:layers.49.weight"],
        ),
        ("postlude run softcap --sc", &[]),
        ("postlude run - --in ", &[]),
        ("postlude rnu ", &[]),
        ("postlude ", &[]),
        ("", &[]),
    ] {
        let mut found = words(folder.path(), line);
        let mut wanted: Vec<String> = wanted.iter().map(|word| (*word).to_owned()).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{line}");
    }
    let all = postlude_in(folder.path(), &["complete", "--", "run", ""]).fine();
    assert!(all.lines().count() > 100, "{all}");
}

#[test]
fn bash_completes_kernels_and_tensors() {
    let folder = folder();
    let script = postlude(&["completions", "bash"]).fine();
    fs::write(folder.path().join("script"), script).unwrap();
    let ask = |line: &str| {
        let program = Path::new(env!("CARGO_BIN_EXE_postlude"));
        let folder_of_program = program.parent().unwrap().display();
        let text = format!(
            "PATH=\"{folder_of_program}:$PATH\"; source ./script; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
             read -ra COMP_WORDS <<< \"$COMP_LINE\"; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _postlude_or_words postlude \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["-c", &text]).current_dir(folder.path()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(ask("postlude show softcap_"), "softcap_cross_entropy\n");
    // Bash replaces what follows the last colon.
    assert_eq!(ask("postlude run softcap --in W=model.safetensors:no"), "norm\n");
    assert_eq!(ask("postlude run softcap --in W=mod"), "model.safetensors:\n");
    assert!(ask("postlude run softcap --see").contains("--seed"));
}

#[test]
fn zsh_and_fish_ask_the_program_too() {
    let zsh = postlude(&["completions", "zsh"]).fine();
    assert_eq!(zsh.matches("\n_postlude() {").count(), 1, "{zsh}");
    assert_eq!(zsh.matches("_postlude_flags() {").count(), 1, "{zsh}");
    assert!(zsh.find("_postlude_flags() {") < zsh.find("if [ \"$funcstack[1]\""));
    assert!(zsh.contains("complete -- "));
    assert!(postlude(&["completions", "fish"]).fine().contains("complete -- (commandline"));
}
