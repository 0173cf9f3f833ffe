//! The tensor that is meant, among the names of a file.
//!
//! In: the names, the one that the user wrote or the name of the input. Out: one of the names, or what the user can write
//! instead.

use std::path::Path;

use crate::failure::Mistake;

/// A file with at most this many tensors is listed whole.
const FEW: usize = 8;
/// Names suggested of a longer list.
const SUGGESTED: usize = 3;
/// Names whose distance is computed: the distance takes a square of their lengths.
const RANKED: usize = 1000;
/// Characters of a name that are compared.
const LONGEST: usize = 200;

/// The tensor that the user named; without that, the one with the input's name, or the only one.
pub(super) fn choose<'a>(
    path: &Path,
    names: &[&'a str],
    tensor: Option<&str>,
    input: &str,
) -> Result<&'a str, Mistake> {
    let find = |wanted: &str| names.iter().copied().find(|name| *name == wanted);
    match (tensor, names) {
        (_, []) => Err(Mistake::file(path, "it holds no tensor")),
        (Some(tensor), _) => find(tensor).ok_or_else(|| {
            Mistake::file(path, format!("it holds no tensor `{tensor}`"))
                .fix(describe(names, tensor))
        }),
        (None, [only]) => Ok(only),
        (None, _) => find(input).ok_or_else(|| {
            let what = format!("it holds {} tensors, and none is named `{input}`", names.len());
            let shown = path.display();
            let fix = format!("name one: `--in {input}={shown}:NAME`; {}", describe(names, input));
            Mistake::file(path, what).fix(fix)
        }),
    }
}

/// All names of a short list, else those nearest to what was written.
fn describe(names: &[&str], wanted: &str) -> String {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    if names.len() <= FEW {
        format!("it holds {}", quoted(names))
    } else {
        format!("the nearest of its {} names are {}", names.len(), quoted(&nearest(names, wanted)))
    }
}

/// The names that take the fewest slips to write, the nearest first.
fn nearest<'a>(names: &[&'a str], wanted: &str) -> Vec<&'a str> {
    let wanted: Vec<char> = wanted.chars().take(LONGEST).collect();
    let mut ranked: Vec<(usize, Vec<char>, &str)> = names
        .iter()
        .map(|name| {
            let letters: Vec<char> = name.chars().take(LONGEST).collect();
            (unlike_ends(&letters, &wanted), letters, *name)
        })
        .collect();
    ranked.sort_by(|a, b| (a.0, a.2).cmp(&(b.0, b.2)));
    ranked.truncate(RANKED);
    let mut near: Vec<(usize, &str)> =
        ranked.iter().map(|(_, letters, name)| (slips(letters, &wanted), *name)).collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

/// Characters of the longer name outside of the beginning and the end that both share.
fn unlike_ends(a: &[char], b: &[char]) -> usize {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[start..], &b[start..]);
    let end = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    rest_a.len().max(rest_b.len()) - end
}

/// Levenshtein distance.
fn slips(a: &[char], b: &[char]) -> usize {
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(above.len());
        row.push(i + 1);
        for (j, other) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(letter != other);
            row.push(replaced.min(row[j] + 1).min(above[j + 1] + 1));
        }
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        let count = |a: &str, b: &str| {
            slips(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        for (a, b, slips) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(count(a, b), slips, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_names_of_a_long_list_are_suggested() {
        let names: Vec<String> = (0..3000)
            .flat_map(|layer| {
                ["up", "down", "gate"].map(|part| format!("model.layers.{layer}.mlp.{part}.weight"))
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let wanted = "model.layers.7.mlp.upp.weight";
        let error = choose(Path::new("m.safetensors"), &names, Some(wanted), "W").unwrap_err();
        let fix = error.fix.unwrap();
        let first = "the nearest of its 9000 names are `model.layers.7.mlp.up.weight`, ";
        assert!(fix.starts_with(first), "{fix}");
        assert_eq!(fix.matches('`').count(), 6, "{fix}");
        let error = choose(Path::new("m.safetensors"), &names, None, "W").unwrap_err();
        assert!(error.fix.unwrap().contains("`--in W=m.safetensors:NAME`"));
    }
}
