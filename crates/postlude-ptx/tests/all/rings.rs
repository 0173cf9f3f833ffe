//! Rings between other agents than copies and warpgroups.

use postlude_ptx::check::check;
use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{Attributes, build};
use postlude_ptx::ring::{Agents, Consumers, Grid, Ring};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::F32;

use crate::ptxas;

const STAGES: u32 = 3;
const SLOT: u32 = 1024;

/// Bytes copied into slots, or written there by 32 threads, and read with loads.
fn kernel(agents: Agents, copied: bool) -> Entry {
    let attributes = Attributes::new(256).cluster([agents.grid.rows, 1, 1]);
    build::<Sm90a>("ring", attributes, |k| {
        let source = k.parameter_pointer("source").load();
        let ring = Ring::new(k, k.shared(STAGES * SLOT), STAGES, agents);
        let (thread, slots) = (k.thread(), k.shared(0));
        k.if_(thread.eq(0), || {
            ring.initialise();
            k.fence_barrier_init();
        });
        k.sync();
        k.if_else(
            thread.lt(agents.producers),
            || {
                let at = ring.producer();
                k.for_(0, 9, 1, |_| {
                    ring.produce(&at, |slot| {
                        let place = slots + slot.stage * SLOT;
                        if copied {
                            slot.load_bytes(place, source, 512);
                            slot.load_bytes(place + 512, source, 256);
                        } else {
                            k.store_shared(place + thread * 4, [thread]);
                        }
                    });
                });
            },
            || {
                let at = ring.consumer(thread & 31);
                k.for_(0, 9, 1, |_| {
                    ring.consume(&at, |stage| {
                        let _ = k.load_shared::<F32, 4>(slots + stage * SLOT);
                    });
                });
            },
        );
    })
}

fn lines(entry: &Entry, word: &str) -> Vec<String> {
    entry.to_string().lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
}

#[test]
fn bytes_of_all_copies_are_promised_together() {
    let agents =
        Agents { producers: 1, consumers: Consumers::Warps(4), grid: Grid { rows: 2, columns: 1 } };
    let entry = kernel(agents, true);
    let promises = lines(&entry, "expect_tx");
    assert!(matches!(&promises[..], [one] if one.ends_with(", 768;")), "{promises:?}");
    let counts = lines(&entry, "mbarrier.init");
    assert!(counts[0].ends_with(", 1;") && counts[1].ends_with(", 8;"), "{counts:?}");
    assert_eq!(lines(&entry, "bar.warp.sync").len(), 1);
    assert_eq!(check(&entry), []);
    ptxas::assemble(&entry);
}

#[test]
fn without_copies_every_producer_arrives_after_its_writes() {
    let agents = Agents { producers: 32, consumers: Consumers::Threads(224), grid: Grid::ONE };
    let entry = kernel(agents, false);
    assert!(lines(&entry, "expect_tx").is_empty());
    let counts = lines(&entry, "mbarrier.init");
    assert!(counts[0].ends_with(", 32;") && counts[1].ends_with(", 224;"), "{counts:?}");
    let text = entry.to_string();
    let place = |word| text.find(word).unwrap();
    assert!(place("st.shared") < place("fence.proxy.async"));
    assert!(place("fence.proxy.async") < place("mbarrier.arrive"));
    assert_eq!(check(&entry), []);
    ptxas::assemble(&entry);
}

/// Loads of a slot that is held until the next one is read are ordered before copies like those of any other.
#[test]
fn the_last_slot_of_a_run_is_released_as_the_others_are() {
    for releasing in [false, true] {
        let agents = Agents { producers: 1, consumers: Consumers::Warps(2), grid: Grid::ONE };
        let entry = build::<Sm90a>("held", Attributes::new(64), |k| {
            let ring = Ring::new(k, k.shared(STAGES * SLOT), STAGES, agents);
            let at = ring.consumer(k.thread() & 31);
            let read = |stage| {
                let _ = k.load_shared::<F32, 4>(k.shared(0) + stage * SLOT);
            };
            k.for_(0, 9, 1, |_| {
                if releasing {
                    ring.consume_releasing(&at, |stage, release| {
                        read(stage);
                        release();
                    });
                } else {
                    ring.consume_behind(&at, read);
                }
            });
            ring.release_held(&at);
        });
        let words = ["fence.proxy.async", "bar.warp.sync", "mbarrier.arrive"];
        let text = entry.to_string();
        let found = text.lines().filter_map(|line| words.iter().find(|word| line.contains(**word)));
        let found: Vec<&str> = found.copied().collect();
        assert_eq!(found, [words, words].concat(), "{text}");
        assert_eq!(check(&entry), []);
        ptxas::assemble(&entry);
    }
}

#[test]
fn a_warp_that_moves_orders_both_slots_with_one_fence() {
    let stage = Agents { producers: 2, consumers: Consumers::Threads(32), grid: Grid::ONE };
    let staging = Agents { producers: 1, consumers: Consumers::Warps(2), grid: Grid::ONE };
    let entry = build::<Sm90a>("moved", Attributes::new(64), |k| {
        let (from, to) = (k.shared(0), k.shared(STAGES * SLOT));
        let barriers = k.shared(2 * STAGES * SLOT);
        let arrived = Ring::new(k, barriers, STAGES, staging);
        let behind = barriers + Ring::<Sm90a>::barrier_bytes(STAGES);
        let ring = Ring::new(k, behind, STAGES, stage);
        let lane = k.thread() & 31;
        let (from_at, at) = (arrived.consumer(lane), ring.producer());
        k.for_(0, 9, 1, |_| {
            ring.produce_moved(
                &at,
                (&arrived, &from_at),
                lane,
                None,
                |_| {},
                |slot, stage| {
                    let word = k.load_shared::<F32, 1>(from + slot * SLOT + lane * 4);
                    k.store_shared(to + stage * SLOT + lane * 4, word);
                },
            );
        });
    });
    assert_eq!(lines(&entry, "fence.proxy.async").len(), 1);
    assert_eq!(lines(&entry, "mbarrier.arrive").len(), 2);
    let text = entry.to_string();
    let place = |word| text.find(word).unwrap();
    assert!(place("st.shared") < place("fence.proxy.async"));
    assert!(place("bar.warp.sync") < place("mbarrier.arrive"));
    assert_eq!(check(&entry), []);
    ptxas::assemble(&entry);
}
