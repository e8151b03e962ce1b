//! Checks of the lists of a server, and of the tools, prompts and resources in them.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_proto::header::param::annotations;
use switchboard_proto::method;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use crate::doctor::evidence::{End, Evidence, ExchangeResult, List};
use crate::doctor::{Finding, in_words};

pub(super) fn has_what_it_announces(evidence: &Evidence) -> Vec<Finding> {
    let broken = evidence.lists.iter().filter(|list| list.announced && list.end == End::Broken);
    let broken = broken.filter_map(|list| Some((list, list.pages.last()?)));
    // A server that is gone has a finding of its own.
    let broken = broken
        .filter(|(_, page)| !matches!(page, ExchangeResult::Gone { .. } | ExchangeResult::Lost(_)));
    broken.map(|(list, page)| broken_list(list, page)).collect()
}

fn broken_list(list: &List, page: &ExchangeResult) -> Finding {
    let (method, capability) = (list.method, list.capability);
    if page.result().is_some() {
        let what = format!("{method} has no list {:?} in its result", list.member);
        let finding = Finding::error("list.shape", what).rule("LIF-3");
        return finding.remedy(format!("answer {{\"{}\": […]}}, if only []", list.member));
    }
    let unknown = Refusal::UnknownMethod { method: String::new() }.rpc_code();
    let is_unknown = page.error().is_some_and(|error| error["code"] == unknown);
    let what = format!("the server announces {capability}, but {method} {}", in_words(page));
    // Servers without templates often forget the method.
    if is_unknown && list.member == "resourceTemplates" {
        let finding = Finding::note("list.templates", what).rule("LIF-3");
        return finding.remedy("answer {\"resourceTemplates\": []}");
    }
    let finding = Finding::error("list.error", what).rule("LIF-3");
    finding.remedy(format!("serve {method}, or do not announce {capability}"))
}

pub(super) fn announces_what_it_has(evidence: &Evidence) -> Vec<Finding> {
    let hidden = evidence.lists.iter().filter(|list| !list.announced && list.items().count() > 0);
    let hidden = hidden.map(|list| {
        let (method, capability) = (list.method, list.capability);
        let what = format!("{method} works, but the server does not announce {capability}");
        let finding = Finding::error("list.unannounced", what).rule("LIF-3");
        finding.remedy(format!(
            "say \"{capability}\": {{}} in capabilities; clients do not look otherwise"
        ))
    });
    hidden.collect()
}

pub(super) fn come_to_an_end(evidence: &Evidence) -> Vec<Finding> {
    let endless = evidence.lists.iter().filter_map(|list| {
        let what = match list.end {
            End::Loop => format!("{} gives the same cursor again and again", list.method),
            End::Endless => {
                format!("{} has more than {} pages", list.method, list.pages.len())
            }
            End::Whole | End::Broken => return None,
        };
        let finding = Finding::error("list.cursor", what).rule("PAG-1");
        Some(
            finding
                .remedy("leave nextCursor out on the last page; look at the cursor that comes in"),
        )
    });
    endless.collect()
}

pub(super) fn say_how_long_they_last(evidence: &Evidence) -> Vec<Finding> {
    if evidence.era != Some(Era::Modern) {
        return Vec::new();
    }
    let lists = evidence.lists.iter().filter(|list| list.announced);
    let mut pages = lists.flat_map(|list| list.pages.iter().map(move |page| (list.method, page)));
    let bare = pages.find_map(|(method, page)| {
        let result = page.result()?;
        let missing =
            ["ttlMs", "cacheScope"].into_iter().find(|name| result.get(name).is_none())?;
        Some((method, missing))
    });
    let finding = bare.map(|(method, missing)| {
        Finding::error("list.cache", format!("{method} does not say {missing}"))
            .rule("CACHE-1")
            .remedy("say ttlMs, 0 if it may not be kept, and cacheScope, \"public\" or \"private\"")
    });
    finding.into_iter().collect()
}

/// What the models behind most clients take as the name of a tool.
const NAME: usize = 64;
/// Findings of one kind; a server with a thousand tools makes one mistake.
const FEW: usize = 3;

