//! Lines do not depend on how their bytes arrive, and memory is bounded.

use bytes::Bytes;
use proptest::prelude::*;
use switchboard_proto::framing::{LineDecoder, LineTooLong, encode_line};

const LIMIT: usize = 14;

proptest! {
    // wire: STD-1
    #[test]
    fn any_split_gives_the_same_lines(
        bytes in prop::collection::vec(byte(), 0..200),
        sizes in prop::collection::vec(1..9_usize, 1..20),
    ) {
        prop_assert_eq!(decode(&bytes, &[bytes.len().max(1)]), decode(&bytes, &sizes));
    }

    // wire: STD-1
    #[test]
    fn encoded_messages_come_back(
        messages in prop::collection::vec("[a-z{]{1,6}[ \r\n]{0,2}[}世]{1,2}", 0..20),
        sizes in prop::collection::vec(1..9_usize, 1..20),
    ) {
        let mut bytes = Vec::new();
        for message in &messages {
            encode_line(message.as_bytes(), &mut bytes);
        }
        let lines = decode(&bytes, &sizes).into_iter().map(|line| line.unwrap().to_vec());
        let expected = messages.iter().map(|message| message.replace(['\r', '\n'], " ").into());
        prop_assert_eq!(lines.collect::<Vec<Vec<u8>>>(), expected.collect::<Vec<Vec<u8>>>());
    }
}

// wire: STD-1
#[test]
fn endless_line_is_not_kept() {
    let mut decoder = LineDecoder::new(1000);
    let mut reports = 0;
    for _ in 0..10_000 {
        decoder.push(&[b'x'; 1000]);
        while let Some(line) = decoder.next_line() {
            assert!(matches!(line, Err(LineTooLong { limit: 1000, .. })));
            reports += 1;
        }
        assert!(decoder.buffer().capacity() < 64 * 1024);
    }
    assert_eq!(reports, 1);
}

/// Feeds `bytes` in chunks of the given sizes, over and over. Between reads
/// no more may be held than the limit and the CR that may end the line.
fn decode(bytes: &[u8], sizes: &[usize]) -> Vec<Result<Bytes, LineTooLong>> {
    let mut decoder = LineDecoder::new(LIMIT);
    let mut lines = Vec::new();
    let mut rest = bytes;
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, later) = rest.split_at(size.min(rest.len()));
        decoder.push(chunk);
        rest = later;
        lines.extend(std::iter::from_fn(|| decoder.next_line()));
        assert!(decoder.buffer().len() <= LIMIT + 1);
    }
    lines.extend(decoder.finish());
    lines
}

/// Line ends often enough for lines on both sides of the limit.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(b'\n'), 2 => Just(b'\r'), 1 => Just(b' '), 14 => any::<u8>()]
}
