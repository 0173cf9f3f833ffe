//! What a launch takes beside the stages of its tiles.

/// Cycles around the stages of a tile.
pub(super) struct Around {
    /// Until the CTAs of a cluster have synchronised at the start of a launch: of two, and of more.
    pub(super) pair: f64,
    pub(super) large_cluster: f64,
    /// Between the last product of a tile and its last byte: in all, for each slot, and for each of its columns.
    pub(super) finish: f64,
    pub(super) finish_slot: f64,
    pub(super) finish_column: f64,
    /// How much longer that takes while another warpgroup multiplies.
    pub(super) beside_products: f64,
    /// Of the two cluster barriers of a split K, and for each element of a partial sum.
    pub(super) split_k: f64,
    pub(super) split_k_element: f64,
    /// From the last partial sum of a slice of K to the CTA that adds them, and for each element that is written and that is
    /// read again.
    pub(super) slices_meet: f64,
    pub(super) slice_written: f64,
    pub(super) slice_read: f64,
}
