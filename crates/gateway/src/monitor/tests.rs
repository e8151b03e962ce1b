//! Names that are kept of a call, and what is counted.

use super::*;

#[test]
fn a_long_name_is_cut_between_two_characters() {
    assert_eq!(short_name("tools/call"), "tools/call");
    assert_eq!(short_name(&format!("a{}", "é".repeat(500))).len(), MAX_NAME - 1);
}

#[test]
fn a_uri_is_told_without_what_may_be_secret() {
    for (uri, told) in [
        ("file:///a/b", "file:///a/b"),
        ("https://example.com/a?token=s3cret#x", "https://example.com/a"),
        ("postgres://me:s3cret@db/x", "postgres"),
        ("demo://a@b", "demo"),
        ("mailto:me@example.com", "mailto"),
        ("https://example.com/@me", "https://example.com/@me"),
        ("", ""),
    ] {
        assert_eq!(plain_uri(uri), told, "{uri}");
    }
}

#[test]
fn names_that_nobody_has_do_not_become_labels() {
    let counts = Counts::default();
    let ok = (CallResult::Ok, Duration::from_millis(3));
    for number in 0..2 * TOOLS {
        counts.tool("s", &format!("t{number}"), ok, || true);
        counts.tool("s", &format!("unknown{number}"), ok, || false);
    }
    let mut seen = Vec::new();
    counts
        .each_tool(|labels, series| seen.push((labels[1].1.to_owned(), series.of(CallResult::Ok))));
    assert_eq!(seen.len(), TOOLS + 1);
    assert_eq!(seen.last().unwrap(), &(OTHER.to_owned(), 3 * TOOLS as u64));
    for number in 0..SERVERS + 5 {
        counts.tool(&format!("s{number}"), "t", ok, || true);
    }
    let mut others = 0;
    counts.each_tool(|labels, series| {
        let server = labels[0].1;
        others += if server == OTHER { series.of(CallResult::Ok) } else { 0 };
    });
    assert_eq!(others, 6, "one more server came first");
}

#[test]
fn a_call_is_in_the_bucket_that_it_fits_and_in_all_above() {
    let series = Series::default();
    for millis in [1, 2, 700, 3_600_000] {
        series.add(CallResult::Ok, Duration::from_millis(millis));
    }
    let cumulated = series.cumulated();
    assert_eq!(cumulated[0], 1, "one millisecond is no longer than one");
    assert_eq!(cumulated[1], 2);
    assert_eq!(cumulated[7], 2, "half a second");
    assert_eq!(cumulated[8], 3, "one second");
    assert_eq!(cumulated[15..], [3, 4]);
    assert!((series.seconds() - 3600.703).abs() < 1e-9);
}
