//! Each test gives a stream and the events that must come out. The stream is
//! also fed byte by byte, so every test is a test of cutting too.

use super::*;

// wire: SSE-1
#[test]
fn lines_end_with_lf_cr_or_crlf() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = "event: a\ndata: 1\n\ndata: 2\n\n".replace('\n', end);
        check(&stream, &["a 1", "message 2"]);
    }
    check("data: 1\r\n\rdata: 2\n\r\ndata: 3\r\r", &["message 1", "message 2", "message 3"]);
}

// wire: SSE-1
#[test]
fn byte_order_mark_counts_at_the_start_only() {
    check("\u{feff}data: 1\n\n\u{feff}data: 2\n\ndata: 3\n\n", &["message 1", "message 3"]);
    check("\u{feff}\u{feff}data: 1\n\ndata: 2\n\n", &["message 2"]);
    check("\u{fefe}data: 1\n\ndata: 2\n\n", &["message 2"]);
}

// wire: SSE-1
#[test]
fn data_lines_are_joined_by_lf() {
    check("data: YHOO\ndata: +2\ndata: 10\n\n", &["message YHOO|+2|10"]);
    check("data\ndata\n\n", &["message |"]);
    check("data: a\ndata:\ndata: b\n\n", &["message a||b"]);
}

#[test]
fn one_leading_space_is_no_part_of_the_value() {
    check(
        "data:test\n\ndata: test\n\ndata:  test\n\ndata:\ttest\n\n",
        &["message test", "message test", "message  test", "message \ttest"],
    );
    check("data:a:b: c\n\n", &["message a:b: c"]);
}

#[test]
fn unknown_fields_mean_nothing() {
    check("Data: a\ndatas: b\n data: c\nfoo\ndata : d\nexample: e\ndata: 1\n\n", &["message 1"]);
}

// wire: SSE-1
#[test]
fn comments_mean_nothing() {
    check(": test stream\n\n:\n\n:\ndata: 1\n: in between\n\n", &["message 1"]);
    check(": ping\n\n: ping\n\ndata: 1\n\n", &["message 1"]);
}

// wire: SSE-1
#[test]
fn names_other_than_message_are_told() {
    check(
        "event: message\ndata: 1\n\nevent: endpoint\ndata: /m?s=1\n\nevent:\ndata: 2\n\n",
        &["message 1", "endpoint /m?s=1", "message 2"],
    );
    check("event: a\nevent: b\ndata: 1\n\n", &["b 1"]);
    check("event: lost\n\ndata: 1\n\n", &["message 1"]);
}

// wire: SSE-1
#[test]
fn id_stays_until_another_comes() {
    check(
        "data: 1\nid: 7\n\ndata: 2\n\nid: 8\ndata: 3\n\nid\ndata: 4\n\n",
        &["message 1 id=7", "message 2 id=7", "message 3 id=8", "message 4"],
    );
    check("id: 7\ndata: 1\n\nid: a\0b\ndata: 2\n\n", &["message 1 id=7", "message 2 id=7"]);
}

#[test]
fn id_that_is_no_text_is_ignored() {
    let mut decoder = EventDecoder::new(LIMIT);
    decoder.push(b"id: 7\nid: \xff\ndata: \xff\n\n");
    let event = decoder.next_event().unwrap().unwrap();
    assert_eq!((event.id.as_deref(), &event.data[..]), (Some("7"), &b"\xff"[..]));
}

// wire: SSE-1, HTTP-10
#[test]
fn event_without_data_still_brings_its_id() {
    check("id: 0-0\ndata: \n\n", &["nothing id=0-0"]);
    check("id: 0-0\n\ndata: 1\n\n", &["nothing id=0-0", "message 1 id=0-0"]);
}

// wire: SSE-1, HTTP-11
#[test]
fn retry_is_digits_only() {
    check("retry: 500\n\n", &["nothing retry=500"]);
    check("retry: 007\ndata: 1\n\n", &["message 1 retry=7"]);
    for value in ["", "-1", "+1", "1.5", "1000x", " 1"] {
        check(&format!("retry: {value}\ndata: 1\n\n"), &["message 1"]);
    }
    let mut decoder = EventDecoder::new(100);
    decoder.push(b"retry: 18446744073709551615\n\nretry: 18446744073709551616\ndata: 1\n\n");
    assert_eq!(decoder.next_event().unwrap().unwrap().retry, Some(u64::MAX));
    assert_eq!(decoder.next_event().unwrap().unwrap().retry, None);
}

#[test]
fn unfinished_last_event_is_dropped() {
    check("data: 1\n\ndata: 2\n", &["message 1"]);
    check("data: 1\n\ndata: 2\nid: 3", &["message 1"]);
}

