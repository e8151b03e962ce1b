//! What a server wants to see: the challenges of a `WWW-Authenticate` header (RFC 9110 11.6.1).

/// What a server says to a request without a token, or with one that is not enough.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Challenge {
    /// Where the metadata of the resource is.
    pub resource_metadata: Option<String>,
    /// The scopes that the request takes.
    pub scope: Option<String>,
    /// Why a token was refused: `invalid_token`, `insufficient_scope`.
    pub error: Option<String>,
    /// The server's words for that.
    pub error_description: Option<String>,
}

/// Bytes of a header that are looked at.
const LONGEST: usize = 8 << 10;
/// Challenges of one answer that are looked at.
const MOST: usize = 16;

impl Challenge {
    /// The first challenge that asks for an access token, among all of all headers.
    /// Other schemes are passed over.
    pub fn find<'h>(headers: impl IntoIterator<Item = &'h str>) -> Option<Self> {
        let all = headers.into_iter().filter(|header| header.len() <= LONGEST).flat_map(split);
        let is_for_tokens = |scheme: &str| {
            scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("dpop")
        };
        let (_, parameters) = all.take(MOST).find(|(scheme, _)| is_for_tokens(scheme))?;
        let mut challenge = Self::default();
        for (name, value) in parameters {
            let member = match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut challenge.resource_metadata,
                "scope" => &mut challenge.scope,
                "error" => &mut challenge.error,
                "error_description" => &mut challenge.error_description,
                _ => continue,
            };
            // A parameter that comes twice says nothing new.
            member.get_or_insert(value);
        }
        Some(challenge)
    }

    /// Whether the token is good and too little is allowed with it.
    pub fn asks_for_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// The scopes that it names.
    pub fn scopes(&self) -> Vec<String> {
        split_scopes(self.scope.as_deref().unwrap_or_default())
    }
}

/// The scopes of a list with blanks, each once.
pub(super) fn split_scopes(list: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in list.split_ascii_whitespace() {
        if !scopes.iter().any(|other| other == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

type NamedChallenge = (String, Vec<(String, String)>);

/// The challenges of a header: a scheme and its parameters each.
fn split(header: &str) -> Vec<NamedChallenge> {
    let mut challenges: Vec<NamedChallenge> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (word, after) = rest.split_at(rest.find(|sign| !is_token(sign)).unwrap_or(rest.len()));
        if word.is_empty() {
            // Nothing that a header may have: what follows cannot be told apart.
            return challenges;
        }
        let value = after.trim_start_matches([' ', '\t']).strip_prefix('=');
        let parameter = value.map(|value| value.trim_start_matches([' ', '\t']));
        let count = challenges.len();
        match (parameter, challenges.last_mut()) {
            (Some(value), Some((_, parameters))) if !value.starts_with(['=', ',']) => {
                let (value, after) = read_value(value);
                if !value.is_empty() {
                    parameters.push((word.to_owned(), value));
                }
                rest = after;
            }
            // The end of a token68, which has no name.
            (Some(value), Some(_)) => rest = value.trim_start_matches('='),
            (None, _) if count < MOST => {
                challenges.push((word.to_owned(), Vec::new()));
                rest = after;
            }
            (None | Some(_), _) => return challenges,
        }
    }
}

/// A value, quoted or bare, and what follows it.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut signs = quoted.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(signs.next().map(|(_, sign)| sign)),
            _ => value.push(sign),
        }
    }
    // A quote without an end cannot be trusted to be all.
    (String::new(), "")
}

fn is_token(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(headers: &[&str]) -> Option<(Option<String>, Option<String>, Option<String>)> {
        let challenge = Challenge::find(headers.iter().copied())?;
        Some((challenge.resource_metadata, challenge.scope, challenge.error))
    }

    #[test]
    fn the_challenge_for_tokens_is_found_in_every_form() {
        // wire: OC-2, AUTH-2
        let url = || Some("https://a/b".to_owned());
        let text = |text: &str| Some(text.to_owned());
        for (headers, expected) in [
            (&[][..], None),
            (&["Basic realm=\"x\""], None),
            (&["Bearer"], Some((None, None, None))),
            (&["bEaReR resource_metadata=\"https://a/b\""], Some((url(), None, None))),
            (&["Bearer resource_metadata=https://a/b, scope=a"], Some((url(), text("a"), None))),
            (&["Bearer scope = \"a b\" , error=\"e\""], Some((None, text("a b"), text("e")))),
            (
                &["Basic realm=\"a, Bearer scope=no\", Bearer scope=\"b\""],
                Some((None, text("b"), None)),
            ),
            (
                &["Negotiate", "Digest qop=\"auth\"", "DPoP algs=\"ES256\", scope=\"s\""],
                Some((None, text("s"), None)),
            ),
            (&["Negotiate YWJj==, Bearer scope=\"q\\\"x\""], Some((None, text("q\"x"), None))),
            (&["Bearer scope=\"a\", Bearer scope=\"b\""], Some((None, text("a"), None))),
            (&["Bearer scope=\"a\", scope=\"b\""], Some((None, text("a"), None))),
            (&["Bearer scope=\"no end"], Some((None, None, None))),
            (&["Bearer scope=\"a\";error=\"e\""], Some((None, text("a"), None))),
            (&["=, Bearer"], None),
        ] {
            assert_eq!(found(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn long_headers_and_many_challenges_are_not_read() {
        // wire: OB-1
        let long = format!("Bearer scope=\"{}\"", "a".repeat(LONGEST));
        assert_eq!(found(&[&long]), None);
        let many = "Basic a=b, ".repeat(MOST);
        assert_eq!(found(&[&many, "Bearer"]), None);
        assert_eq!(found(&[&many[..many.len() - 11], "Bearer"]), Some((None, None, None)));
    }
}
