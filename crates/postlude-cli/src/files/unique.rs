//! A JSON object whose names differ.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What a file says about itself, in the place of a tensor.
const METADATA: &str = "__metadata__";

/// The members by name, without the metadata; a name that comes twice is an error.
pub(super) struct Unique<T>(pub(super) BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Unique<T>;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object with a member for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique<T>, A::Error> {
        let mut all = BTreeMap::new();
        while let Some(name) = members.next_key::<String>()? {
            if name == METADATA {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = members.next_value()?;
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("two tensors are named `{name}`")));
            }
            all.insert(name, value);
        }
        Ok(Unique(all))
    }
}