// wire: SSE-2
#[test]
fn event_of_the_greatest_length_is_let_through() {
    check("data: 0123456789abcdef\n\n", &["message 0123456789abcdef"]);
    check("data:0123456789abcdef\n\n", &["message 0123456789abcdef"]);
    check("data: 01234567\ndata: 9abcdef\n\n", &["message 01234567|9abcdef"]);
}

// wire: SSE-2
#[test]
fn longer_event_is_reported_once_and_skipped_to_its_end() {
    check("data: 0123456789abcdefg\ndata: h\n\ndata: 1\n\n", &["EventTooLong", "message 1"]);
    check("data: 01234567\ndata: 9abcdefg\n: x\n\ndata: 1\n\n", &["EventTooLong", "message 1"]);
    check(
        "data: 0123456789abcdefghijklmnopqrstuvw\r\n\r\ndata: 1\n\n",
        &["EventTooLong", "message 1"],
    );
    check("data: 0123456789abcdefghijklmnopqrstuvw", &["EventTooLong"]);
}

// wire: SSE-2
#[test]
fn the_beginning_of_a_longer_event_is_told_wherever_the_bytes_were_cut() {
    let streams = [
        ("data: 0123456789abcdefghijklmnopqrstuvw", "0123456789"),
        ("event: x\ndata: 0123456789abcdefghijklmnopqrstuvw", "012345678"),
        ("data: 01234567\ndata: 9abcdefg\n\n", "01234567\n9abcdefg"),
        ("data: 01234567\ndata: 9abcdefghijklmnopqrstuvw\n\n", "01234567"),
        ("data: 0123456789abcdefg\n\n", "0123456789abcdefg"),
        (": x\nevent: 0123456789abcdefg\n\n", ""),
    ];
    for (stream, expected) in streams {
        for cut in 0..=stream.len() {
            let mut decoder = EventDecoder::new(LIMIT);
            let mut heads = Vec::new();
            for chunk in [&stream[..cut], &stream[cut..]] {
                decoder.push(chunk.as_bytes());
                let events = std::iter::from_fn(|| decoder.next_event());
                heads.extend(events.filter_map(Result::err).map(|error| error.head));
            }
            assert_eq!(heads, [expected], "{stream:?} cut at {cut}");
        }
    }
}

// wire: SSE-2
#[test]
fn an_event_of_many_times_the_limit_is_taken_for_endless() {
    for line in ["data: 0123456789", "data: 0123456789\n"] {
        let mut decoder = EventDecoder::new(LIMIT);
        let mut pushed = 0;
        while !decoder.is_endless() {
            decoder.push(line.as_bytes());
            while decoder.next_event().is_some() {}
            pushed += line.len();
            assert!(pushed < 8 * LIMIT, "{line:?}");
        }
        assert!(pushed > 4 * LIMIT, "{line:?}");
        decoder.push(b"\n\ndata: 1\n\n");
        assert_eq!(decoder.next_event().unwrap().unwrap().data, "1");
        assert!(!decoder.is_endless(), "{line:?}");
    }
}

#[test]
fn id_of_a_skipped_event_counts_if_it_came_first() {
    check("id: 7\ndata: 0123456789abcdefg\n\ndata: 1\n\n", &["EventTooLong", "message 1 id=7"]);
    check("data: 0123456789abcdefg\nid: 7\n\ndata: 1\n\n", &["EventTooLong", "message 1"]);
}

// wire: SSE-2
#[test]
fn comments_do_not_add_up() {
    check(&format!("{}data: 1\n\n", ": 0123456789\n".repeat(10)), &["message 1"]);
}

#[test]
fn bytes_are_searched_once() {
    let mut decoder = EventDecoder::new(LIMIT);
    decoder.push(b"data: 012");
    assert_eq!((decoder.next_event(), decoder.searched), (None, 9));
    decoder.push(b"3\nda");
    assert_eq!((decoder.next_event(), decoder.searched), (None, 2));
}

// wire: SSE-2
#[test]
fn data_on_one_line_is_not_copied_again() {
    let mut decoder = EventDecoder::new(LIMIT);
    decoder.push(b"data: 0123456789\n\n");
    let input = decoder.input.as_ptr();
    let event = decoder.next_event().unwrap().unwrap();
    assert_eq!(event.data.as_ptr(), input.wrapping_add("data: ".len()));
}

