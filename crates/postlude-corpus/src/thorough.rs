//! How much of a cross product of cases and variations a test run looks at.
//!
//! In: every variation of a case, and the case's name. Out: the variations that run. With `POSTLUDE_THOROUGH=1` that is all
//! of them; otherwise a few, chosen by the name, so that the cases of a test together see every variation and a failure
//! comes back in the next run.

/// Whether every variation of every case is asked for.
pub fn is_thorough() -> bool {
    std::env::var("POSTLUDE_THOROUGH").is_ok_and(|value| value != "0")
}

/// The variations of a case that run: `count` of them that follow one another, or all.
///
/// ```
/// let some = postlude_corpus::pick(&["eager", "lazy", "random"], "relu", 2);
/// assert_eq!(some, postlude_corpus::pick(&["eager", "lazy", "random"], "relu", 2));
/// ```
pub fn pick<T: Copy>(all: &[T], case: &str, count: usize) -> Vec<T> {
    if is_thorough() {
        return all.to_vec();
    }
    let start = case
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
        as usize;
    (0..count.min(all.len())).map(|next| all[(start + next) % all.len()]).collect()
}
