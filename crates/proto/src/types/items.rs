//! Lists whose items are read one by one.

use std::ops::Deref;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The items of a list. One that does not fit its type is kept as it came, so that it does not
/// hide the others; [`unfit`](Self::unfit) has those.
///
/// ```
/// use serde_json::json;
/// use switchboard_proto::types::{self, ListToolsResult};
///
/// let good = json!({"name": "add", "inputSchema": {}});
/// let page = json!({"tools": [good, {"name": "no schema"}]});
/// let list: ListToolsResult = types::read(&page)?;
/// assert_eq!(list.tools.len(), 1);
/// assert_eq!(list.tools[0].name, "add");
/// assert_eq!(list.tools.unfit().next().unwrap()["name"], "no schema");
/// assert_eq!(json!(list), page);
/// # Ok::<_, types::Unfit>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Items<T> {
    fit: Vec<T>,
    /// With their places among all.
    unfit: Vec<(usize, Value)>,
}

impl<T> Items<T> {
    /// Those that do not fit, in their order.
    pub fn unfit(&self) -> impl Iterator<Item = &Value> {
        self.unfit.iter().map(|(_, item)| item)
    }

    /// Those that fit.
    pub fn into_vec(self) -> Vec<T> {
        self.fit
    }
}

impl<T: DeserializeOwned> Items<T> {
    /// Reads each item.
    pub fn read(items: impl IntoIterator<Item = Value>) -> Self {
        let mut read = Self::default();
        for (place, item) in items.into_iter().enumerate() {
            match T::deserialize(&item) {
                Ok(item) => read.fit.push(item),
                Err(_) => read.unfit.push((place, item)),
            }
        }
        read
    }
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

/// Those that fit.
impl<T> Deref for Items<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.fit
    }
}

impl<T> From<Vec<T>> for Items<T> {
    fn from(fit: Vec<T>) -> Self {
        Self { fit, unfit: Vec::new() }
    }
}

impl<T, const N: usize> From<[T; N]> for Items<T> {
    fn from(items: [T; N]) -> Self {
        Vec::from(items).into()
    }
}

impl<T> FromIterator<T> for Items<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<T> IntoIterator for Items<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.fit.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Items<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.fit.iter()
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::<Value>::deserialize(from).map(Self::read)
    }
}

impl<T: Serialize> Serialize for Items<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Item<'i, T> {
            Fit(&'i T),
            Unfit(&'i Value),
        }
        let mut all: Vec<_> = self.fit.iter().map(Item::Fit).collect();
        // In the order of their places, so that each finds those before it where they were.
        for (place, item) in &self.unfit {
            all.insert((*place).min(all.len()), Item::Unfit(item));
        }
        to.collect_seq(all)
    }
}
