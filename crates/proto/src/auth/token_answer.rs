//! What comes from the token endpoint and its neighbours: tokens, or what they say instead.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::AuthError;
use super::machine::AuthResponse;
use super::record::Secret;

/// Bytes of a token that servers take in a header.
const LONGEST_TOKEN: usize = 16 << 10;

/// No token is good for longer than ten years, in seconds.
const LONGEST_LIFE: u64 = 10 * 365 * 86_400;

#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    pub(super) access_token: Secret,
    pub(super) token_type: Option<String>,
    pub(super) refresh_token: Option<Secret>,
    pub(super) id_token: Option<Secret>,
    pub(super) scope: Option<String>,
    #[serde(default, deserialize_with = "read_seconds")]
    pub(super) expires_in: Option<u64>,
}

/// Seconds; some servers write them as text, or with a fraction.
fn read_seconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(from)?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let seconds: Option<u64> = text.split('.').next().and_then(|whole| whole.parse().ok());
    Ok(seconds.map(|seconds| seconds.min(LONGEST_LIFE)))
}

pub(super) fn read_tokens(
    endpoint: &str,
    response: &AuthResponse,
) -> Result<TokenAnswer, AuthError> {
    let answer: TokenAnswer = read_json(endpoint, response)?;
    let token = answer.access_token.reveal();
    if token.is_empty()
        || token.len() > LONGEST_TOKEN
        || !token.bytes().all(|it| it.is_ascii_graphic())
    {
        return Err(AuthError::OddToken { found: "unusable".to_owned() });
    }
    Ok(answer)
}

/// The answer of an endpoint, if it is no error. A few say errors with status 200 (OC-41).
pub(super) fn read_json<T: DeserializeOwned>(
    endpoint: &str,
    response: &AuthResponse,
) -> Result<T, AuthError> {
    if !(200..300).contains(&response.status) || error_code(response).is_some() {
        return Err(refusal(endpoint, response));
    }
    serde_json::from_slice(&response.body).map_err(|error| AuthError::BadAnswer {
        url: endpoint.to_owned(),
        problem: format!("answers with what cannot be used: {error}"),
    })
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
    error_description: Option<String>,
}

pub(super) fn error_code(response: &AuthResponse) -> Option<String> {
    serde_json::from_slice::<ErrorAnswer>(&response.body).ok().map(|answer| answer.error)
}

pub(super) fn refusal(endpoint: &str, response: &AuthResponse) -> AuthError {
    let said = serde_json::from_slice::<ErrorAnswer>(&response.body);
    match said {
        Ok(said) if response.status < 500 && response.status != 429 => {
            AuthError::Refused { error: said.error, description: said.error_description }
        }
        // Not in the words of the rules, and still a no.
        Err(_) if (400..500).contains(&response.status) && response.status != 429 => {
            AuthError::Refused { error: format!("HTTP {}", response.status), description: None }
        }
        _ => {
            let problem = format!("answers with HTTP {}", response.status);
            AuthError::BadAnswer { url: endpoint.to_owned(), problem }
        }
    }
}

/// What an endpoint said instead of an answer, for people.
pub(super) fn describe_error(response: &AuthResponse) -> String {
    match serde_json::from_slice::<ErrorAnswer>(&response.body) {
        Ok(ErrorAnswer { error, error_description: Some(description) }) => {
            format!("{description} ({error})")
        }
        Ok(ErrorAnswer { error, .. }) => error,
        Err(_) => format!("HTTP {}", response.status),
    }
}
