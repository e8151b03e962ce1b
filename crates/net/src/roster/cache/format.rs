//! The text of an entry: a line with a version and a digest, then JSON.
//!
//! ```text
//!   switchboard-definitions 1 <SHA-256 of what follows, in hex>
//!   {"tools":[...],"prompts":[...],"resources":[...],"resourceTemplates":[...]}
//! ```
//!
//! Definitions stand in it as they came, byte for byte. What has another
//! version or does not fit its digest is none of ours.

use bytes::Bytes;
use ring::digest::{SHA256, digest};

use crate::client::elements;
use crate::roster::definition::{Definitions, Kind};

/// What an entry begins with, up to its digest. The number is that of the format.
const MARK: &str = "switchboard-definitions 1 ";

pub(super) fn print(definitions: &Definitions) -> Vec<u8> {
    let mut body = vec![b'{'];
    for kind in Kind::ALL {
        if kind != Kind::ALL[0] {
            body.push(b',');
        }
        body.extend_from_slice(format!("\"{}\":[", kind.member().key()).as_bytes());
        body.extend_from_slice(&definitions.list(kind).join(&b','));
        body.push(b']');
    }
    body.push(b'}');
    let mut text = format!("{MARK}{}\n", hex(digest(&SHA256, &body).as_ref())).into_bytes();
    text.append(&mut body);
    text
}

pub(super) fn parse(text: &Bytes) -> Option<Definitions> {
    let end = text.iter().position(|&byte| byte == b'\n')?;
    let (head, body) = (&text[..end], text.slice(end + 1..));
    let said = head.strip_prefix(MARK.as_bytes())?;
    if said != hex(digest(&SHA256, &body).as_ref()).as_bytes() {
        return None;
    }
    let mut definitions = Definitions::default();
    for kind in Kind::ALL {
        definitions.set(kind, elements(&body, kind.member().key())?);
    }
    Some(definitions)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}
