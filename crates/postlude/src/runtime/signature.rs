//! The parameters that a kernel's text declares: how many, and how large each is.
//!
//! The driver copies what the kernel declares from where the launch points, so the two are compared before any launch.

/// The sizes of a kernel's parameters in bytes; `None` where the text declares no such kernel in a form known here.
pub(crate) fn parameter_sizes(text: &str, entry: &str) -> Option<Vec<u32>> {
    let list = parameter_list(text, entry)?;
    let list: String = list.lines().map(|line| line.split("//").next().unwrap_or(line)).fold(
        String::new(),
        |mut list, line| {
            list.push_str(line);
            list.push(' ');
            list
        },
    );
    let declarations = list.split(',').map(str::trim).filter(|text| !text.is_empty());
    declarations.map(parameter_size).collect()
}

/// What stands between the parentheses after the kernel's name; empty where there are none.
fn parameter_list<'a>(text: &'a str, entry: &str) -> Option<&'a str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(".entry") {
        rest = after;
        let after = after.trim_start();
        let Some(after) = after.strip_prefix(entry) else { continue };
        let part_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
        if after.starts_with(part_of_a_name) {
            continue;
        }
        let after = after.trim_start();
        let Some(list) = after.strip_prefix('(') else { return Some("") };
        return list.split_once(')').map(|(list, _)| list);
    }
    None
}

/// `.param .u64 .ptr .global .align 16 a` or `.param .align 64 .b8 map[128]`
fn parameter_size(declaration: &str) -> Option<u32> {
    let mut words = declaration.split_whitespace();
    if words.next() != Some(".param") {
        return None;
    }
    let element = words.find_map(|word| match word {
        ".b8" | ".u8" | ".s8" => Some(1),
        ".b16" | ".u16" | ".s16" | ".f16" => Some(2),
        ".b32" | ".u32" | ".s32" | ".f32" => Some(4),
        ".b64" | ".u64" | ".s64" | ".f64" => Some(8),
        _ => None,
    })?;
    let count = match declaration.split_once('[') {
        Some((_, count)) => count.split_once(']')?.0.trim().parse().ok()?,
        None => 1u32,
    };
    count.checked_mul(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_the_text() {
        let text = ".visible .entry add_more(.param .u32 n)\n{ ret; }
.visible .entry add(
    .param .u64 .ptr .global .align 16 a, // the first
    .param .f32 scale,
    .param .align 64 .b8 map[128]
)
.maxntid 128 { ret; }
.entry nothing { ret; }";
        assert_eq!(parameter_sizes(text, "add"), Some(vec![8, 4, 128]));
        assert_eq!(parameter_sizes(text, "add_more"), Some(vec![4]));
        assert_eq!(parameter_sizes(text, "nothing"), Some(vec![]));
        assert_eq!(parameter_sizes(text, "ad"), None);
        assert_eq!(parameter_sizes(".entry k(.param .u8)", "k"), Some(vec![1]));
        assert_eq!(parameter_sizes(".entry k(.param .weird x)", "k"), None);
    }
}
