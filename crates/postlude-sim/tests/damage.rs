//! Damaged kernels: whatever a text says, the simulator answers with a report or an error, and never panics.

mod bound;

use bound::{Bound, tile, typed};
use postlude::DType;
use postlude_sim::{Options, Timing, run};

const SOURCE: &str = "kernel k(A: T[M, K], W: T[N, K], bias: f32[N], C: T[M, N]) -> D: T[M, N] { D = relu(A @ W.T + bias + C) }";

/// Random bits: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit as u64) as usize
    }
}

/// The line with one of its numbers changed.
fn renumbered(line: &str, random: &mut Random) -> String {
    let digits: Vec<usize> = line
        .char_indices()
        .filter(|(_, each)| each.is_ascii_digit())
        .map(|(place, _)| place)
        .collect();
    if digits.is_empty() {
        return line.to_owned();
    }
    let place = digits[random.below(digits.len())];
    let new = ["0", "1", "7", "31", "64", "-1", "4294967295", "99"][random.below(8)];
    format!("{}{new}{}", &line[..place], &line[place + 1..])
}

fn damaged(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        let at = random.below(lines.len() - 1);
        match random.below(5) {
            0 => {
                lines.remove(at);
            }
            1 => lines.insert(at, lines[at].clone()),
            2 => lines.swap(at, at + 1),
            3 => {
                let other = random.below(lines.len());
                lines.swap(at, other);
            }
            _ => lines[at] = renumbered(&lines[at], random),
        }
    }
    lines.join("\n")
}

#[test]
fn damaged_kernels_never_panic() {
    let bound = Bound::new(&typed(SOURCE, DType::BF16), [1, 70, 72, 80], tile(64, 64, 1), 2);
    let timings = [Timing::Eager, Timing::Lazy, Timing::Random { seed: 3 }];
    for seed in 0..600 {
        let mut random = Random(seed);
        let text = damaged(&bound.text, &mut random);
        let timing = timings[random.below(3)];
        let options = Options { timing, budget: 60_000, ..Options::default() };
        let mut buffers = bound.buffers.clone();
        let sizes: Vec<usize> = buffers.iter().map(Vec::len).collect();
        let _ = run(&text, &bound.launch, &mut buffers, &options);
        assert_eq!(buffers.iter().map(Vec::len).collect::<Vec<_>>(), sizes, "buffers come back");
    }
}
