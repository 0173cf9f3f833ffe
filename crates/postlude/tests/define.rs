//! The defining step, against exact values: every function by its textbook formula, in as many digits as it takes.

#[path = "define/accuracy.rs"]
mod accuracy;
#[path = "define/engines.rs"]
mod engines;
#[path = "define/real.rs"]
mod real;
#[path = "define/stable_forms.rs"]
mod stable_forms;
#[path = "define/textbook.rs"]
mod textbook;