#[test]
fn events_are_written_field_by_field() {
    let mut out = Vec::new();
    encode_event(&Outgoing { data: b"{}", ..Outgoing::default() }, &mut out);
    encode_event(&Outgoing { id: Some("1-0"), retry: Some(500), ..Outgoing::default() }, &mut out);
    encode_event(
        &Outgoing { name: Some("endpoint"), data: b"/m", ..Outgoing::default() },
        &mut out,
    );
    encode_comment("ping", &mut out);
    let expected =
        "data: {}\n\nid: 1-0\nretry: 500\ndata: \n\nevent: endpoint\ndata: /m\n\n: ping\n\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

// wire: SSE-1
#[test]
fn line_breaks_cannot_break_out_of_a_field() {
    let mut out = Vec::new();
    let event = Outgoing { id: Some("1\nid: 2"), data: b"a\r\nb\rc\n\nd\n", ..Outgoing::default() };
    encode_event(&event, &mut out);
    encode_comment("a\r\ndata: 1\n\n", &mut out);
    check(&String::from_utf8(out).unwrap(), &["message a|b|c||d| id=1 id: 2"]);
}

/// The corners of the grammar, each a stream and its events.
///
/// wire: SSE-1
#[test]
fn corners_of_the_format_are_read_as_browsers_read_them() {
    let cases: &[(&str, &[&str])] = &[
        // NUL is a character like others, except in an id.
        ("data:\0\n\n\n\n", &["message \0"]),
        ("id: \0\ndata: 1\n\nid: 2\0\ndata: 2\n\n", &["message 1", "message 2"]),
        // Names of fields are exact, whatever ends their lines.
        (
            "data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
            &["message \0| 2|1|3||4"],
        ),
        // An id is set, kept, and taken back; one alone counts for what comes.
        (
            "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid:\ndata: d\n\n",
            &["message a id=1", "message b id=1", "message c", "message d"],
        ),
        ("id:  x \ndata: 1\n\n", &["message 1 id= x "]),
        // The name of an event lasts for one, and an empty one is none.
        ("event: a\ndata: 1\n\ndata: 2\n\n", &["a 1", "message 2"]),
        ("event: a\nevent\ndata: 1\n\n", &["message 1"]),
        ("event: a b\ndata: 1\n\n", &["a b 1"]),
        // Time to wait: digits, in any number of leading zeros; else it is as if not said.
        ("retry:3000\ndata: 1\n\n", &["message 1 retry=3000"]),
        ("retry:3000\nretry:bogus\ndata: 1\n\n", &["message 1 retry=3000"]),
        ("retry\nretry:\nretry:0x10\nretry:1e3\nretry:\u{0661}\ndata: 1\n\n", &["message 1"]),
        // Comments: empty, between, with colons, never ended.
        (":\n:\r:\r\n::\n: data: 0\ndata: 1\n:x\n\n: y", &["message 1"]),
        // A line end at the end of everything, or none.
        ("data: 1\n\r", &["message 1"]),
        ("data: 1\r", &[]),
        ("data: 1", &[]),
        ("\n\n\r\r\r\n\r\ndata: 1\n\n", &["message 1"]),
        // Text of every length of character, and a mark that is no mark here.
        ("data: \u{e9}\u{20ac}\u{1d11e}\n\n", &["message \u{e9}\u{20ac}\u{1d11e}"]),
        ("data: \u{feff}1\n\n", &["message \u{feff}1"]),
        ("\u{feff}", &[]),
        ("\u{feff}\ndata: 1\n\n", &["message 1"]),
    ];
    for (stream, events) in cases {
        check(stream, events);
    }
}

/// wire: SSE-1
#[test]
fn half_a_byte_order_mark_is_no_mark() {
    for start in [&b"\xef"[..], b"\xef\xbb", b"\xef\xbb\xbe"] {
        let stream = [start, b"data: 1\n\ndata: 2\n\n"].concat();
        assert_eq!(read(stream.chunks(1)), ["message 2"], "{start:?}");
        assert_eq!(read(stream.chunks(99)), ["message 2"], "{start:?}");
    }
}

const LIMIT: usize = 16;

/// Reads `stream` with a limit of 16 bytes: in one piece, byte by byte, and cut
/// in two at every place.
#[track_caller]
fn check(stream: &str, expected: &[&str]) {
    let bytes = stream.as_bytes();
    assert_eq!(read(bytes.chunks(1)), expected, "byte by byte");
    for cut in 0..=bytes.len() {
        let (first, rest) = bytes.split_at(cut);
        assert_eq!(read([first, rest].into_iter()), expected, "cut at {cut}");
    }
}

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = EventDecoder::new(LIMIT);
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(event) = decoder.next_event() {
            seen.push(event.map_or("EventTooLong".into(), |event| show(&event)));
        }
    }
    seen
}

/// Name, data with `|` for LF, and the rest where there is any.
fn show(event: &SseEvent) -> String {
    let data = String::from_utf8(event.data.to_vec()).unwrap().replace('\n', "|");
    let mut text = match &event.name {
        Some(name) => format!("{name} {data}"),
        None if event.is_message() => format!("message {data}"),
        None => "nothing".into(),
    };
    text.extend(event.id.as_ref().map(|id| format!(" id={id}")));
    text.extend(event.retry.map(|retry| format!(" retry={retry}")));
    text
}
