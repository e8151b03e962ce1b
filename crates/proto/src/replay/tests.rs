//! Each test is a transcript: what was pushed, and what can be resumed.
//!
//! `push 1-2 abc` stores a note, `final 1-3 abc` an answer; the limit is ten
//! bytes of payload.

use super::*;

const MOST_EVENTS: usize = 100;

// wire: HTTP-17
#[test]
fn ids_are_read_as_they_are_printed() {
    for text in ["0-0", "1-20", "18446744073709551615-18446744073709551615"] {
        assert_eq!(EventId::parse(text).unwrap().to_string(), text);
    }
    for text in
        ["", "-", "1", "1-", "-1", "01-1", "1-01", "+1-1", "1-+1", "1--1", " 1-1", "1-1 ", "1-2-3"]
    {
        assert_eq!(EventId::parse(text), None, "{text:?}");
    }
    assert!(EventId::parse("18446744073709551616-1").is_none());
}

// wire: HTTP-18
#[test]
fn later_events_of_that_stream_only() {
    check(
        "push 1-1 a
         push 2-1 x
         push 1-2 b
         final 1-3 c
         after 1-1
         after 1-3
         after 2-0",
        "1-2 b, 1-3 c
         nothing
         2-1 x",
    );
}

// wire: HTTP-10, HTTP-18
#[test]
fn stream_can_be_resumed_from_its_first_event() {
    check(
        "push 5-0 -
         after 5-0
         push 5-1 a
         after 5-0",
        "nothing
         5-1 a",
    );
}

// wire: HTTP-19
#[test]
fn unknown_stream_and_future_event_are_unknown() {
    check(
        "push 1-1 a
         after 2-0
         after 1-2",
        "event 2-0 is unknown, or what followed it is gone
         event 1-2 is unknown, or what followed it is gone",
    );
}

// wire: HTTP-19
#[test]
fn history_with_a_hole_is_unknown() {
    check(
        "push 1-1 aaaa
         push 1-2 bbbb
         push 1-3 cccc
         after 1-0
         after 1-1
         after 1-3",
        "event 1-0 is unknown, or what followed it is gone
         1-2 bbbb, 1-3 cccc
         nothing",
    );
}

// wire: HTTP-18
#[test]
fn an_answer_is_given_even_when_notes_before_it_are_gone() {
    check(
        "push 1-1 aaaa
         push 1-2 bbbb
         final 1-3 cccc
         after 1-0
         after 1-4",
        "1-2 bbbb, 1-3 cccc
         event 1-4 is unknown, or what followed it is gone",
    );
}

#[test]
fn answers_are_evicted_after_all_notes_and_oldest_first() {
    check(
        "final 1-1 aaaa
         push 2-1 bbbb
         push 3-1 cccc
         after 1-0
         after 2-0
         final 4-1 dddd
         after 3-0
         final 5-1 eeee
         after 1-0
         after 4-0
         after 5-0",
        "1-1 aaaa
         event 2-0 is unknown, or what followed it is gone
         event 3-0 is unknown, or what followed it is gone
         event 1-0 is unknown, or what followed it is gone
         4-1 dddd
         5-1 eeee",
    );
}

#[test]
fn event_larger_than_the_history_is_not_kept() {
    check(
        "push 1-1 a
         final 1-2 bbbbbbbbbbb
         after 1-1
         after 1-2",
        "event 1-1 is unknown, or what followed it is gone
         nothing",
    );
}

#[test]
fn forgotten_stream_makes_room() {
    check(
        "final 1-1 aaaaa
         push 2-1 bbbbb
         forget 1
         push 2-2 ccccc
         after 1-0
         after 2-0",
        "event 1-0 is unknown, or what followed it is gone
         2-1 bbbbb, 2-2 ccccc",
    );
}

#[test]
fn event_pushed_twice_counts_once() {
    check(
        "push 1-1 a
         push 1-2 b
         push 1-2 c
         push 1-1 d
         after 1-0",
        "1-1 a, 1-2 b",
    );
}

#[test]
fn end_of_a_stream_is_known() {
    let mut replay = Replay::new(10, MOST_EVENTS);
    replay.push(EventId { stream: 1, seq: 1 }, b"", false);
    assert!(!replay.streams[&1].ended);
    replay.push(EventId { stream: 1, seq: 2 }, b"", true);
    assert!(replay.streams[&1].ended && !replay.streams.contains_key(&2));
}

#[test]
fn number_of_events_and_streams_is_bounded() {
    let mut replay = Replay::new(10, MOST_EVENTS);
    let event = |stream, seq| EventId { stream, seq };
    for seq in 1..=10_000 {
        replay.push(event(1, seq), b"", false);
    }
    assert_eq!(replay.by_rank.len(), MOST_EVENTS);
    for stream in 2..=10_000 {
        replay.push(event(stream, 1), b"", true);
    }
    assert_eq!(replay.streams.len(), MOST_STREAMS);
    assert!(replay.by_rank.len() <= MOST_EVENTS);
    assert!(replay.after(event(10_000, 0)).is_some());
    assert!(replay.after(event(1, 10_000)).is_some(), "a stream that has not ended stays");
    for stream in 20_000..30_000 {
        replay.push(event(stream, 0), b"", false);
    }
    assert_eq!(replay.streams.len(), MOST_STREAMS);
    assert_eq!(replay.by_rank.len(), 0);
}

#[track_caller]
fn check(script: &str, expected: &str) {
    let mut replay = Replay::new(10, MOST_EVENTS);
    let mut seen = Vec::new();
    for step in script.lines().map(str::trim) {
        match *step.split(' ').collect::<Vec<_>>() {
            [kind @ ("push" | "final"), id, payload] => {
                let payload = Bytes::copy_from_slice(payload.as_bytes());
                replay.push(EventId::parse(id).unwrap(), &payload, kind == "final");
            }
            ["forget", stream] => replay.forget(stream.parse().unwrap()),
            ["after", id] => seen.push(match replay.after(EventId::parse(id).unwrap()) {
                Some(events) => show(events),
                None => format!("event {id} is unknown, or what followed it is gone"),
            }),
            _ => panic!("no such step: {step}"),
        }
        let stored = replay.streams.values().flat_map(|stream| stream.events.values());
        assert_eq!(replay.bytes, stored.map(|stored| stored.payload.len()).sum::<usize>());
        assert!(replay.bytes <= replay.max_bytes);
    }
    assert_eq!(seen, expected.lines().map(str::trim).collect::<Vec<_>>());
}

fn show<'a>(events: impl Iterator<Item = (EventId, &'a Bytes)>) -> String {
    let shown = events.map(|(id, payload)| format!("{id} {}", str::from_utf8(payload).unwrap()));
    match shown.collect::<Vec<_>>().join(", ") {
        nothing if nothing.is_empty() => "nothing".into(),
        events => events,
    }
}

// wire: HTTP-18
#[test]
fn a_stream_that_was_forgotten_has_no_hole_when_it_goes_on() {
    let mut replay = Replay::new(100, MOST_EVENTS);
    let event = |seq| EventId { stream: 0, seq };
    replay.push(event(1), b"a", false);
    replay.forget(0);
    replay.push(event(3), b"c", false);
    assert!(replay.after(event(1)).is_none());
    assert_eq!(replay.after(event(2)).unwrap().count(), 1);
}
