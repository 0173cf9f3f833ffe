//! What the generator of random kernels draws: everything that the language has, in every position.

use std::collections::BTreeMap;

use postlude_corpus::fuzz::{Extent, FREQUENT, Sort, draw, features, graph_seed, wanted};

/// Draws after which every feature has been seen, with room for chance: today 45,000 are enough.
const DRAWS: u32 = 150_000;
/// How many are counted by their features.
const COUNTED: u32 = 10_000;
/// How many of them are typed as well.
const TYPED: u32 = 4_000;

#[test]
fn every_function_dtype_and_shape_is_drawn() {
    let mut missing = wanted();
    for number in 0..DRAWS {
        for feature in features(&draw(graph_seed(7, number), Extent::Small, Sort::Any)) {
            missing.remove(&feature);
        }
        if missing.is_empty() {
            return;
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    panic!("{} are never drawn: {}", missing.len(), missing.join(", "));
}

#[test]
fn one_of_sixty_kernels_has_each_frequent_feature() {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::from(FREQUENT.map(|name| (name, 0)));
    for number in 0..COUNTED {
        let found = features(&draw(graph_seed(10, number), Extent::Small, Sort::Any));
        for (name, count) in &mut counts {
            *count += u32::from(found.contains(*name));
        }
    }
    let rare: Vec<_> = counts.iter().filter(|(_, count)| **count * 60 < COUNTED).collect();
    assert!(rare.is_empty(), "of {COUNTED}: {rare:?} of {counts:?}");
}

#[test]
fn what_is_drawn_types() {
    for number in 0..TYPED {
        let specimen = draw(graph_seed(8, number), Extent::Small, Sort::Any);
        if let Err(error) = specimen.kernel() {
            panic!("seed {}: {error}\n{}", specimen.seed, specimen.drawn.text());
        }
    }
}

#[test]
fn a_seed_gives_the_same_kernel_every_time() {
    for number in 0..200 {
        let seed = graph_seed(9, number);
        assert_eq!(
            draw(seed, Extent::Small, Sort::Any),
            draw(seed, Extent::Small, Sort::Any),
            "seed {seed}"
        );
    }
}
