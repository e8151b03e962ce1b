//! What the entries of all lists have in common: names for people, pictures, `_meta`.

use serde_json::{Map, Value};
use switchboard_proto::method::meta;

use super::catalog::Flaw;

/// The methods that describe a draft, which keeps them in `members`.
macro_rules! describe {
    ($draft:ident $(<$arguments:ident>)?) => {
        impl $(<$arguments>)? $draft $(<$arguments>)? {
            /// What it is for: models read this.
            #[must_use]
            pub fn description(self, text: impl Into<String>) -> Self {
                self.member("description", text.into())
            }

            /// A name for people.
            #[must_use]
            pub fn title(self, text: impl Into<String>) -> Self {
                self.member("title", text.into())
            }

            /// Pictures for people: a list of `{src, mimeType?, sizes?}`.
            #[must_use]
            pub fn icons(self, icons: ::serde_json::Value) -> Self {
                self.member("icons", icons)
            }

            /// Any other member of its entry in the list.
            #[must_use]
            pub fn member(mut self, name: &str, value: impl Into<::serde_json::Value>) -> Self {
                self.members.insert(name.to_owned(), value.into());
                self
            }

            /// A member of `_meta`. Keys have a fixed shape, `prefix/name` or `name` (MSG-6).
            #[must_use]
            pub fn meta(mut self, key: &str, value: impl Into<::serde_json::Value>) -> Self {
                let meta = self.members.entry("_meta").or_insert_with(|| ::serde_json::json!({}));
                meta[key] = value.into();
                self
            }
        }
    };
}

pub(super) use describe;

/// A key of `_meta` that nobody may use.
pub(super) fn flaw(members: &Map<String, Value>) -> Option<Flaw> {
    let keys = members.get("_meta")?.as_object()?.keys();
    let wrong = keys.into_iter().find(|key| !meta::is_key(key))?;
    Some(Flaw::Meta { key: wrong.clone() })
}
