//! Arithmetic as the hardware does it, to the bit where it is known.
