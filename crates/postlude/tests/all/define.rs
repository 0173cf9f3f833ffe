//! The defining step, against exact values: every function by its textbook formula, in as many digits as it takes.

mod accuracy;
mod activations;
mod derivatives;
mod enclosures;
mod engines;
mod forms;
mod naive_forms;
mod nests;
mod never_worse;
mod plain;
mod practitioners;
mod real;
mod special_values;
mod stable_forms;
mod textbook;
mod uncertain;
mod variants;
