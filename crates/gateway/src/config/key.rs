//! What the keys of a server mean, in the file of any client.

/// What a key says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Meaning {
    Args,
    BearerVariable,
    CallMillis,
    CallSeconds,
    /// Seconds or milliseconds, by its size: clients differ.
    CallTime,
    Command,
    Cwd,
    Description,
    Disabled,
    Enabled,
    Env,
    EnvFile,
    /// Names of variables to pass on.
    EnvNames,
    HeaderVariables,
    Headers,
    Kind,
    Name,
    NotTools,
    OnlyTools,
    StartMillis,
    StartSeconds,
    ToolFilter,
    /// A URL of the transport that its name says.
    HttpUrl,
    Url,
    /// For a gateway.
    Ours(Ours),
    /// Of use to another tool.
    Theirs,
}

/// What kind of server a key is for, if not for every kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Command,
    Url,
}

impl Meaning {
    /// The servers on which it has an effect; none for all. What makes a server one
    /// of a kind is not asked here.
    pub(super) fn side(self) -> Option<Side> {
        match self {
            Self::Cwd | Self::Env | Self::EnvFile | Self::EnvNames => Some(Side::Command),
            Self::BearerVariable | Self::HeaderVariables | Self::Headers => Some(Side::Url),
            Self::Ours(Ours::HeaderCommand | Ours::HeaderFile | Ours::PassHeaders) => {
                Some(Side::Url)
            }
            _ => None,
        }
    }
}

/// What a key says that only we have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ours {
    HeaderCommand,
    HeaderFile,
    Idle,
    MaxCalls,
    NotPrompts,
    NotResources,
    OnlyPrompts,
    OnlyResources,
    PassHeaders,
    Prefix,
    Process,
    PromptEdits,
    StartTime,
    ToolEdits,
}

/// Every key that some tool knows, in the spelling of that tool; for `camelCase`
/// `snake_case` is as good, for TOML.
pub(super) const KEYS: &[(&str, Meaning)] = &[
    ("args", Meaning::Args),
    ("bearer_token_env_var", Meaning::BearerVariable),
    ("command", Meaning::Command),
    ("cwd", Meaning::Cwd),
    ("description", Meaning::Description),
    ("disabled", Meaning::Disabled),
    ("disabledTools", Meaning::NotTools),
    ("disabled_tools", Meaning::NotTools),
    ("enabled", Meaning::Enabled),
    ("enabledTools", Meaning::OnlyTools),
    ("enabled_tools", Meaning::OnlyTools),
    ("env", Meaning::Env),
    ("envFile", Meaning::EnvFile),
    ("env_http_headers", Meaning::HeaderVariables),
    ("env_vars", Meaning::EnvNames),
    ("environment", Meaning::Env),
    ("excludeTools", Meaning::NotTools),
    ("headers", Meaning::Headers),
    ("httpUrl", Meaning::HttpUrl),
    ("http_headers", Meaning::Headers),
    ("includeTools", Meaning::OnlyTools),
    ("name", Meaning::Name),
    ("requestTimeout", Meaning::CallTime),
    ("serverUrl", Meaning::Url),
    ("startup_timeout_ms", Meaning::StartMillis),
    ("startup_timeout_sec", Meaning::StartSeconds),
    ("timeout", Meaning::CallTime),
    ("timeoutMs", Meaning::CallMillis),
    ("toolFilter", Meaning::ToolFilter),
    ("tool_timeout_sec", Meaning::CallSeconds),
    ("transport", Meaning::Kind),
    ("transportType", Meaning::Kind),
    ("type", Meaning::Kind),
    ("url", Meaning::Url),
    ("workingDirectory", Meaning::Cwd),
];

/// Keys for a gateway; `snake_case` is as good, for TOML.
pub(super) const OURS: &[(&str, Ours)] = &[
    ("excludePrompts", Ours::NotPrompts),
    ("excludeResources", Ours::NotResources),
    ("headerFile", Ours::HeaderFile),
    ("headersHelper", Ours::HeaderCommand),
    ("idleTimeout", Ours::Idle),
    ("includePrompts", Ours::OnlyPrompts),
    ("includeResources", Ours::OnlyResources),
    ("maxConcurrency", Ours::MaxCalls),
    ("passHeaders", Ours::PassHeaders),
    ("prefix", Ours::Prefix),
    ("process", Ours::Process),
    ("prompts", Ours::PromptEdits),
    ("startTimeout", Ours::StartTime),
    ("tools", Ours::ToolEdits),
];

/// Keys of other tools that ask nothing of us.
pub(super) const THEIRS: &[&str] = &[
    "$schema",
    "alwaysAllow",
    "autoApprove",
    "dev",
    "disabledReason",
    "displayName",
    "fromGalleryId",
    "gallery",
    "icon",
    "id",
    "metadata",
    "oauth",
    "options",
    "required",
    "sandbox",
    "scopes",
    "settings",
    "source",
    "tags",
    "trust",
    "version",
];

/// What a key says; none if no client has such a key.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    let known = KEYS.iter().find(|(key, _)| *key == name).map(|(_, meaning)| *meaning);
    let known = known.or_else(|| find(KEYS, name));
    let ours = || find(OURS, name).map(Meaning::Ours);
    known.or_else(ours).or_else(|| THEIRS.contains(&name).then_some(Meaning::Theirs))
}

/// What a key in `camelCase` says, however it is written: so or in `snake_case`.
pub(super) fn find<T: Copy>(keys: &[(&str, T)], name: &str) -> Option<T> {
    let name = camel(name);
    keys.iter().find(|(key, _)| *key == name).map(|(_, meaning)| *meaning)
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |camel, part| {
        let mut letters = part.chars();
        let head = letters.next().map(|letter| letter.to_ascii_uppercase());
        camel + &head.into_iter().chain(letters).collect::<String>()
    })
}

/// The key that was probably meant.
pub(super) fn similar(name: &str) -> Option<&'static str> {
    let meant = match simple(name).as_str() {
        "arguments" | "params" => Some("args"),
        "cmd" | "exec" | "program" => Some("command"),
        "dir" | "directory" | "workdir" => Some("cwd"),
        "endpoint" | "uri" => Some("url"),
        _ => None,
    };
    let ours = OURS.iter().map(|(key, _)| *key);
    meant.or_else(|| nearest(name, KEYS.iter().map(|(key, _)| *key).chain(ours)))
}

/// The candidate that differs from `name` in case, dashes or a letter or two.
pub fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let name = simple(name);
    let scored = candidates.map(|candidate| (distance(&name, &simple(candidate)), candidate));
    let (score, candidate) = scored.min_by_key(|(score, _)| *score)?;
    // Of short words everything is near.
    (score <= name.len().min(candidate.len()) / 3).then_some(candidate)
}

fn simple(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Letters to add, drop, change, or swap with the next.
fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let changed = last[j] + usize::from(a != b);
            let mut best = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests;
