//! Every instruction form is printed, assembled by a real assembler, and read back.

use std::collections::BTreeSet;

use postlude_ptx::entry::{Entry, Item};
use postlude_ptx::inst::Inst;
use postlude_ptx::kernel::{
    Accumulator, Attributes, Barrier, Delivery, DescriptorLayout, Half, Kernel, Major, MatrixType,
    Packed8, Sign, Src, Var, WgmmaForm, build,
};
use postlude_ptx::launch::Swizzle;
use postlude_ptx::modifier::{
    Alignment, Approx, ArriveOrder, Compare, Eviction, LoadCache, Order, ProxySpace, Published,
    Reduction, Rounding, Saturation, Scope, Seen, ShuffleMode, SumOverflow, Transposition,
    VoteMode, WaitFor,
};
use postlude_ptx::target::{Architecture, CpAsync, Sm80, Sm90a, Sm100a, Tma, Wgmma};
use postlude_ptx::text;
use postlude_ptx::types::{
    B16, B32, B64, BF16x2, F16x2, F32, Pred, S32, S64, Scalar, U16, U32, U64,
};

use crate::ptxas;

fn integers<A: Architecture>(k: Kernel<'_, A>) {
    let a = k.thread();
    let b = a.mad(3, a) + a * 5 - 7;
    let c = (b / 3) % a;
    let c = c.min(a).max(9).mul_high(b) & 0xff | a ^ b;
    let _ = c.complement().cast::<B32>().count_ones();
    let _ = (c << 3) >> a;
    let signed = c.cast::<S32>();
    let _ = (signed >> 2).min(-3).abs().negate().max(signed) / -2;
    let wide = a.mad_wide(4, a.mul_wide(b));
    let _ = (((wide + 1_u64) * wide) & 0xffff_ffff_0000_0000_u64) << 7;
    let _ = wide / 3_u64;
    let _ = k.nearest_s32_of_s64(wide.cast::<S64>());
    let short = k.truncate_u16(a);
    let _ = k.widen_u16((short + 1_u16) ^ short);
    let _ = k.truncate(wide);
    let _ = a.cast::<B32>().permute(b.cast::<B32>(), 0x5410).lop3(7, b.cast::<B32>(), 0xe8);
    for compare in [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge] {
        let p = a.compare(compare, b) & signed.compare(compare, 4) & wide.compare(compare, wide);
        let _ = a.select(7, p);
        let _ = wide.select(wide, p | a.eq(0));
        k.when(!p, || k.var::<U32>(1).set(2));
    }
}

fn floats<A: Architecture>(k: Kernel<'_, A>) {
    let x = k.parameter_f32("x").load();
    let y = (x + 1.5) * x - -0.25;
    let z = y.fma(x, 2.0).min(y).max(f32::NEG_INFINITY).abs().negate();
    let z = z.min_number(x).max_number(y);
    let z = z.divide_full(x).divide_full(3.0);
    for function in Approx::ALL {
        let _ = z.approx(*function);
    }
    for compare in Compare::ALL {
        let _ = z.select(x, z.compare(*compare, x));
    }
    let pair = k.pack_halves(Half::BF16, x, 0.0);
    let other = k.pack_halves(Half::F16, x, y);
    let _ =
        (other.cast::<F16x2>() + other.cast()).fma(other.cast(), other.cast()).max(other.cast());
    let _ = pair.cast::<BF16x2>().fma(pair.cast(), pair.cast()).min(pair.cast());
    for half in [Half::F16, Half::BF16] {
        let _ = k.unpack_halves(half, pair);
        let _ = k.f32_of_half(half, k.half_of_f32(half, x));
    }
    let _ = k.unpack32(k.pack32(pair, other));
    let _ = k.tf32(x);
    let _ = k.float_of_s32(k.nearest_s32(x));
    let _ = k.float_of_u32(k.nearest_u8(x)) + k.float_of_s32(k.nearest_s8(y));
    let _ = k.bits_to_f32(k.f32_to_bits(x));
    for rounding in
        [Rounding::NearestWhole, Rounding::ZeroWhole, Rounding::DownWhole, Rounding::UpWhole]
    {
        let _ = k.whole(rounding, x);
    }
    let _: postlude_ptx::kernel::Reg<'_, U32> =
        k.convert::<F32, _>(Rounding::ZeroWhole, Saturation::None, x);
}

