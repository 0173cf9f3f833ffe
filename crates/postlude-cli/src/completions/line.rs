//! A command line taken apart as a shell does.

/// The words of a line; the last is the one being typed, which may be empty. Quotes and backslashes are taken off.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_begun = false;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let word = words.len() - 1;
        match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                is_begun = true;
            }
            (letter, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => {
                words[word].extend(letters.next());
                is_begun = true;
            }
            (space, None) if space.is_whitespace() => {
                if is_begun {
                    words.push(String::new());
                }
                is_begun = false;
            }
            (other, _) => {
                words[word].push(other);
                is_begun = true;
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, words) in [
            ("", &[""][..]),
            ("postlude", &["postlude"]),
            ("postlude run ", &["postlude", "run", ""]),
            ("postlude  run 'D = A @ B' --in A", &["postlude", "run", "D = A @ B", "--in", "A"]),
            (r#"postlude run "D = \"" x\ y"#, &["postlude", "run", "D = \"", "x y"]),
            ("postlude run 'D = A", &["postlude", "run", "D = A"]),
            ("postlude ''  ", &["postlude", "", ""]),
        ] {
            assert_eq!(split(line), words, "{line}");
        }
    }
}
