//! Lines that hold more than one message, because an end of line is missing.
//!
//! A server that writes half a line and stops may go on later: its next message
//! is then behind the half. The half is lost, what is behind it need not be.

use bytes::Bytes;
use memchr::memmem;

use super::{Message, parse_one};

/// How almost everybody begins a message.
const BEGINNING: &[u8] = b"{\"jsonrpc\"";

/// A line is read so many times at most.
const MOST_TRIES: usize = 8;

/// The messages in a line that is no message: what is whole up to its end, and
/// what is whole before that. A line must begin as a message does; a log that
/// quotes messages is no conversation.
pub fn parse_torn(line: &Bytes) -> Vec<Message> {
    if !line.trim_ascii_start().starts_with(b"{") {
        return Vec::new();
    }
    let places = memmem::find_iter(line, BEGINNING).filter(|&place| place > 0).take(MOST_TRIES);
    let whole = |place| Some((place, parse_one(line.slice(place..)).ok()?));
    let Some((place, last)) = places.into_iter().find_map(whole) else { return Vec::new() };
    parse_one(line.slice(..place)).ok().into_iter().chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_found_behind_what_is_not() {
        let found = |line: &str| -> Vec<_> {
            let messages = parse_torn(&Bytes::copy_from_slice(line.as_bytes()));
            messages.iter().map(|m| m.id().map(ToString::to_string).unwrap_or_default()).collect()
        };
        let whole = r#"{"jsonrpc": "2.0", "id": 8, "result": {"a": {"jsonrpc": "1.0"}}}"#;
        assert_eq!(found(&format!(r#"{{"jsonrpc": "2.0", "id": {whole}"#)), ["8"]);
        assert_eq!(found(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":["b{whole}"#)), ["8"]);
        assert_eq!(found(&format!("{whole}{whole}")), ["8", "8"], "an end of line was forgotten");
        assert_eq!(found(whole), [""; 0], "nothing is torn");
        assert_eq!(found(&format!("received {whole}")), [""; 0], "a log");
        assert_eq!(found(&format!(r#"{{"seen": {whole}, "#)), [""; 0], "not up to the end");
        assert_eq!(found("{"), [""; 0]);
        assert_eq!(found(&r#"{"jsonrpc""#.repeat(1000)), [""; 0]);
    }
}
