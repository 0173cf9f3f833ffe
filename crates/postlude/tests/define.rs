//! The defining step, against exact values: every function by its textbook formula, in as many digits as it takes.

#[path = "define/accuracy.rs"]
mod accuracy;
#[path = "define/activations.rs"]
mod activations;
#[path = "define/derivatives.rs"]
mod derivatives;
#[path = "define/enclosures.rs"]
mod enclosures;
#[path = "define/engines.rs"]
mod engines;
#[path = "define/forms.rs"]
mod forms;
#[path = "define/naive_forms.rs"]
mod naive_forms;
#[path = "define/never_worse.rs"]
mod never_worse;
#[path = "define/practitioners.rs"]
mod practitioners;
#[path = "define/real.rs"]
mod real;
#[path = "define/special_values.rs"]
mod special_values;
#[path = "define/stable_forms.rs"]
mod stable_forms;
#[path = "define/textbook.rs"]
mod textbook;
#[path = "define/uncertain.rs"]
mod uncertain;
#[path = "define/variants.rs"]
mod variants;
