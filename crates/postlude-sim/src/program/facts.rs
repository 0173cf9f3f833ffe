//! What is true of a step in every warp: its registers by place, and which lanes must execute it together.
//!
//! In: steps with numbered registers. Out: [`Facts`] of each. Invariant: accumulators of a product are written, and
//! read only where the product says so when it is executed; they are not among the registers that are read.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::Alignment;
use postlude_ptx::operand::Access;

use super::Program;

/// Which lanes of a warp must execute an instruction together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum Together {
    /// Each lane alone.
    #[default]
    Alone,
    /// The lanes that its operand names.
    Members,
    /// All lanes that have not ended.
    Warp,
    /// All lanes of the warp; none may have ended.
    WholeWarp,
}

/// Facts of a step.
#[derive(Clone, Default, Debug)]
pub(crate) struct Facts {
    /// Places of registers that it reads.
    pub(crate) reads: Box<[u32]>,
    /// Places of registers that it writes.
    pub(crate) writes: Box<[u32]>,
    pub(crate) together: Together,
    /// Whether its operands have limits, or must be the same in all lanes.
    pub(crate) limited: bool,
    /// Whether it orders what lanes of a warp do in memory.
    pub(crate) orders: bool,
}

impl Together {
    /// PTX ISA: `.sync` instructions name their members, `.aligned` ones need the warp.
    fn of(inst: &Inst) -> Self {
        match inst {
            Inst::Shuffle { .. }
            | Inst::Vote { .. }
            | Inst::Ballot { .. }
            | Inst::Elect { .. }
            | Inst::WarpSync { .. } => Together::Members,
            // Lanes that ended count as arrived at barriers of the CTA and of the cluster.
            Inst::BarSync { .. }
            | Inst::BarArrive { .. }
            | Inst::ClusterArrive { alignment: Alignment::Aligned, .. }
            | Inst::ClusterWait { alignment: Alignment::Aligned } => Together::Warp,
            Inst::WgmmaFence {}
            | Inst::Wgmma { .. }
            | Inst::WgmmaCommit {}
            | Inst::WgmmaWait { .. }
            | Inst::Mma { .. }
            | Inst::LoadMatrix { .. }
            | Inst::StoreMatrix { .. }
            | Inst::SetMaxRegisters { .. } => Together::WholeWarp,
            _ => Together::Alone,
        }
    }
}

/// Whether operands of an instruction have limits, or must be the same in all lanes.
fn is_limited(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::Wgmma { .. }
            | Inst::SetMaxRegisters { .. }
            | Inst::BarSync { .. }
            | Inst::BarArrive { .. }
            | Inst::BarrierInit { .. }
            | Inst::BarrierArrive { .. }
            | Inst::BarrierExpect { .. }
            | Inst::BarrierTryWait { .. }
            | Inst::BarrierTestWait { .. }
            | Inst::Shuffle { .. }
            | Inst::TensorLoad { .. }
            | Inst::TensorLoadHint { .. }
            | Inst::BulkLoad { .. }
            | Inst::StoreAsync { .. }
            | Inst::TensorMulticast { .. }
            | Inst::TensorMulticastHint { .. }
    )
}

/// Whether an instruction orders what lanes do in memory: see `lane_order`.
fn orders(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::WarpSync { .. }
            | Inst::BarSync { .. }
            | Inst::BarArrive { .. }
            | Inst::ClusterArrive { .. }
            | Inst::ClusterWait { .. }
            | Inst::BarrierArrive { .. }
            | Inst::BarrierExpect { .. }
            | Inst::BarrierTryWait { .. }
            | Inst::BarrierTestWait { .. }
            | Inst::Fence { .. }
            | Inst::FenceProxyAsync { .. }
            | Inst::LoadOrdered { .. }
            | Inst::StoreOrdered { .. }
            | Inst::Atomic { .. }
            | Inst::AtomicSwap { .. }
            | Inst::AtomicShared { .. }
            | Inst::Reduce { .. }
            | Inst::TensorLoad { .. }
            | Inst::TensorLoadHint { .. }
            | Inst::TensorMulticast { .. }
            | Inst::TensorMulticastHint { .. }
            | Inst::BulkLoad { .. }
            | Inst::StoreAsync { .. }
            | Inst::BulkWait { .. }
            | Inst::CopyWait { .. }
            | Inst::Wgmma { .. }
    )
}

impl Program {
    /// Facts of all steps.
    pub(super) fn state_facts(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        for step in &mut steps {
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            step.inst.visit(&mut |access, register| {
                let place = self.place(register) as u32;
                let list = match access {
                    Access::Read => &mut reads,
                    Access::Write | Access::Accumulate => &mut writes,
                };
                if !list.contains(&place) || list.len() > 16 {
                    list.push(place);
                }
            });
            step.facts = Facts {
                reads: reads.into(),
                writes: writes.into(),
                together: Together::of(&step.inst),
                limited: is_limited(&step.inst),
                orders: orders(&step.inst),
            };
        }
        self.steps = steps;
    }
}
