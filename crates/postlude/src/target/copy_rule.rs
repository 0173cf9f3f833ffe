//! When operands are copied.

/// When launches before a product store its operands once more, as the product reads them fastest.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CopyRule {
    /// Where the product gains more than a launch costs.
    #[default]
    Paying,
    /// Wherever a product gains at all.
    Always,
    /// Nowhere.
    Never,
}