fn tools(evidence: &Evidence) -> impl Iterator<Item = &Value> {
    let lists = evidence.lists.iter().filter(|list| list.method == method::LIST_TOOLS);
    lists.flat_map(List::items)
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or("a tool without a name")
}

pub(super) fn tools_have_usable_names(evidence: &Evidence) -> Vec<Finding> {
    let odd = tools(evidence).filter_map(|tool| {
        let name = tool["name"].as_str().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() {
            let what = "a tool has no name".to_owned();
            return Some(Finding::error("tool.name", what).remedy("give it one"));
        }
        if name.len() > NAME {
            let what = format!("the name of tool {name:.80} has {} characters", name.len());
            let remedy =
                format!("most models take up to {NAME}, and clients put a prefix before it");
            return Some(Finding::warning("tool.name-long", what).remedy(remedy));
        }
        if !name.chars().all(is_plain) {
            let what = format!("the name of tool {name:?} has characters that clients refuse");
            let remedy = "use letters, digits, _ and - only";
            return Some(Finding::warning("tool.name-characters", what).remedy(remedy));
        }
        None
    });
    odd.take(FEW).collect()
}

pub(super) fn tools_have_valid_schemas(evidence: &Evidence) -> Vec<Finding> {
    let odd = tools(evidence).flat_map(|tool| {
        let input = match tool.get("inputSchema") {
            None => Some("has no inputSchema".to_owned()),
            Some(schema) => flaw(schema).map(|flaw| format!("has an inputSchema that {flaw}")),
        };
        let output = tool.get("outputSchema").and_then(flaw);
        let output = output.map(|flaw| format!("has an outputSchema that {flaw}"));
        [input, output].into_iter().flatten().map(|what| {
            Finding::error("tool.schema", format!("tool {:?} {what}", name(tool)))
                .remedy("give it a JSON Schema of type object, { \"type\": \"object\" } at least")
        })
    });
    odd.take(FEW).collect()
}

/// What is wrong with a schema.
fn flaw(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return Some("is no object".to_owned());
    }
    if schema["type"] != "object" {
        return Some("is not of type object".to_owned());
    }
    let built = jsonschema::options().should_validate_formats(false).build(schema);
    built.err().map(|error| format!("is not valid: {error:.200}"))
}

pub(super) fn tools_have_valid_header_annotations(evidence: &Evidence) -> Vec<Finding> {
    let odd = tools(evidence).filter_map(|tool| {
        let error = annotations(&tool["inputSchema"]).err()?;
        let finding = Finding::error("tool.header", format!("tool {:?}: {error}", name(tool)));
        Some(finding.rule("HDR-7").remedy("clients leave such a tool out of the list"))
    });
    odd.take(FEW).collect()
}

pub(super) fn names_are_unique(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for list in &evidence.lists {
        let (key, what) = match list.member {
            "tools" => ("name", "tools"),
            "prompts" => ("name", "prompts"),
            "resources" => ("uri", "resources"),
            _ => ("uriTemplate", "templates"),
        };
        let mut seen = HashSet::new();
        let names = list.items().filter_map(|item| item[key].as_str());
        for name in names.filter(|name| !seen.insert(*name)).take(FEW) {
            let what = format!("two {what} have the {key} {name:?}");
            let finding = Finding::error("list.duplicate", what);
            findings.push(finding.remedy("give each its own; clients call either, or refuse both"));
        }
    }
    findings
}

pub(super) fn tools_are_described(evidence: &Evidence) -> Vec<Finding> {
    let is_bare = |tool: &&Value| tool["description"].as_str().unwrap_or_default().is_empty();
    let bare: Vec<_> = tools(evidence).filter(is_bare).map(name).collect();
    if bare.is_empty() {
        return Vec::new();
    }
    let some = bare.iter().take(FEW).copied().collect::<Vec<_>>().join(", ");
    let what = format!("{} without a description: {some}", count(bare.len()));
    let finding = Finding::note("tool.description", what);
    vec![finding.remedy("say what it does and when to use it; models choose by it")]
}

fn count(tools: usize) -> String {
    if tools == 1 { "a tool is".to_owned() } else { format!("{tools} tools are") }
}
