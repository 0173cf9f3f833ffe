//! Control flow as closures, and predication.

use crate::address::Label;
use crate::entry::{Condition, Item};
use crate::inst::Inst;
use crate::target::Architecture;
use crate::types::{Pred, U32};

use super::{Code, Kernel, Reg, Src, Var};

/// A predicate, or its opposite.
#[derive(Clone, Copy)]
pub struct Guard<'k> {
    predicate: Reg<'k, Pred>,
    negated: bool,
}

impl<'k> From<Reg<'k, Pred>> for Guard<'k> {
    fn from(predicate: Reg<'k, Pred>) -> Self {
        Guard { predicate, negated: false }
    }
}

impl<'k> From<Var<'k, Pred>> for Guard<'k> {
    fn from(variable: Var<'k, Pred>) -> Self {
        variable.get().into()
    }
}

impl<'k> std::ops::Not for Reg<'k, Pred> {
    type Output = Guard<'k>;
    fn not(self) -> Guard<'k> {
        Guard { predicate: self, negated: true }
    }
}

impl std::ops::Not for Guard<'_> {
    type Output = Self;
    fn not(self) -> Self {
        Guard { negated: !self.negated, ..self }
    }
}

impl Guard<'_> {
    fn condition(self) -> Condition {
        Condition { negated: self.negated, predicate: self.predicate.register() }
    }
}

/// A loop that is being built: ways out of it.
#[derive(Clone, Copy)]
pub struct Loop<'k> {
    code: &'k Code,
    head: Label,
    end: Label,
}

impl<'k> Loop<'k> {
    /// Leaves the loop where the guard holds.
    pub fn break_if(self, guard: impl Into<Guard<'k>>) {
        branch(self.code, Some(guard.into()), self.end);
    }

    /// Starts the next round where the guard holds.
    pub fn continue_if(self, guard: impl Into<Guard<'k>>) {
        branch(self.code, Some(guard.into()), self.head);
    }
}

fn branch(code: &Code, guard: Option<Guard<'_>>, to: Label) {
    assert!(code.condition.get().is_none(), "compiler bug: control flow under a condition");
    let condition = guard.map(Guard::condition);
    code.items.borrow_mut().push(Item::Inst { condition, inst: Inst::Branch { to } });
}

impl<'k, A: Architecture> Kernel<'k, A> {
    /// Puts the guard in front of every instruction of `body`, which must not branch.
    pub fn when<R>(self, guard: impl Into<Guard<'k>>, body: impl FnOnce() -> R) -> R {
        let before = self.code.condition.replace(Some(guard.into().condition()));
        assert!(before.is_none(), "compiler bug: a condition under a condition");
        let result = body();
        self.code.condition.set(None);
        result
    }

    /// Runs `then` where the guard holds.
    pub fn if_(self, guard: impl Into<Guard<'k>>, then: impl FnOnce()) {
        let end = self.code.label();
        branch(self.code, Some(!guard.into()), end);
        then();
        self.code.mark(end);
    }

    /// Runs `then` where the guard holds, and `otherwise` elsewhere.
    pub fn if_else(
        self,
        guard: impl Into<Guard<'k>>,
        then: impl FnOnce(),
        otherwise: impl FnOnce(),
    ) {
        let (no, end) = (self.code.label(), self.code.label());
        branch(self.code, Some(!guard.into()), no);
        then();
        branch(self.code, None, end);
        self.code.mark(no);
        otherwise();
        self.code.mark(end);
    }

    /// Repeats `body` until it leaves.
    pub fn loop_(self, body: impl FnOnce(Loop<'k>)) {
        let (head, end) = (self.code.label(), self.code.label());
        self.code.mark(head);
        body(Loop { code: self.code, head, end });
        branch(self.code, None, head);
        self.code.mark(end);
    }

    /// Repeats `body` while the guard that `test` computes before each round holds.
    pub fn while_<G: Into<Guard<'k>>>(self, test: impl FnOnce() -> G, body: impl FnOnce()) {
        self.loop_(|around| {
            around.break_if(!test().into());
            body();
        });
    }

    /// Runs `body` at least once, and again while the guard it returns holds.
    pub fn do_while<G: Into<Guard<'k>>>(self, body: impl FnOnce() -> G) {
        let head = self.code.label();
        self.code.mark(head);
        let again = body().into();
        branch(self.code, Some(again), head);
    }

    /// `for i in (from..to).step_by(step)`, without a sign; `to` is read before every round.
    pub fn for_(
        self,
        from: impl Into<Src<'k, U32>>,
        to: impl Into<Src<'k, U32>>,
        step: impl Into<Src<'k, U32>>,
        body: impl FnOnce(Reg<'k, U32>),
    ) {
        let (to, step) = (to.into(), step.into());
        let counter = self.var(from);
        self.while_(
            || counter.get().lt(to),
            || {
                body(counter.get());
                counter.set(counter.get() + step);
            },
        );
    }

    /// The same as a loop in the code that runs, too: few instructions, whatever the assembler thinks of unrolling.
    pub fn for_rolled(
        self,
        to: impl Into<Src<'k, U32>>,
        step: impl Into<Src<'k, U32>>,
        body: impl FnOnce(Reg<'k, U32>),
    ) {
        let (to, step) = (to.into(), step.into());
        let counter = self.var(0);
        let head = self.code.label();
        self.code.mark(head);
        self.code.items.borrow_mut().push(Item::NoUnroll);
        body(counter.get());
        counter.set(counter.get() + step);
        branch(self.code, Some(counter.get().lt(to).into()), head);
    }

    /// Repeats `attempt` until it succeeds.
    pub fn spin(self, attempt: impl FnOnce() -> Reg<'k, Pred>) {
        self.do_while(|| !attempt());
    }

    /// Ends this thread.
    pub fn exit(self) {
        self.code.push(Inst::Exit {});
    }

    /// Ends the kernel for this thread.
    pub fn ret(self) {
        self.code.push(Inst::Ret {});
    }

    /// Stops the kernel with an error.
    pub fn trap(self) {
        self.code.push(Inst::Trap {});
    }

    /// Sleeps about this many nanoseconds.
    pub fn sleep(self, nanoseconds: impl Into<Src<'k, U32>>) {
        self.code.push(Inst::Sleep { nanoseconds: nanoseconds.into().use_() });
    }
}
