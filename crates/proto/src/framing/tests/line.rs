//! Each test gives the chunks as they arrive and the lines that must come out.

use super::*;

// wire: STD-1
#[test]
fn lines_end_with_lf_or_crlf() {
    check(&["{}\n[]\r\n{\"a\":\r1}\n"], &["{}", "[]", "{\"a\":\r1}"]);
}

// wire: STD-1
#[test]
fn blank_lines_are_skipped() {
    check(&["\n\r\n  \t\n{}\n\n"], &["{}"]);
}

#[test]
fn lines_may_be_cut_anywhere() {
    check(&["{", "}\r", "\n[", "]", "\n", "1"], &["{}", "[]", "end: 1"]);
}

#[test]
fn unfinished_last_line_counts() {
    check(&["{}\n{\"a\":1}\r"], &["{}", "end: {\"a\":1}"]);
    check(&["{}\n  "], &["{}"]);
}

#[test]
fn line_of_the_greatest_length_is_let_through() {
    check(&["0123456789\n"], &["0123456789"]);
    check(&["0123456789", "\r", "\n"], &["0123456789"]);
    check(&["0123456789\r"], &["end: 0123456789"]);
}

// wire: STD-1, STD-2
#[test]
fn a_line_of_many_times_the_limit_is_taken_for_endless() {
    let mut decoder = LineDecoder::new(10);
    for length in 1..=60 {
        decoder.push(b"x");
        _ = decoder.next_line();
        assert_eq!(decoder.is_endless(), length >= 44, "{length}");
    }
    decoder.push(b"\n{}\n");
    assert_eq!(decoder.next_line().unwrap().unwrap(), "{}");
    assert!(!decoder.is_endless());
}

#[test]
fn longer_line_is_reported_once_and_skipped() {
    check(&["0123456789a\n{}\n"], &["LineTooLong", "{}"]);
    check(&["0123456789a", "bcdefghijkl", "mno\n{}\n"], &["LineTooLong", "{}"]);
    check(&["0123456789\r", "a\n{}\n"], &["LineTooLong", "{}"]);
    check(&["0123456789a", "b"], &["LineTooLong"]);
}

#[test]
fn bytes_are_searched_once() {
    let mut decoder = LineDecoder::new(100);
    decoder.push(b"abc");
    assert!(decoder.next_line().is_none());
    assert_eq!(decoder.searched, 3);
    decoder.push(b"def\n");
    assert_eq!(decoder.next_line(), Some(Ok(Bytes::from_static(b"abcdef"))));
    assert_eq!(decoder.searched, 0);
}

// wire: STD-1
#[test]
fn encoded_message_is_one_line() {
    let mut out = Vec::new();
    encode_line(b"{\"a\":1}", &mut out);
    encode_line(b"{\r\n\"b\":\n2}\n", &mut out);
    assert_eq!(out, b"{\"a\":1}\n{  \"b\": 2} \n");
}

/// Feeds `chunks` to a decoder with a limit of 10 bytes.
#[track_caller]
fn check(chunks: &[&str], expected: &[&str]) {
    let mut decoder = LineDecoder::new(10);
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.push(chunk.as_bytes());
        while let Some(line) = decoder.next_line() {
            seen.push(show(line));
        }
    }
    seen.extend(decoder.finish().map(|line| match show(line).as_str() {
        "LineTooLong" => "LineTooLong".to_owned(),
        line => format!("end: {line}"),
    }));
    assert_eq!(seen, expected);
}

fn show(line: Result<Bytes, LineTooLong>) -> String {
    line.map_or("LineTooLong".into(), |line| String::from_utf8(line.to_vec()).unwrap())
}
