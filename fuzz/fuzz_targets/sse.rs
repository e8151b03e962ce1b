//! Any bytes, cut anywhere, give the same events within the same memory, and
//! what was read can be written and read again.
//!
//! The first byte of the input sets the limit, the second the size of the
//! chunks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_proto::framing::{EventDecoder, SseEvent, Outgoing, EventTooLong, encode_event};

fuzz_target!(|input: &[u8]| {
    let [limit, size, bytes @ ..] = input else { return };
    let limit = usize::from(*limit);
    let whole = decode(limit, bytes, usize::MAX);
    assert_eq!(whole, decode(limit, bytes, usize::from(*size).max(1)));

    for event in whole.iter().flatten() {
        assert!(event.data.len() <= limit);
        let SseEvent { name, data, id, retry } = event;
        let outgoing = Outgoing { id: id.as_deref(), name: name.as_deref(), retry: *retry, data };
        let mut again = Vec::new();
        encode_event(&outgoing, &mut again);
        assert_eq!(decode(1 << 20, &again, usize::MAX), [Ok(event.clone())]);
    }
});

fn decode(limit: usize, bytes: &[u8], size: usize) -> Vec<Result<SseEvent, EventTooLong>> {
    let mut decoder = EventDecoder::new(limit);
    let mut events = Vec::new();
    for chunk in bytes.chunks(size) {
        decoder.push(chunk);
        events.extend(std::iter::from_fn(|| decoder.next_event()));
        // The event with the line being read, its id, and the last id.
        assert!(decoder.held_bytes() <= 3 * (limit + "event: ".len()));
    }
    events
}
