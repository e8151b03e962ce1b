//! What the environment says about traces, in the variables of OpenTelemetry.
//!
//! As its specification wants, what makes no sense is told and passed over.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use switchboard_gateway::span::{Sampler, SpanOptions};

/// Where spans go, if anywhere.
type SpanSettings = Option<(SpanOptions, Sampler)>;

/// Reads the variables, and tells what makes no sense; `lookup` is the environment.
pub(super) fn wanted(lookup: impl Fn(&str) -> Option<String>) -> (SpanSettings, Vec<String>) {
    let said = |name: &str| {
        lookup(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let mut complaints = Vec::new();
    let spans = endpoint(&said, &mut complaints).map(|endpoint| {
        let mut options = SpanOptions::to(endpoint);
        fill(&mut options, &said, &mut complaints);
        (options, sampler(&said, &mut complaints))
    });
    (spans, complaints)
}

/// Where traces go, and where all goes.
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ANY: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// One of the two variables of an exporter, the one for traces first.
fn of_exporter(said: &impl Fn(&str) -> Option<String>, what: &str) -> Option<String> {
    said(&format!("OTEL_EXPORTER_OTLP_TRACES_{what}"))
        .or_else(|| said(&format!("OTEL_EXPORTER_OTLP_{what}")))
}

fn endpoint(said: &impl Fn(&str) -> Option<String>, complaints: &mut Vec<String>) -> Option<Uri> {
    let is_off = said("OTEL_SDK_DISABLED").is_some_and(|flag| flag.eq_ignore_ascii_case("true"))
        || said("OTEL_TRACES_EXPORTER").is_some_and(|names| !names.contains("otlp"));
    if is_off {
        return None;
    }
    let (name, text) = said(TRACES).map(|text| (TRACES, text)).or_else(|| {
        let base = said(ANY)?;
        Some((ANY, format!("{}/v1/traces", base.trim_end_matches('/'))))
    })?;
    if of_exporter(said, "PROTOCOL").is_some_and(|protocol| protocol == "grpc") {
        complaints.push("OTLP is spoken over HTTP, not gRPC; its usual port is 4318".to_owned());
    }
    let url = text.parse::<Uri>().ok();
    let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    if url.is_none() {
        // The value may hold a key.
        complaints.push(format!("{name} is ignored: it is no http:// or https:// URL"));
    }
    url
}

fn fill(
    options: &mut SpanOptions,
    said: &impl Fn(&str) -> Option<String>,
    complaints: &mut Vec<String>,
) {
    if let Some(text) = of_exporter(said, "HEADERS") {
        options.headers = headers(&text, complaints);
    }
    let mut resource = vec![("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    resource.extend(pairs(&said("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()));
    let is_named = resource.iter().any(|(key, _)| key == "service.name");
    if let Some(name) = said("OTEL_SERVICE_NAME") {
        resource.retain(|(key, _)| key != "service.name");
        resource.push(("service.name".to_owned(), name));
    } else if !is_named {
        resource.append(&mut options.resource);
    }
    options.resource = resource;
    let mut number = |name: &str, value: Option<String>| {
        let text = value?;
        let number = text.parse::<u64>().ok().filter(|number| (1..=3_600_000).contains(number));
        if number.is_none() {
            complaints.push(format!("{name} is ignored: {text:?} is no number of use here"));
        }
        number
    };
    let timeout = number("OTEL_EXPORTER_OTLP_TIMEOUT", of_exporter(said, "TIMEOUT"));
    options.timeout = timeout.map_or(options.timeout, Duration::from_millis);
    let mut batch = |name: &str| number(name, said(name));
    let delay = batch("OTEL_BSP_SCHEDULE_DELAY");
    options.delay = delay.map_or(options.delay, Duration::from_millis);
    let size = |number: u64| usize::try_from(number.min(1 << 16)).unwrap_or(usize::MAX);
    options.queue = batch("OTEL_BSP_MAX_QUEUE_SIZE").map_or(options.queue, size);
    options.batch = batch("OTEL_BSP_MAX_EXPORT_BATCH_SIZE").map_or(options.batch, size);
}

fn sampler(said: &impl Fn(&str) -> Option<String>, complaints: &mut Vec<String>) -> Sampler {
    let Some(name) = said("OTEL_TRACES_SAMPLER") else { return Sampler::default() };
    let sampler = Sampler::parse(&name, said("OTEL_TRACES_SAMPLER_ARG").as_deref());
    if sampler.is_none() {
        complaints.push(format!("OTEL_TRACES_SAMPLER is ignored: {name:?} is not known here"));
    }
    sampler.unwrap_or_default()
}

fn headers(text: &str, complaints: &mut Vec<String>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs(text) {
        let header = (name.parse::<HeaderName>().ok(), HeaderValue::from_str(&value).ok());
        if let (Some(name), Some(mut value)) = header {
            value.set_sensitive(true);
            headers.append(name, value);
        } else {
            complaints.push("a header of OTEL_EXPORTER_OTLP_HEADERS is ignored".to_owned());
        }
    }
    headers
}

/// `a=b,c=d`, with %-escapes in the values.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let unescaped = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    pairs.map(|(key, value)| (key.trim().to_owned(), unescaped(value.trim()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> (SpanSettings, Vec<String>) {
        wanted(|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn nothing_is_sent_unless_it_is_said_where() {
        assert!(with(&[]).0.is_none());
        let to = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");
        let (options, sampler) = with(&[to]).0.unwrap();
        assert_eq!(options.endpoint, "http://127.0.0.1:4318/v1/traces");
        assert_eq!(sampler, Sampler::default());
        assert!(with(&[to, ("OTEL_SDK_DISABLED", "True")]).0.is_none());
        assert!(with(&[to, ("OTEL_TRACES_EXPORTER", "none")]).0.is_none());
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://example.com/x");
        assert_eq!(with(&[to, traces]).0.unwrap().0.endpoint, "https://example.com/x");
    }

    #[test]
    fn keys_names_and_times_are_those_of_the_specification() {
        let (options, sampler) = with(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=test"),
            ("OTEL_SERVICE_NAME", "gate"),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        ])
        .0
        .unwrap();
        assert_eq!(options.headers["api-key"], "a b");
        assert!(options.headers["api-key"].is_sensitive());
        let named = options.resource.iter().filter(|(key, _)| key == "service.name");
        assert_eq!(named.map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["gate"]);
        assert_eq!(options.delay, Duration::from_millis(100));
        assert_eq!(sampler, Sampler { heeds_parent: false, ratio: 0.5 });
    }

    #[test]
    fn what_makes_no_sense_is_told_without_its_value_if_that_may_be_a_key() {
        let told = with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "s3cret")]).1;
        assert_eq!(told.len(), 1);
        assert!(!told[0].contains("s3cret"), "{told:?}");
        let (spans, told) = with(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a\u{e9}=s3cret"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
            ("OTEL_TRACES_SAMPLER", "some"),
        ]);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(spans.is_some() && !told.concat().contains("s3cret"));
    }
}
