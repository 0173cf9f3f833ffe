//! The known name that an unknown one was probably meant to be.
//!
//! In: a name and candidates. Out: the candidate the fewest slips of the fingers away, if few enough.

/// Longer names than this are not compared: the work grows with the square.
const LONGEST: usize = 64;

/// The nearest candidate, at most about a third of the letters away.
///
/// A slip is a letter added, dropped, replaced or swapped with its neighbour. Case does not count
/// as a slip but decides between candidates equally near; after that the first one wins.
///
/// ```
/// assert_eq!(postlude::syntax::nearest("geluu", ["relu", "gelu"]), Some("gelu"));
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let exact: Vec<char> = name.chars().collect();
    let folded: Vec<char> = name.to_lowercase().chars().collect();
    let mut best: Option<((usize, usize), &str)> = None;
    for candidate in candidates {
        if candidate.len() > LONGEST {
            continue;
        }
        let distance = slips(&folded, &candidate.to_lowercase().chars().collect::<Vec<_>>());
        if distance > exact.len().max(candidate.chars().count()) / 3 {
            continue;
        }
        let key = (distance, slips(&exact, &candidate.chars().collect::<Vec<_>>()));
        if best.is_none_or(|(least, _)| key < least) {
            best = Some((key, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Damerau-Levenshtein distance in its restricted form (no letter moves twice).
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut line = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            line[j] = replaced.min(above[j] + 1).min(line[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                line[j] = line[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, line);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 7] = ["gelu", "gelu_tanh", "relu", "bias", "Bias", "softmax", "f32"];

    #[test]
    fn a_slip_of_the_fingers_finds_the_name() {
        for (written, meant) in [
            ("gleu", Some("gelu")),
            ("geluu", Some("gelu")),
            ("GELU", Some("gelu")),
            ("sofmax", Some("softmax")),
            ("gelu_tahn", Some("gelu_tanh")),
            ("f23", Some("f32")),
            ("BIAS", Some("Bias")),
            ("bias", Some("bias")),
            ("quantize", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, KNOWN), meant, "{written}");
        }
    }

    #[test]
    fn very_long_names_are_near_nothing() {
        assert_eq!(nearest(&"a".repeat(100_000), KNOWN), None);
    }
}
