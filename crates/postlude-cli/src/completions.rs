//! `postlude completions`: a script for the shell.
//!
//! In: a shell. Out: clap's script for commands and flags; for bash, zsh and fish with a function that asks the program
//! itself (`postlude complete`) for kernels, names of inputs and outputs, files, and tensors of files.

mod line;
mod words;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::{CommandLine, CompleteArguments, CompletionsArguments};
use crate::failure::{Failure, Outcome};
use crate::print;

/// Asks for words first. Bash replaces only what follows the last `=` or `:` of a word, where it breaks words there.
const BASH: &str = r#"
_postlude_or_words() {
    local line="${COMP_LINE:0:COMP_POINT}" word head=""
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <("$1" complete --line "$line" 2>/dev/null)
    if ((${#COMPREPLY[@]} == 0)); then
        _postlude "$@"
        return
    fi
    word="${line##*[[:space:]]}"
    if [[ $COMP_WORDBREAKS == *:* && $word == *:* ]]; then
        head="${word%"${word##*[=:]}"}"
    elif [[ $COMP_WORDBREAKS == *=* && $word == *=* ]]; then
        head="${word%"${word##*=}"}"
    fi
    COMPREPLY=("${COMPREPLY[@]#"$head"}")
    compopt -o nospace 2>/dev/null
}
complete -F _postlude_or_words -o bashdefault -o default postlude
"#;

/// Stands in for clap's function, which it calls where the program knows no words.
const ZSH: &str = r#"_postlude() {
    local -a found
    found=("${(@f)$("${words[1]}" complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    if (( ${#found} )); then
        compadd -Q -S '' -a found
    else
        _postlude_flags "$@"
    fi
}

"#;
/// Where clap's function begins, and what follows it.
const ZSH_FUNCTION: &str = "\n_postlude() {";
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_postlude\" ]";

/// Values of flags are asked for by name: fish completes them by the rules of their flag alone.
const FISH: &str = r"
function __postlude_words
    command postlude complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c postlude -a '(__postlude_words)'
for flag in in out fill set size only print
    complete -c postlude -l $flag -x -a '(__postlude_words)'
end
";

/// Runs the command.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<Outcome, Failure> {
    // Written to memory first: the generator does not survive a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut CommandLine::command(), "postlude", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = match arguments.shell {
        Shell::Bash => script + BASH,
        Shell::Zsh => script.replacen(ZSH_FUNCTION, "\n_postlude_flags() {", 1).replacen(
            ZSH_END,
            &format!("{ZSH}{ZSH_END}"),
            1,
        ),
        Shell::Fish => script + FISH,
        // Other shells, which may get more, complete commands and flags.
        _ => script,
    };
    print::text(&script)?;
    Ok(Outcome::Fine)
}

/// Prints the words that may stand at the end of a command line, one a line.
pub(crate) fn complete(arguments: &CompleteArguments) -> Result<Outcome, Failure> {
    let typed = match &arguments.line {
        Some(text) => line::split(text).split_off(1),
        None => arguments.words.clone(),
    };
    let mut text = String::new();
    for word in words::at_end(&typed) {
        text.push_str(&word);
        text.push('\n');
    }
    print::text(&text)?;
    Ok(Outcome::Fine)
}
