//! Several observers of one run.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::WaitFor;

use crate::observe::{Access, At, Observer, Operation};

/// Tells everything to each, in order.
#[derive(Default)]
pub struct Several<'a>(pub Vec<&'a mut dyn Observer>);

impl Observer for Several<'_> {
    fn executed(&mut self, at: At, inst: &Inst) {
        self.0.iter_mut().for_each(|each| each.executed(at, inst));
    }
    fn accessed(&mut self, at: At, access: Access<'_>) {
        self.0.iter_mut().for_each(|each| each.accessed(at, access));
    }
    fn made(&mut self, at: At, cta: u32, address: u32, exists: bool) {
        self.0.iter_mut().for_each(|each| each.made(at, cta, address, exists));
    }
    fn arrived(&mut self, at: At, cta: u32, address: u32, phase: u64) {
        self.0.iter_mut().for_each(|each| each.arrived(at, cta, address, phase));
    }
    fn waited(&mut self, at: At, cta: u32, address: u32, phase: u64) {
        self.0.iter_mut().for_each(|each| each.waited(at, cta, address, phase));
    }
    fn met(&mut self, at: At, barrier: u32, round: u64, waits: bool) {
        self.0.iter_mut().for_each(|each| each.met(at, barrier, round, waits));
    }
    fn cluster_arrived(&mut self, at: At, round: u64) {
        self.0.iter_mut().for_each(|each| each.cluster_arrived(at, round));
    }
    fn cluster_waited(&mut self, at: At, round: u64) {
        self.0.iter_mut().for_each(|each| each.cluster_waited(at, round));
    }
    fn issued(&mut self, at: At, operation: Operation, number: u64) {
        self.0.iter_mut().for_each(|each| each.issued(at, operation, number));
    }
    fn source_read(&mut self, at: At, number: u64) {
        self.0.iter_mut().for_each(|each| each.source_read(at, number));
    }
    fn completed(&mut self, at: At, number: u64) {
        self.0.iter_mut().for_each(|each| each.completed(at, number));
    }
    fn joined(&mut self, at: At, numbers: &[u64], until: WaitFor) {
        self.0.iter_mut().for_each(|each| each.joined(at, numbers, until));
    }
    fn ended(&mut self, cta: u32) {
        self.0.iter_mut().for_each(|each| each.ended(cta));
    }
}
