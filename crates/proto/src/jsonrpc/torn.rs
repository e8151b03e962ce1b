//! Text that is no message, and what can still be told of it.
//!
//! A server that writes half a line and stops may go on later: its next message
//! is then behind the half. The half is lost, what is behind it need not be.
//!
//! A text that answers a call and cannot be read should fail that call at once.
//! So its outermost members are looked at with no regard to what else is wrong:
//! bytes that are no UTF-8, too deep nesting, members that occur twice, a lost end.

use bytes::Bytes;
use memchr::memmem;

use super::{Id, Message, parse_one};

/// How almost everybody begins a message.
const BEGINNING: &[u8] = b"{\"jsonrpc\"";

/// What some programs write before any text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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

/// Which call an unreadable text answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answered {
    /// The call with this id.
    Call(Id),
    /// Some call: the id is missing, cut off, or there are two.
    Unknown,
    /// None, as far as can be told.
    Nothing,
}

/// Looks for the call that an unreadable text, or the beginning of one, answers.
///
/// An answer has a result or an error and no method. An object without `jsonrpc`
/// may be a line of a log, and one without an id is what some servers say to a
/// notification: they answer nothing, unless the rest of the text `is_cut` off and
/// may have that member.
pub fn answered(text: &[u8], is_cut: bool) -> Answered {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut scan = Scan { rest: text.trim_ascii_start() };
    let (mut is_rpc, mut has_payload) = (false, false);
    let (mut id, mut differs, mut is_named) = (None, false, false);
    if !scan.pass(b'{') {
        return Answered::Nothing;
    }
    while let Some((name, value)) = scan.member() {
        match name {
            b"jsonrpc" => is_rpc = true,
            b"method" => return Answered::Nothing,
            b"result" => has_payload = true,
            b"error" => (has_payload, is_named) = (true, true),
            b"id" => {
                is_named |= value != Some(b"null");
                let this = value.and_then(|id| Id::parse(id).ok().flatten());
                differs |= id.get_or_insert_with(|| this.clone()) != &this;
            }
            _ => {}
        }
    }
    let is_whole = scan.pass(b'}');
    let is_log = !is_rpc && (is_whole || !is_cut);
    // With an id and nothing else it can only be an answer whose rest was forgotten.
    let is_empty_answer = is_whole && id.as_ref().is_some_and(Option::is_some);
    if !(has_payload || is_empty_answer) || is_log || is_whole && !is_named {
        return Answered::Nothing;
    }
    id.flatten().filter(|_| !differs).map_or(Answered::Unknown, Answered::Call)
}

/// Walks the members of an object, as far as they go.
struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    /// The next member's name, and its value if that is whole.
    fn member(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        self.pass(b',');
        if !self.rest.starts_with(b"\"") {
            return None;
        }
        let name = self.string()?;
        if !self.pass(b':') {
            return None;
        }
        Some((&name[1..name.len() - 1], self.value()))
    }

    /// Passes `byte` and the white space around it, if it is next.
    fn pass(&mut self, byte: u8) -> bool {
        self.rest = self.rest.trim_ascii_start();
        let is_next = self.rest.first() == Some(&byte);
        if is_next {
            self.rest = self.rest[1..].trim_ascii_start();
        }
        is_next
    }

    /// A string with its quotes. What is not whole is passed all the same.
    fn string(&mut self) -> Option<&'a [u8]> {
        let mut from = 1;
        while let Some(found) = memchr::memchr2(b'"', b'\\', self.rest.get(from..)?) {
            let place = from + found;
            if self.rest[place] == b'"' {
                let (taken, rest) = self.rest.split_at(place + 1);
                self.rest = rest;
                return Some(taken);
            }
            from = place + 2;
        }
        self.rest = &[];
        None
    }

    /// A value, up to the comma or brace behind it; none if its end is missing.
    fn value(&mut self) -> Option<&'a [u8]> {
        let whole = self.rest;
        let mut depth = 0_usize;
        while let Some(&byte) = self.rest.first() {
            match byte {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b',' | b'}' | b']' if depth == 0 => {
                    return Some(whole[..whole.len() - self.rest.len()].trim_ascii_end());
                }
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.rest = &self.rest[1..];
        }
        None
    }
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

    #[test]
    fn only_the_envelope_of_an_answer_says_whose_it_is() {
        let id = |text: &str| match answered(text.as_bytes(), true) {
            Answered::Call(id) => id.to_string(),
            Answered::Unknown => "?".to_owned(),
            Answered::Nothing => "-".to_owned(),
        };
        assert_eq!(id(r#"{"jsonrpc": "2.0", "id": 7, "result": {"id": 9"#), "7", "cut off");
        assert_eq!(id(r#"{"result":{"id":9,"content":"#), "?");
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7}"#), "7", "the rest was forgotten");
        assert_eq!(
            id("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}"),
            "7",
            "a mark before it"
        );
        assert_eq!(id(r#"{"jsonrpc":"2.0","result":{"id":9,"a":"}"},"id":7}"#), "7");
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"id":7,"result":{}}"#), "7");
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#), "?", "which is it?");
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"id":7,"id":8,"error":{}}"#), "?");
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":"a\"}","error":{}}"#), r#""a\"}""#);
        assert_eq!(id(r#"{"jsonrpc":"2.0","error":{},"id":7"#), "?", "the id may go on");
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#), "?");
        let deep = format!(r#"{{"jsonrpc":"2.0","result":{},"id":7}}"#, "[".repeat(9999));
        assert_eq!(id(&deep), "?", "never closed");
        let deep = deep.replace(",\"id\"", &format!("{},\"id\"", "]".repeat(9999)));
        assert_eq!(id(&deep), "7");
        assert_eq!(answered(b"{\"jsonrpc\":\"2.0\",\"result\":\"\xff\",\"id\":7}", false), {
            Answered::Call(Id::from(7))
        });
    }

    #[test]
    fn what_is_no_answer_says_nothing_of_calls() {
        for text in [
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"m","params":{"result":1"#,
            r#"{"jsonrpc":"2.0","params":{"result":1},"id":7,"method":"m"}"#,
            r#"{"level":"error","id":7,"error":"disk full"}"#,
            r#"{"jsonrpc":"2.0","id":7,"x":"#,
            r#"{"jsonrpc""#,
            r#"["result"]"#,
            "xxxxxxxxxxxx",
            r#"{"\"#,
            "{",
            "",
        ] {
            assert_eq!(answered(text.as_bytes(), true), Answered::Nothing, "{text}");
        }
        let log = br#"{"error": "log of something"#;
        assert_eq!(answered(log, false), Answered::Nothing);
        assert_eq!(answered(log, true), Answered::Unknown, "more may have come");
    }
}
