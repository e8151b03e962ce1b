//! Events do not depend on how their bytes arrive, and memory is bounded.

use proptest::prelude::*;
use switchboard_proto::framing::{
    EventDecoder, EventTooLong, Outgoing, SseEvent, encode_comment, encode_event,
};

const LIMIT: usize = 24;

proptest! {
    // wire: SSE-1, SSE-2
    #[test]
    fn any_split_gives_the_same_events(
        pieces in prop::collection::vec(piece(), 0..60),
        sizes in prop::collection::vec(1..9_usize, 1..20),
    ) {
        let bytes = pieces.concat();
        prop_assert_eq!(decode(LIMIT, &bytes, &[bytes.len().max(1)]), decode(LIMIT, &bytes, &sizes));
    }

    // wire: SSE-1
    #[test]
    fn any_line_end_gives_the_same_events(lines in prop::collection::vec(line(), 0..30)) {
        let expected = decode(LIMIT, lines.join("\n").as_bytes(), &[usize::MAX]);
        for end in ["\r", "\r\n"] {
            let bytes = lines.join(end);
            prop_assert_eq!(&decode(LIMIT, bytes.as_bytes(), &[usize::MAX]), &expected);
        }
    }

    // wire: SSE-1, SSE-2
    #[test]
    fn encoded_events_come_back(
        events in prop::collection::vec(event(), 0..20),
        sizes in prop::collection::vec(1..9_usize, 1..20),
    ) {
        let mut bytes = Vec::new();
        for (id, name, retry, data) in &events {
            encode_comment("ping", &mut bytes);
            let id = Some(id.as_str());
            encode_event(&Outgoing { id, name: name.as_deref(), retry: *retry, data }, &mut bytes);
        }
        let expected = events.into_iter().map(|(id, name, retry, data)| Ok(SseEvent {
            name: name.map(Into::into),
            data: with_lf(&data).into(),
            id: Some(id.into()),
            retry,
        }));
        prop_assert_eq!(decode(1000, &bytes, &sizes), expected.collect::<Vec<_>>());
    }
}

// wire: SSE-2
#[test]
fn large_message_comes_back_whole() {
    let data = vec![b'x'; 1 << 20];
    let mut bytes = Vec::new();
    encode_event(&Outgoing { data: &data, ..Outgoing::default() }, &mut bytes);
    let events = decode(1 << 20, &bytes, &[16 * 1024]);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].as_ref().unwrap().data, data);
    assert_eq!(
        decode((1 << 20) - 1, &bytes, &[16 * 1024]),
        [Err(EventTooLong { limit: (1 << 20) - 1, head: vec![b'x'; 256].into() })]
    );
}

fn decode(limit: usize, bytes: &[u8], sizes: &[usize]) -> Vec<Result<SseEvent, EventTooLong>> {
    let mut decoder = EventDecoder::new(limit);
    let mut events = Vec::new();
    let mut rest = bytes;
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, later) = rest.split_at(size.min(rest.len()));
        decoder.push(chunk);
        rest = later;
        events.extend(std::iter::from_fn(|| decoder.next_event()));
        // The event with the line being read, its id, and the last id.
        assert!(decoder.held_bytes() <= 3 * (limit + "event: ".len()));
    }
    events
}

/// Line breaks as every reader of the stream sees them.
fn with_lf(data: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    for (at, &byte) in data.iter().enumerate() {
        match byte {
            b'\r' if data.get(at + 1) == Some(&b'\n') => {}
            b'\r' => lines.push(b'\n'),
            byte => lines.push(byte),
        }
    }
    lines
}

/// Bytes that are likely to mean something together.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", ":", " ", "\u{feff}", "世"]),
        4 => prop::sample::select(vec!["data", "data:", "data: ", "id: ", "event: ", "retry: "]),
        2 => prop::sample::select(vec!["1", "7", "0123456789abcdef", "message", "\0"]),
    ]
    .prop_map(|text| text.as_bytes().to_vec())
    .boxed()
    .prop_union(prop::collection::vec(any::<u8>(), 0..4).boxed())
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just(String::new()),
        3 => "(data|id|event|retry|:|x)",
        5 => "(data|id|event|retry|):[ ]?[a-c0-9:]{0,12}",
    ]
}

type Fields = (String, Option<String>, Option<u64>, Vec<u8>);

fn event() -> impl Strategy<Value = Fields> {
    let data = prop::collection::vec(
        prop_oneof![1 => Just(b'\n'), 1 => Just(b'\r'), 1 => Just(b' '), 6 => any::<u8>()],
        0..20,
    );
    ("[a-z0-9-]{1,8}", prop::option::of("[a-l :]{1,8}x"), any::<Option<u64>>(), data)
}
