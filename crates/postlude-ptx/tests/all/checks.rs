//! The checker finds what it says it finds: each finding has a kernel that is broken in just that way.

use postlude_ptx::check::{Finding, check};
use postlude_ptx::entry::{Entry, Item};
use postlude_ptx::inst::Inst;
use postlude_ptx::kernel::{
    Attributes, DescriptorLayout, Kernel, MatrixType, Var, WgmmaForm, build,
};
use postlude_ptx::shared::Region;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::F32;

fn kernel(body: impl for<'k> FnOnce(Kernel<'k, Sm90a>)) -> Entry {
    build("checked", Attributes::new(128), body)
}

/// A loop of products, two groups deep, and a use of the sums.
fn product() -> Entry {
    kernel(|k| {
        let form = WgmmaForm::new(8, MatrixType::BF16, MatrixType::BF16);
        let sums: Vec<Var<'_, F32>> = (0..4).map(|_| k.unset()).collect();
        let tile = k.descriptor(k.shared(0), DescriptorLayout::K_MAJOR_128);
        let (keep, step) = (k.var(false), k.var(0));
        k.do_while(|| {
            k.wgmma_fence();
            k.wgmma(&form, &sums, tile, tile, keep);
            k.wgmma_commit();
            k.wgmma_wait(1);
            keep.set(true);
            step.set(step.get() + 1);
            step.get().lt(9)
        });
        k.wgmma_wait(0);
        let _ = sums[0].get() + sums[1];
    })
}

/// The place of the `nth` instruction of a form.
fn place(entry: &Entry, form: &str, nth: usize) -> usize {
    let found = entry
        .items
        .iter()
        .enumerate()
        .filter(|(_, item)| matches!(item, Item::Inst { inst, .. } if inst.form() == form));
    found.map(|(at, _)| at).nth(nth).expect("the kernel has such an instruction")
}

fn without(form: &str, nth: usize) -> Vec<Finding> {
    let mut entry = product();
    let at = place(&entry, form, nth);
    entry.items.remove(at);
    check(&entry)
}

#[test]
fn a_sound_kernel_has_no_findings() {
    assert_eq!(check(&product()), []);
}

#[test]
fn a_register_set_on_one_side_only_is_found() {
    let entry = kernel(|k| {
        let x = k.unset::<F32>();
        k.if_(k.lane().eq(0), || x.set(1.0));
        let _ = x.get() + 1.0;
    });
    let item = place(&entry, "AddFloat", 0);
    assert!(matches!(check(&entry)[..], [Finding::ReadBeforeWrite { item: at, .. }] if at == item));
}

#[test]
fn a_register_set_on_both_sides_is_fine() {
    let entry = kernel(|k| {
        let (x, y) = (k.unset::<F32>(), k.unset::<F32>());
        let first = k.lane().eq(0);
        k.if_else(first, || x.set(1.0), || x.set(2.0));
        k.when(first, || y.set(x));
        k.when(!first, || y.set(3.0));
        let _ = y.get() + x;
    });
    assert_eq!(check(&entry), []);
}

#[test]
fn a_register_set_under_a_condition_counts_under_that_condition_only() {
    let entry = kernel(|k| {
        let first = k.lane().eq(0);
        let x = k.when(first, || k.imm::<F32>(1.0));
        k.when(first, || x + 1.0);
        let _ = x - 1.0;
    });
    let item = place(&entry, "SubFloat", 0);
    assert!(matches!(check(&entry)[..], [Finding::ReadBeforeWrite { item: at, .. }] if at == item));
}

#[test]
fn a_loop_that_may_not_run_sets_nothing() {
    let entry = kernel(|k| {
        let x = k.unset::<F32>();
        k.for_(0, k.lane(), 1, |_| x.set(1.0));
        let _ = x.get() + 1.0;
    });
    assert!(matches!(check(&entry)[..], [Finding::ReadBeforeWrite { .. }]));
}

#[test]
fn a_missing_fence_is_found() {
    let findings = without("WgmmaFence", 0);
    assert!(matches!(findings[..], [Finding::ProductWithoutFence { .. }]), "{findings:?}");
}

#[test]
fn a_missing_commit_is_found_at_the_waits() {
    let findings = without("WgmmaCommit", 0);
    assert!(findings.iter().any(|each| matches!(each, Finding::ProductNotCommitted { .. })));
}

#[test]
fn sums_read_before_the_last_wait_are_found() {
    let findings = without("WgmmaWait", 1);
    let touched = |each: &&Finding| matches!(each, Finding::TouchedInFlight { .. });
    assert_eq!(findings.iter().filter(touched).count(), 2, "{findings:?}");
    assert!(findings.iter().any(|each| matches!(each, Finding::ProductNotAwaited { .. })));
}

#[test]
fn overlapping_and_overlong_regions_are_found() {
    let mut entry = product();
    let region = |name: &str, offset, bytes| Region { name: name.to_owned(), offset, bytes };
    entry.regions = vec![region("a", 0, 16), region("b", 16, 16), region("c", 24, 232_448)];
    let names = ("b".to_owned(), "c".to_owned());
    assert_eq!(
        check(&entry),
        [
            Finding::OverlappingRegions { first: names.0, second: names.1.clone() },
            Finding::RegionBeyondLimit { region: names.1, end: 232_472, limit: 232_448 },
        ]
    );
}

#[test]
fn named_barriers_are_in_range_and_of_whole_warps() {
    let entry = kernel(|k| {
        k.sync_named(15, 128);
        k.sync_named(16, 128);
        k.arrive_named(1, 100);
    });
    assert_eq!(
        check(&entry),
        [
            Finding::BarrierOutOfRange { item: 1, barrier: 16 },
            Finding::BarrierOfPartialWarps { item: 2, threads: 100 },
        ]
    );
}

#[test]
fn every_finding_says_what_is_wrong() {
    let findings = without("WgmmaFence", 0);
    assert_eq!(
        findings[0].to_string(),
        format!(
            "item {} is a matrix product without a fence before it on some path",
            place(&product(), "Wgmma", 0) - 1
        )
    );
    assert!(product().instructions().any(|inst| matches!(inst, Inst::WgmmaFence {})));
}
