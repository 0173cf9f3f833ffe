//! Barriers of all kinds.

use postlude_ptx::address::Address;
use postlude_ptx::inst::Inst;
use postlude_ptx::operand::{Operand, Register};

use crate::barrier::Mbarrier;
use crate::error::SimError;
use crate::machine::Machine;
use crate::memory::Fault;
use crate::report::Diagnosis;
use crate::warp::{Lanes, Wait, Warp, lanes};

use super::{Now, Outcome};

/// Bytes of a barrier in shared memory.
const BARRIER: usize = 8;
/// What a barrier's count can hold.
const MOST_ARRIVALS: u32 = (1 << 20) - 1;

impl Machine<'_> {
    pub(super) fn execute_barrier(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        let first = now.mask.trailing_zeros() as usize;
        match inst {
            Inst::WarpSync { .. } => Ok(Outcome::Next),
            Inst::BarSync { barrier, threads } => {
                let barrier = self.value(warp, barrier.0)[first];
                let threads = threads.0.map(|threads| self.value(warp, threads)[first] as u32);
                self.meet_named(warp, now, barrier, threads, true)
            }
            Inst::BarArrive { barrier, threads } => {
                let barrier = self.value(warp, barrier.0)[first];
                let threads = Some(self.value(warp, threads.0)[first] as u32);
                self.meet_named(warp, now, barrier, threads, false)
            }
            Inst::ClusterArrive { .. } => self.arrive_cluster(warp, now),
            Inst::ClusterWait { .. } => self.wait_cluster(warp, now),
            Inst::BarrierInit { barrier, count } => {
                let at = self.address(warp, barrier, now.line)?;
                let count = self.value(warp, count.0);
                for lane in lanes(now.mask) {
                    self.init(warp, now, at[lane] as u32, Some(count[lane] as u32))?;
                }
                Ok(Outcome::Next)
            }
            Inst::BarrierInvalidate { barrier } => {
                let at = self.address(warp, barrier, now.line)?;
                for lane in lanes(now.mask) {
                    self.init(warp, now, at[lane] as u32, None)?;
                }
                Ok(Outcome::Next)
            }
            Inst::BarrierArrive { barrier, count, .. } => {
                let count = count.0.unwrap_or(Operand::Integer(1));
                let count = self.value(warp, count);
                self.arrive(warp, now, barrier, None, &count)
            }
            Inst::BarrierExpect { barrier, bytes, .. } => {
                let bytes = self.value(warp, bytes.0);
                self.arrive(warp, now, barrier, Some(&bytes), &[1; 32])
            }
            Inst::BarrierTryWait { d, barrier, parity, .. } => {
                let parity = self.value(warp, parity.0);
                self.wait(warp, now, d.0, barrier, &parity, true)
            }
            Inst::BarrierTestWait { d, barrier, parity } => {
                let parity = self.value(warp, parity.0);
                self.wait(warp, now, d.0, barrier, &parity, false)
            }
            Inst::SetMaxRegisters { change, count } => {
                let count = self.value(warp, count.0)[first] as u32;
                self.resize(warp, now, *change, count)
            }
            _ => Err(self.unsupported(now.line, "no unit")),
        }
    }

    /// A warp at a named barrier counts as all of its threads, whoever of them is left.
    fn meet_named(
        &mut self,
        warp: &Warp,
        now: Now,
        barrier: u64,
        threads: Option<u32>,
        waits: bool,
    ) -> Result<Outcome, SimError> {
        let all = self.launch.threads.next_multiple_of(32);
        let wanted = threads.unwrap_or(all);
        let place = barrier as usize;
        let who = self.at(warp, now.line, now.mask);
        let Some(named) = self.ctas[warp.cta].named.get_mut(place) else {
            return Err(self.unsupported(now.line, "no such named barrier"));
        };
        let round = named.round;
        self.observer.met(who, place as u32, round, waits);
        let counts = named.arrive(32, wanted);
        let problem = match counts {
            Ok(()) if wanted.is_multiple_of(32) && wanted <= all => None,
            Ok(()) => Some(format!("barrier {barrier} waits for {wanted} threads of {all}")),
            Err(wrong) => Some(format!(
                "barrier {barrier} with {wanted} threads, where others of this round say {}",
                wrong.others
            )),
        };
        if let Some(message) = problem {
            self.blame(Self::blamed(warp), now.line, Diagnosis::BarrierCount, message)?;
        }
        self.progress += 1;
        let done = counts.is_err() || self.ctas[warp.cta].named[place].round > round;
        if done || !waits {
            return Ok(Outcome::Next);
        }
        Ok(Outcome::Block(Wait::Named { barrier: place, round }))
    }

    /// Each thread arrives and waits in turn (PTX ISA, "barrier.cluster").
    fn arrive_cluster(&mut self, warp: &mut Warp, now: Now) -> Result<Outcome, SimError> {
        if warp.cluster_arrived & now.mask != 0 {
            let message = "it has arrived before, and not waited since".to_owned();
            self.blame(Self::blamed(warp), now.line, Diagnosis::ClusterBarrier, message)?;
        }
        warp.cluster_arrived |= now.mask;
        let who = self.at(warp, now.line, now.mask);
        let cluster = &mut self.clusters[self.ctas[warp.cta].cluster];
        warp.cluster_round = cluster.barrier.round;
        self.observer.cluster_arrived(who, cluster.barrier.round);
        cluster.barrier.arrived += now.mask.count_ones();
        cluster.settle();
        self.progress += 1;
        Ok(Outcome::Next)
    }

    fn wait_cluster(&mut self, warp: &mut Warp, now: Now) -> Result<Outcome, SimError> {
        if now.mask & !warp.cluster_arrived != 0 {
            let message = "it has not arrived before".to_owned();
            self.blame(Self::blamed(warp), now.line, Diagnosis::ClusterBarrier, message)?;
        }
        let who = self.at(warp, now.line, now.mask);
        let cluster = &self.clusters[self.ctas[warp.cta].cluster];
        if cluster.barrier.round > warp.cluster_round {
            self.observer.cluster_waited(who, warp.cluster_round);
            warp.cluster_arrived &= !now.mask;
            return Ok(Outcome::Next);
        }
        Ok(Outcome::Retry(Wait::Cluster { round: warp.cluster_round }))
    }

    /// Makes or unmakes a barrier.
    fn init(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u32,
        count: Option<u32>,
    ) -> Result<(), SimError> {
        let cta = &mut self.ctas[warp.cta];
        let fault = match count {
            _ if !address.is_multiple_of(BARRIER as u32) => Err(Fault::Misaligned),
            Some(count) => {
                let count = count.clamp(1, MOST_ARRIVALS);
                cta.shared.write(address, &[0; BARRIER]).map(|()| {
                    cta.mbarriers.insert(address, Mbarrier::new(count));
                })
            }
            None => {
                cta.mbarriers.remove(&address);
                cta.shared.forget(address, BARRIER)
            }
        };
        self.progress += 1;
        if fault.is_ok() {
            let (who, cta) = (self.at(warp, now.line, now.mask), self.ctas[warp.cta].number);
            self.observer.made(who, cta, address, count.is_some());
            if let Some((early, line)) = self.absent.remove(&(warp.cta, address)) {
                let message = format!("barrier {address:#x}, which line {} makes later", now.line);
                self.blame((warp.cta, early), line, Diagnosis::WaitBeforeInit, message)?;
            }
        }
        match fault {
            Ok(()) => Ok(()),
            Err(fault) => self.blame_shared(Self::blamed(warp), now.line, fault, address),
        }
    }

    /// There is no barrier at an address.
    pub(crate) fn blame_missing(
        &mut self,
        blamed: (usize, Option<u32>),
        line: u32,
        address: u32,
    ) -> Result<(), SimError> {
        self.absent.entry((blamed.0, address)).or_insert((blamed.1, line));
        let region = self.region(address).map_or_else(String::new, |name| format!(" (`{name}`)"));
        let message = format!("shared address {address:#x}{region}");
        self.blame(blamed, line, Diagnosis::NoBarrier, message)
    }

    fn arrive(
        &mut self,
        warp: &Warp,
        now: Now,
        barrier: &Address,
        bytes: Option<&Lanes>,
        count: &Lanes,
    ) -> Result<Outcome, SimError> {
        let at = self.address(warp, barrier, now.line)?;
        let who = self.at(warp, now.line, now.mask);
        for lane in lanes(now.mask) {
            let place = self.window(warp.cta, at[lane] as u32);
            let found = place.and_then(|(cta, address)| {
                let number = self.ctas[cta].number;
                let barrier = self.ctas[cta].mbarriers.get_mut(&address)?;
                Some((number, address, barrier))
            });
            let Some((number, address, barrier)) = found else {
                self.blame_missing(Self::blamed(warp), now.line, at[lane] as u32)?;
                continue;
            };
            self.observer.arrived(who, number, address, barrier.phase);
            barrier.expect(bytes.map_or(0, |bytes| bytes[lane] as u32));
            if barrier.arrive(count[lane] as u32).is_err() {
                let phase = barrier.phase;
                let message = format!("barrier {address:#x} of CTA {number}, phase {phase}");
                let diagnosis = match bytes {
                    Some(_) => Diagnosis::TwoProducers,
                    None => Diagnosis::ArrivalOverflow,
                };
                self.blame(Self::blamed(warp), now.line, diagnosis, message)?;
            }
            self.progress += 1;
        }
        Ok(Outcome::Next)
    }

    /// With patience a split waits until all of its lanes' phases are complete, or until nothing else can go on.
    fn wait(
        &mut self,
        warp: &mut Warp,
        now: Now,
        d: Register,
        barrier: &Address,
        parity: &Lanes,
        patient: bool,
    ) -> Result<Outcome, SimError> {
        let at = self.address(warp, barrier, now.line)?;
        let who = self.at(warp, now.line, now.mask);
        let mut answers = [0; 32];
        let mut open = Vec::new();
        for lane in lanes(now.mask) {
            let address = at[lane] as u32;
            let cta = &self.ctas[warp.cta];
            let Some(barrier) = cta.mbarriers.get(&address) else {
                self.blame_missing(Self::blamed(warp), now.line, address)?;
                answers[lane] = 1;
                continue;
            };
            let passed = barrier.passed(parity[lane]);
            answers[lane] = passed.into();
            if passed {
                self.observer.waited(who, cta.number, address, barrier.phase.wrapping_sub(1));
            } else if !open.contains(&(address, parity[lane] & 1)) {
                open.push((address, parity[lane] & 1));
            }
        }
        let split = &mut warp.splits[now.split];
        let given_up = std::mem::take(&mut split.impatient);
        if patient && !open.is_empty() && !given_up && !self.clock.gives_up() {
            return Ok(Outcome::Retry(Wait::Phases(open)));
        }
        self.set(warp, d, now.mask, answers);
        Ok(if open.is_empty() { Outcome::Next } else { Outcome::Poll })
    }
}