fn memory<A: CpAsync>(k: Kernel<'_, A>) {
    let global = k.parameter_pointer("p").load();
    let size = k.parameter_u64("size").load();
    let global = (global + size).element(k.block() + k.blocks(), 16).offset(-16);
    let p = k.lane().lt(k.parameter_u32("n").load());
    let [one] = k.load_global::<F32, 1>(global, LoadCache::Default);
    let two = k.load_global::<U64, 2>(global, LoadCache::ReadOnly);
    let four = k.load_global_if::<B32, 4>(p, global.offset(64), LoadCache::ReadOnlyStreaming, 0);
    let halves = k.load_global::<B16, 4>(global, LoadCache::Default);
    k.store_global(global, [one]);
    k.store_global(global, two);
    k.when(p, || k.store_global(global.offset(32), four));
    k.store_global(global, halves);
    for ty in [Scalar::U8, Scalar::S8, Scalar::U16, Scalar::S16] {
        let value = k.load_global_narrow(ty, global, LoadCache::Default);
        k.store_global_narrow(ty, global, value);
        let _ = k.load_global_narrow_if(p, ty, global, LoadCache::ReadOnly);
        k.store_shared_narrow(ty, k.shared(32), k.load_shared_narrow(ty, k.shared(64)));
    }
    let shared = k.shared(16) + k.lane() * 16 + 4096;
    let loaded = k.load_shared::<F32, 4>(shared);
    k.store_shared(shared + 16, loaded);
    k.store_shared(shared, k.load_shared::<B64, 2>(shared));
    k.store_shared(shared, k.load_shared::<B16, 1>(shared));
    let old = k.atomic::<U32>(Reduction::Add, Order::AcqRel, Scope::Gpu, global, 1);
    let _ = k.atomic::<F32>(Reduction::Add, Order::Relaxed, Scope::Gpu, global, one);
    let _ = k.atomic::<U32>(Reduction::Increment, Order::AcqRel, Scope::Gpu, global, 5);
    let _ = k.compare_and_swap::<U64>(Order::AcqRel, Scope::System, global, two[0], two[1]);
    for reduction in [Reduction::Min, Reduction::Max, Reduction::Add] {
        k.reduce::<U32>(reduction, Order::Release, Scope::Gpu, global, old);
    }
    k.reduce::<F32>(Reduction::Add, Order::Relaxed, Scope::Gpu, global, one);
    let _ = k.atomic_shared::<U32>(Reduction::Add, shared, old);
    let flag = k.load_ordered::<U32>(Order::Acquire, Scope::Gpu, global);
    k.store_ordered::<U32>(Order::Release, Scope::Gpu, global, flag);
    k.fence(Order::AcqRel, Scope::Gpu);
    k.prefetch(global);
    k.copy_async(shared, global, 16, None);
    k.copy_async(shared, global, 4, Some(flag));
    k.copy_async_commit();
    k.copy_async_wait(1);
}

fn warps<A: CpAsync>(k: Kernel<'_, A>) {
    let shared = k.shared(0) + k.lane() * 16;
    let a = k.load_matrices::<4>(shared, Transposition::None);
    let b = k.load_matrices::<2>(shared, Transposition::Transposed);
    let [one] = k.load_matrices::<1>(shared, Transposition::None);
    let zero = k.imm::<F32>(0.0);
    let _ = k.mma([MatrixType::BF16; 2], a, b, [zero; 4]);
    let _ = k.mma([MatrixType::F16; 2], a, b, [zero; 4]);
    let _ = k.mma([MatrixType::TF32; 2], a, b, [zero; 4]);
    let _ = k.mma([MatrixType::S8; 2], a, b, [k.imm::<S32>(0); 4]);
    let _ = k.mma([MatrixType::U8, MatrixType::S8], a, b, [k.imm::<S32>(0); 4]);
    for mode in ShuffleMode::ALL {
        let _ = k.shuffle(*mode, one, 1);
    }
    let _ = k.uniform(k.thread());
    let _ = k.shuffle(ShuffleMode::Butterfly, zero, k.lane());
    let odd = (k.lane() & 1).eq(1);
    for mode in VoteMode::ALL {
        let _ = k.vote(*mode, odd);
    }
    let _ = k.ballot(odd);
    k.warp_sync();
    k.sync();
    k.sync_named(k.lane(), 128);
    k.arrive_named(3, 128);
    let _ = k.clock() + k.nanoseconds();
    k.loop_(|around| {
        around.continue_if(odd);
        around.break_if(!odd);
        k.comment("two lines\nin one");
    });
    k.while_(|| k.lane().lt(3), || k.sleep(20));
    k.if_else(odd, || k.exit(), || k.if_(!odd, || k.trap()));
    k.ret();
}

