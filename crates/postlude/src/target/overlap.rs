//! Launches that begin before the one before them on the stream has ended (programmatic dependent launch).
//!
//! Every launch of a program but the first is queued so that its CTAs may start while the last CTAs of the launch before
//! still run: their prologue, which initialises barriers and fetches tensor maps, is hidden. The rule that keeps this
//! correct: in code that is emitted for it, every thread executes `griddepcontrol.wait` before its first access to global
//! memory, a load, a store or a copy of the tensor unit. That instruction waits until the launch before has ended and its
//! writes are visible. That launch has waited for its own predecessor in the same way, so by then all earlier launches of
//! the program have ended: what they stored can be read, and what they read can be overwritten. Only then does a thread
//! execute `griddepcontrol.launch_dependents`, so at most two launches are on the GPU at a time.
//!
//! Zeroing of scratch memory lies between launches on the stream like any copy; a launch behind it starts when it is done.

/// Which launches of a kernel overlap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Overlap {
    /// None: each begins when the one before has ended.
    #[default]
    Never,
    /// Those of a kernel that is several launches.
    InPrograms,
    /// This one, which is one of several.
    Always,
}

impl Overlap {
    /// That of programs where it is wanted.
    pub const fn of_programs(wanted: bool) -> Overlap {
        if wanted { Overlap::InPrograms } else { Overlap::Never }
    }

    /// That of a launch before which others compute inputs, or of a single one.
    pub(crate) const fn of_launch(self, is_several: bool) -> bool {
        match self {
            Overlap::Never => false,
            Overlap::InPrograms => is_several,
            Overlap::Always => true,
        }
    }

    /// That of the launches that compute inputs of a kernel.
    pub(crate) const fn of_earlier(self) -> Overlap {
        match self {
            Overlap::Never => Overlap::Never,
            Overlap::InPrograms | Overlap::Always => Overlap::Always,
        }
    }
}
