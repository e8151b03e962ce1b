//! Secrets, and lines without them.
//!
//! Servers and peers say what they like, and it is logged: what we know to be a
//! secret becomes its name, as in `${TOKEN}`.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use switchboard_gateway::plan::Secret;

static SECRETS: RwLock<Option<Arc<[Secret]>>> = RwLock::new(None);

/// Leaves these out of all lines from here on. The longest should come first.
pub(crate) fn hide(secrets: Vec<Secret>) {
    let secrets = (!secrets.is_empty()).then(|| secrets.into());
    *SECRETS.write().unwrap_or_else(PoisonError::into_inner) = secrets;
}

/// What is to be left out at present.
pub(super) fn hidden() -> Option<Arc<[Secret]>> {
    SECRETS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// `text` without the secrets.
pub(super) fn veiled<'t>(text: &'t str, secrets: &[Secret]) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    for Secret { name, value } in secrets {
        if text.contains(&**value) {
            text = Cow::Owned(text.replace(&**value, &format!("${{{name}}}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_becomes_its_name_wherever_it_stands() {
        let secret = |name: &str, value: &str| Secret { name: name.into(), value: value.into() };
        let secrets = [secret("LONG", "s3cret-s3cret"), secret("SHORT", "s3cret")];
        assert_eq!(veiled("as3cret s3cret-s3cret.", &secrets), "a${SHORT} ${LONG}.");
        assert!(matches!(veiled("plain", &secrets), Cow::Borrowed("plain")));
    }
}
