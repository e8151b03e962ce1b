//! The two eras of the protocol and the transports this SDK has for them.

use clap::ValueEnum;
use rmcp::model::ProtocolVersion;

/// Anything that stops a peer before its work is done.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a server is willing to speak.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Era {
    /// The `initialize` handshake, up to 2025-11-25
    Legacy,
    /// 2026-07-28
    Modern,
    Both,
}

impl Era {
    pub(crate) fn versions(self) -> &'static [ProtocolVersion] {
        let known = ProtocolVersion::KNOWN_VERSIONS;
        let handshakes = ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25).len();
        match self {
            Self::Legacy => &known[..handshakes],
            Self::Modern => &known[handshakes..],
            Self::Both => known,
        }
    }
}

/// `sse` is parsed so that asking for it gets a sentence instead of a usage error.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Stdio,
    Http,
    Sse,
}

/// Said when the transport of 2024-11-05 is asked for.
pub(crate) const NO_SSE: &str = "rmcp 3.8 has no HTTP+SSE transport";