fn copies<A: Tma>(k: Kernel<'_, A>) {
    let parameter = k.parameter_map("map");
    let pointer = k.parameter_pointer("p").load();
    parameter.prefetch();
    let map = parameter.address();
    let shared = k.shared(1024);
    let barrier = Barrier::at(k.shared(0));
    k.barrier_init(barrier, 2);
    k.fence_barrier_init();
    let policy = k.policy(Eviction::First);
    for eviction in Eviction::ALL {
        let _ = k.policy(*eviction);
    }
    k.barrier_expect(barrier, 128);
    let zero = k.thread();
    for dims in 1..=5 {
        let mut coordinates: Vec<Src<'_, U32>> = vec![zero.into(); dims];
        coordinates[0] = 64.into();
        for receivers in [None, Some(3_u16.into())] {
            for policy in [None, Some(policy)] {
                let delivery = Delivery { receivers, policy };
                k.tensor_load(shared, map, &coordinates, barrier, delivery);
            }
        }
        for policy in [None, Some(policy)] {
            k.tensor_store(map, &coordinates, shared, policy);
        }
        for reduction in [
            Reduction::Add,
            Reduction::Min,
            Reduction::Max,
            Reduction::And,
            Reduction::Or,
            Reduction::Xor,
            Reduction::Increment,
            Reduction::Decrement,
        ] {
            k.tensor_reduce(reduction, map, &coordinates, shared);
        }
    }
    k.bulk_load(shared, pointer, 64, barrier);
    k.bulk_store(pointer, shared, 64);
    k.bulk_commit();
    k.bulk_wait(0, WaitFor::Complete);
    k.bulk_wait(1, WaitFor::Read);
    k.barrier_arrive(barrier);
    let other = k.remote(barrier, k.cluster_rank()).advance(8);
    k.barrier_arrive_remote(other, Published::Cta);
    k.barrier_arrive_remote(other, Published::CtaInFull);
    k.barrier_arrive_remote(other, Published::Cluster);
    k.store_async(k.remote_address(shared, k.cluster_rank()), k.imm::<F32>(1.0), other);
    let _ = k.barrier_try_wait(barrier, 0, Seen::CtaInFull);
    k.barrier_wait_cluster(barrier, 0);
    k.barrier_wait(barrier, 0);
    let _ = k.barrier_test_wait(barrier, k.cluster() ^ k.clusters());
    k.barrier_invalidate(barrier);
    let values = [k.imm::<B32>(7); 4];
    k.store_matrices(shared, values, Transposition::None);
    k.store_matrices(shared, [values[0]; 2], Transposition::Transposed);
    k.store_matrices(shared, [values[0]], Transposition::None);
    k.if_(k.elect(), || k.fence_proxy_async(ProxySpace::SharedCta));
    k.fence_proxy_async(ProxySpace::All);
    k.fence_proxy_async(ProxySpace::Global);
    k.grid_wait();
    k.grid_launch_dependents();
    k.cluster_arrive(ArriveOrder::Relaxed, Alignment::Aligned);
    k.cluster_wait(Alignment::Aligned);
    k.cluster_sync(Alignment::Any);
}

fn product<A: Wgmma, T: Accumulator>(k: Kernel<'_, A>, form: &WgmmaForm) {
    let descriptor = k.descriptor(k.shared(0), DescriptorLayout::K_MAJOR_128);
    let count = form.n / 2 / T::PER_REGISTER;
    let sums: Vec<Var<'_, T>> = (0..count).map(|_| k.unset()).collect();
    k.wgmma_fence();
    k.wgmma(form, &sums, descriptor, descriptor.advance(32), false);
    if form.a_major == Major::K {
        let a = [k.imm::<B32>(1); 4];
        let p: Var<'_, Pred> = k.var(true);
        k.wgmma_fence();
        k.wgmma(form, &sums, a, descriptor.element(k.lane(), 64), p);
    }
    k.wgmma_commit();
    k.wgmma_wait(0);
}

fn products<A: Wgmma>(k: Kernel<'_, A>) {
    use MatrixType::{BF16, E4M3, E5M2, F16, S8, TF32, U8};
    let types = [(F16, F16), (BF16, BF16), (TF32, TF32), (E4M3, E5M2), (E5M2, E4M3), (E4M3, E4M3)];
    for (a, b) in types {
        let form = WgmmaForm::new(8, a, b);
        product::<A, F32>(k, &form);
        product::<A, F32>(k, &WgmmaForm { a_sign: Sign::Minus, b_sign: Sign::Minus, ..form });
        if F16x2::sums(a) {
            product::<A, F16x2>(k, &form);
        }
        if a.bytes() == 2 {
            product::<A, F32>(k, &WgmmaForm { a_major: Major::MN, b_major: Major::MN, ..form });
            product::<A, F32>(k, &WgmmaForm { b_major: Major::MN, ..form });
        }
    }
    for (a, b) in [(S8, S8), (U8, U8), (S8, U8), (U8, S8)] {
        let form = WgmmaForm::new(16, a, b);
        product::<A, S32>(k, &form);
        product::<A, S32>(k, &WgmmaForm { overflow: SumOverflow::Saturate, ..form });
    }
    for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128] {
        let _ = k.descriptor(k.shared(16), DescriptorLayout { leading: 128, stride: 256, swizzle });
    }
}

