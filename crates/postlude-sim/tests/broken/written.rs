//! Small kernels written by hand with one thing wrong.
