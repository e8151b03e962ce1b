//! Any bytes, cut anywhere, give the same lines within the same memory.
//!
//! The first byte of the input sets the limit, the second the size of the
//! chunks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_proto::framing::{LineDecoder, encode_line};

fuzz_target!(|input: &[u8]| {
    let [limit, size, bytes @ ..] = input else { return };
    let limit = usize::from(*limit);
    let whole = decode(limit, bytes, usize::MAX);
    assert_eq!(whole, decode(limit, bytes, usize::from(*size).max(1)));

    let mut again = Vec::new();
    for line in whole.iter().flatten() {
        assert!(line.len() <= limit && !line.contains(&b'\n'));
        encode_line(line, &mut again);
    }
    let lines = decode(limit, &again, usize::MAX);
    assert_eq!(lines.len(), whole.iter().flatten().count());
});

fn decode(limit: usize, bytes: &[u8], size: usize) -> Vec<Result<Vec<u8>, usize>> {
    let mut decoder = LineDecoder::new(limit);
    let mut lines = Vec::new();
    for chunk in bytes.chunks(size) {
        decoder.push(chunk);
        lines.extend(std::iter::from_fn(|| decoder.next_line()));
        assert!(decoder.buffer().len() <= limit + 1);
    }
    lines.extend(decoder.finish());
    lines.into_iter().map(|line| line.map(Vec::from).map_err(|long| long.limit)).collect()
}