fn kernels() -> Vec<Entry> {
    let mut all = vec![
        build::<Sm80>("ampere_integers", Attributes::new(128), integers),
        build::<Sm80>("ampere_floats", Attributes::new(128), floats),
        build::<Sm80>("ampere_memory", Attributes::new(128), memory),
        build::<Sm80>("ampere_warps", Attributes::new(128), warps),
        build::<Sm90a>("hopper_integers", Attributes::new(128), integers),
        build::<Sm90a>("hopper_floats", Attributes::new(128), floats),
        build::<Sm90a>("hopper_memory", Attributes::new(128), memory),
        build::<Sm90a>("hopper_warps", Attributes::new(128), warps),
        build::<Sm90a>("hopper_copies", Attributes::new(128).cluster([2, 1, 1]), copies),
        build::<Sm90a>("hopper_products", Attributes::new(128), products),
        build::<Sm90a>("hopper_registers", Attributes::new(384), |k| {
            k.increase_registers(240);
            k.decrease_registers(24);
        }),
        build::<Sm100a>("blackwell_copies", Attributes::new(128).cluster([2, 1, 1]), copies),
        build::<Sm100a>("blackwell_memory", Attributes::new(128), |k| {
            k.allocate_tensor_memory(k.shared(0), 128);
            let [at] = k.load_shared::<B32, 1>(k.shared(0));
            k.free_tensor_memory(at, 128);
        }),
    ];
    all.push(build::<Sm90a>("hopper_float8", Attributes::new(128), |k| {
        let x = k.parameter_f32("x").load();
        for format in [Packed8::E4M3, Packed8::E5M2] {
            let _ = k.unpack_float8(format, k.pack_float8(format, x, 448.0));
        }
    }));
    all
}

#[test]
fn every_form_is_assembled() {
    for entry in kernels() {
        ptxas::assemble(&entry);
    }
}

#[test]
fn the_test_kernels_hold_every_form() {
    let kernels = kernels();
    let held: BTreeSet<&str> =
        kernels.iter().flat_map(Entry::instructions).map(Inst::form).collect();
    let missing: Vec<&&str> = Inst::FORMS.iter().filter(|form| !held.contains(**form)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_width_of_product_is_assembled() {
    use MatrixType::{BF16, S8};
    let entry = build::<Sm90a>("widths", Attributes::new(128), |k| {
        for n in (8..=256).step_by(8) {
            product::<Sm90a, F32>(k, &WgmmaForm::new(n, BF16, BF16));
            let integers = WgmmaForm::new(n, S8, S8);
            if integers.is_valid() {
                product::<Sm90a, S32>(k, &integers);
            }
        }
    });
    ptxas::assemble(&entry);
}

#[test]
fn printing_what_was_read_gives_the_same_text() {
    for entry in kernels() {
        let printed: String = entry
            .to_string()
            .lines()
            .filter(|line| !line.contains("//"))
            .fold(String::new(), |text, line| text + line + "\n");
        let statements = text::read(&printed).unwrap();
        assert_eq!(text::Program(&statements).to_string(), printed, "{}", entry.name);
    }
}

#[test]
fn typed_reading_gives_back_every_line() {
    for entry in kernels() {
        let statements = text::read(&entry.to_string()).unwrap();
        let read: Vec<Item> = statements
            .iter()
            .filter(|statement| {
                matches!(
                    statement.kind,
                    text::StatementKind::Label(_) | text::StatementKind::Instruction(_)
                )
            })
            .map(|statement| Item::read(statement).unwrap_or_else(|| panic!("{statement}")))
            .collect();
        let written: Vec<&Item> =
            entry.items.iter().filter(|item| !matches!(item, Item::Comment(_))).collect();
        assert_eq!(read.len(), written.len());
        for (read, written) in read.iter().zip(written) {
            assert_eq!(read, written);
            assert_eq!(read.to_string(), written.to_string());
        }
    }
}

/// The types that registers have are used above; these two only as operands.
#[test]
fn immediates_are_printed_by_their_type() {
    let entry = build::<Sm90a>("immediates", Attributes::new(32), |k| {
        let _ = k.imm::<U16>(7);
        let _ = k.imm::<S32>(-7);
        let _ = k.imm::<U64>(u64::MAX);
        let _ = k.imm::<F32>(1.0);
        let _ = k.imm::<Pred>(true);
    });
    let lines: Vec<String> = entry.items.iter().map(Item::to_string).collect();
    assert_eq!(
        lines[..5],
        [
            "    mov.b16 %h0, 7;",
            "    mov.b32 %r0, -7;",
            "    mov.b64 %rd0, 18446744073709551615;",
            "    mov.f32 %f0, 0f3F800000;",
            "    mov.pred %p0, 1;",
        ]
    );
}
