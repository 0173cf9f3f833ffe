//! Halves of bytes: elements of four bits, the even one of a pair in the lower half.

/// The bits of element `index`.
pub(super) fn read(bytes: &[u8], index: usize) -> u8 {
    bytes[index / 2] >> (index % 2 * 4) & 15
}

/// Replaces element `index` by the lower four bits of a value.
pub(super) fn write(bytes: &mut [u8], index: usize, value: i32) {
    let (byte, shift) = (&mut bytes[index / 2], index % 2 * 4);
    *byte = *byte & !(15 << shift) | (value as u8 & 15) << shift;
}

/// Four bits as a signed number.
pub(super) const fn signed(bits: u8) -> i32 {
    ((bits << 4) as i8 >> 4) as i32
}

/// The nearest value of `i4`.
pub(super) fn clamp_signed(value: i32) -> i32 {
    value.clamp(-8, 7)
}

/// The nearest value of `u4`.
pub(super) fn clamp_unsigned(value: i32) -> i32 {
    value.clamp(0, 15)
}
