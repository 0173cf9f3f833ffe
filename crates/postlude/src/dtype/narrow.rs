//! Small float formats.
