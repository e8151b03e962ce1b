//! How many instructions the pure parts and whole calls take, as callgrind counts them.
//!
//! `./test.sh counts` runs this and compares what it prints with `counts.txt`.

#![allow(missing_docs, reason = "gungraun makes public items of its own")]

use gungraun::{
    Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use switchboard_counts::{Work, parts, ways};
use switchboard_proto::revision::Era::{Legacy, Modern};

const KIB_64: usize = 64 << 10;
const SERVER: &str = env!("CARGO_BIN_EXE_counts-server");

/// How often the work is repeated: what happens now and then is spread over the repetitions.
/// `bench/counts.mjs` divides by it.
const TIMES: usize = 100;

/// Runs the work; it is given back, for dropping it is not counted.
fn repeat(mut work: Work) -> Work {
    for _ in 0..TIMES {
        work();
    }
    work
}

#[library_benchmark]
#[bench::read_message_100_b(parts::read_message(100))]
#[bench::read_message_64_kib(parts::read_message(KIB_64))]
#[bench::edit_id_100_b(parts::edit_id(100))]
#[bench::edit_id_64_kib(parts::edit_id(KIB_64))]
#[bench::decode_line_100_b(parts::decode_line(100))]
#[bench::decode_line_64_kib(parts::decode_line(KIB_64))]
#[bench::decode_event_100_b(parts::decode_event(100))]
#[bench::decode_event_64_kib(parts::decode_event(KIB_64))]
#[bench::server_half_legacy(parts::server_half(Legacy))]
#[bench::server_half_modern(parts::server_half(Modern))]
#[bench::client_half_legacy(parts::client_half(Legacy, Legacy))]
#[bench::client_half_modern(parts::client_half(Modern, Modern))]
#[bench::client_half_to_legacy(parts::client_half(Modern, Legacy))]
#[bench::client_half_to_modern(parts::client_half(Legacy, Modern))]
#[bench::find_destination_20_tools(parts::find_destination(20))]
#[bench::find_destination_2000_tools(parts::find_destination(2_000))]
#[bench::list_page_20_tools(parts::list_page(20))]
#[bench::list_page_2000_tools(parts::list_page(2_000))]
#[bench::check_key_of_10(parts::check_key(10))]
#[bench::check_token_es256(parts::check_token())]
fn part(work: Work) -> Work {
    repeat(work)
}

#[library_benchmark]
#[bench::server_legacy(ways::server(Legacy, 100))]
#[bench::server_modern(ways::server(Modern, 100))]
#[bench::bridge_to_stdio_legacy(ways::bridge_to_stdio(Legacy, SERVER))]
#[bench::bridge_to_stdio_modern(ways::bridge_to_stdio(Modern, SERVER))]
#[bench::bridge_to_http_legacy(ways::bridge_to_http(Legacy, Legacy, 100))]
#[bench::bridge_to_http_modern(ways::bridge_to_http(Modern, Modern, 100))]
#[bench::bridge_to_http_legacy_to_modern(ways::bridge_to_http(Legacy, Modern, 100))]
#[bench::bridge_to_http_modern_to_legacy(ways::bridge_to_http(Modern, Legacy, 100))]
#[bench::bridge_to_http_modern_64_kib(ways::bridge_to_http(Modern, Modern, KIB_64))]
#[bench::gateway_legacy(ways::gateway(Legacy, 100))]
#[bench::gateway_modern(ways::gateway(Modern, 100))]
#[bench::gateway_modern_64_kib(ways::gateway(Modern, KIB_64))]
#[bench::gateway_with_key_modern(ways::gateway_with_key(Modern))]
#[bench::gateway_with_token_modern(ways::gateway_with_token(Modern))]
#[bench::gateway_list_20_tools(ways::gateway_list(Modern, 20))]
#[bench::gateway_list_200_tools(ways::gateway_list(Modern, 200))]
fn call(work: Work) -> Work {
    repeat(work)
}

library_benchmark_group!(name = parts_alone; benchmarks = part);
library_benchmark_group!(name = whole_calls; benchmarks = call);

main!(
    // Instructions alone, and none of the child processes.
    config = LibraryBenchmarkConfig::default()
        .tool(Callgrind::with_args(["--cache-sim=no", "--trace-children=no"]));
    library_benchmark_groups = parts_alone, whole_calls
);
