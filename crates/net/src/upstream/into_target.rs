//! A server by its URL or its command line: what the one-liners of a client take.

use http::{HeaderMap, HeaderValue, Uri, header};

use super::{ServerTarget, Strategy, Target};
use crate::http::fetch::{Fetch, FetchOptions, SetupError};
use crate::stdio::child::{Command, ParseError};

/// Why a text names no server.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TargetError {
    /// A token that no header can carry. It is not repeated.
    #[error("the token has characters that a header cannot carry; check that it was copied whole")]
    BadToken,
    /// The command line is none.
    #[error(transparent)]
    Command(#[from] ParseError),
    /// The HTTP client cannot be made.
    #[error(transparent)]
    Fetch(#[from] SetupError),
    /// The text is not repeated, as it may contain a password.
    #[error("this is no URL that begins with http:// or https://; a command is for Client::spawn")]
    NotUrl,
}

/// What [`Client::connect`](crate::client::Client::connect) takes: a URL as text or as a
/// [`Uri`], a [`Command`], or a [`ServerTarget`] with all there is to say about a server.
pub trait IntoTarget {
    /// The server that it names.
    fn into_target(self) -> Result<ServerTarget, TargetError>;
}

impl IntoTarget for ServerTarget {
    fn into_target(self) -> Result<ServerTarget, TargetError> {
        Ok(self)
    }
}

impl IntoTarget for Command {
    fn into_target(self) -> Result<ServerTarget, TargetError> {
        Ok(ServerTarget::command(self, std::env::vars_os().collect()))
    }
}

impl IntoTarget for Uri {
    fn into_target(self) -> Result<ServerTarget, TargetError> {
        if !matches!(self.scheme_str(), Some("http" | "https")) || self.host().is_none() {
            return Err(TargetError::NotUrl);
        }
        let fetch = Fetch::new(FetchOptions::default())?;
        Ok(ServerTarget::url(self, Strategy::default(), HeaderMap::new(), fetch))
    }
}

impl IntoTarget for &str {
    fn into_target(self) -> Result<ServerTarget, TargetError> {
        self.parse::<Uri>().map_err(|_| TargetError::NotUrl)?.into_target()
    }
}

impl IntoTarget for &String {
    fn into_target(self) -> Result<ServerTarget, TargetError> {
        self.as_str().into_target()
    }
}

impl IntoTarget for String {
    fn into_target(self) -> Result<ServerTarget, TargetError> {
        self.as_str().into_target()
    }
}

/// What [`Client::spawn`](crate::client::Client::spawn) takes: a command line, or a [`Command`].
pub trait IntoCommand {
    /// The command that it names.
    fn into_command(self) -> Result<Command, ParseError>;
}

impl IntoCommand for Command {
    fn into_command(self) -> Result<Self, ParseError> {
        Ok(self)
    }
}

impl IntoCommand for &str {
    fn into_command(self) -> Result<Command, ParseError> {
        Command::parse(self)
    }
}

impl IntoCommand for &String {
    fn into_command(self) -> Result<Command, ParseError> {
        Command::parse(self)
    }
}

impl IntoCommand for String {
    fn into_command(self) -> Result<Command, ParseError> {
        Command::parse(&self)
    }
}

impl ServerTarget {
    /// The same URL, which is shown this token: `Authorization: Bearer TOKEN`.
    pub fn bearer(self, token: &str) -> Result<Self, TargetError> {
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut value = value.map_err(|_| TargetError::BadToken)?;
        value.set_sensitive(true);
        let Target::Url { url, strategy, mut headers } = self.details.target.clone() else {
            return Err(TargetError::NotUrl);
        };
        headers.insert(header::AUTHORIZATION, value);
        Ok(self.but(|details| details.target = Target::Url { url, strategy, headers }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_told_from_what_is_none() {
        let server = "https://user:secret@example.com/mcp?key=1".into_target().unwrap();
        assert_eq!(server.name(), "example.com/mcp");
        for text in ["", "npx -y some-server", "/usr/bin/server", "ftp://example.com", "http:"] {
            assert_eq!(text.into_target().unwrap_err(), TargetError::NotUrl, "{text}");
        }
    }

    #[test]
    fn a_token_is_shown_and_never_printed() {
        let server = "http://localhost/mcp".into_target().unwrap().bearer("s3cret").unwrap();
        let Target::Url { headers, .. } = server.target() else { panic!("a URL") };
        assert_eq!(headers[header::AUTHORIZATION], "Bearer s3cret");
        assert!(!format!("{server:?} {:?}", server.target()).contains("s3cret"));
        let wrong = "http://localhost/mcp".into_target().unwrap().bearer("a\nb").unwrap_err();
        assert_eq!(wrong, TargetError::BadToken);
        let command = Command::new("server").into_target().unwrap();
        assert_eq!(command.bearer("s3cret").unwrap_err(), TargetError::NotUrl);
    }
}
