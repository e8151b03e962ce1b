//! What the server has, as a whole.

use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::Era;

use crate::doctor::evidence::{End, Evidence, ExchangeResult, List};
use crate::doctor::report::{Finding, in_words};

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
