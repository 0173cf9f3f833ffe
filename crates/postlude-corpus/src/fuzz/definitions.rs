//! Functions that random kernels define before they use them.

/// A definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    /// What a call takes: values, and dims where the name is `d`.
    pub(super) parameters: &'static [&'static str],
    text: &'static str,
}

/// In an order in which each sees the ones that it uses.
#[rustfmt::skip] // A table: one line a definition.
pub(super) const DEFINITIONS: [Definition; 7] = [
    Definition { name: "halfway", parameters: &["x", "y"], text: "0.5 * x + y" },
    Definition { name: "gate", parameters: &["x", "y"], text: "silu(x) * y" },
    Definition { name: "kept", parameters: &["x", "y"], text: "where(x > y, x, 0.0)" },
    Definition { name: "again", parameters: &["x"], text: "halfway(x, halfway(x, x))" },
    Definition { name: "squash", parameters: &["x"], text: "x / (1.0 + abs(x))" },
    Definition { name: "centred", parameters: &["x", "d"], text: "x - mean(x, d)" },
    Definition { name: "spread", parameters: &["x", "d"], text: "max(centred(x, d), d) - min(x, d)" },
];

impl Definition {
    fn is_called(&self, text: &str) -> bool {
        let call = format!("{}(", self.name);
        text.match_indices(&call).any(|(place, _)| {
            !text[..place].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '_')
        })
    }
}

/// The definitions that these lines need.
pub(super) fn needed(lines: &[String]) -> Vec<String> {
    let mut found: Vec<&Definition> = Vec::new();
    for one in DEFINITIONS.iter().rev() {
        let by_lines = lines.iter().any(|line| one.is_called(line));
        if by_lines || found.iter().any(|other| one.is_called(other.text)) {
            found.push(one);
        }
    }
    let text = |one: &&Definition| {
        format!("def {}({}) = {}", one.name, one.parameters.join(", "), one.text)
    };
    found.iter().rev().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::needed;

    #[test]
    fn what_is_used_comes_with_what_it_uses_first() {
        let lines = ["v1 = again(v0)".to_owned()];
        assert_eq!(
            needed(&lines),
            ["def halfway(x, y) = 0.5 * x + y", "def again(x) = halfway(x, halfway(x, x))"]
        );
        assert_eq!(needed(&["v1 = propagate(v0)".to_owned()]), Vec::<String>::new());
    }
}
