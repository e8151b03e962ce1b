//! `host:port` and origins, taken apart without allocating.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host and the port that was written, if any.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Authority<'a> {
    pub(super) host: Name<'a>,
    pub(super) port: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Name<'a> {
    Address(IpAddr),
    Domain(&'a str),
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Address(one), Self::Address(two)) => one == two,
            (Self::Domain(one), Self::Domain(two)) => one.eq_ignore_ascii_case(two),
            _ => false,
        }
    }
}

impl Eq for Name<'_> {}

impl<'a> Authority<'a> {
    /// `None` for anything that is not exactly a host with an optional port:
    /// userinfo, spaces, an IPv6 address without brackets, port 70000.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (host, rest) = if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            (Name::Address(address.parse::<Ipv6Addr>().ok()?.into()), rest)
        } else {
            let end = text.find(':').unwrap_or(text.len());
            (Name::parse(&text[..end])?, &text[end..])
        };
        let port = if rest.is_empty() { None } else { Some(port(rest.strip_prefix(':')?)?) };
        Some(Self { host, port })
    }

    /// Whether only this machine answers to it, whatever DNS says.
    pub(super) fn is_loopback(&self) -> bool {
        match self.host {
            Name::Address(address) => address.to_canonical().is_loopback(),
            Name::Domain(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Whether it is an address: no DNS server can point it elsewhere.
    pub(super) fn is_address(&self) -> bool {
        matches!(self.host, Name::Address(_))
    }
}

impl<'a> Name<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        (!text.is_empty() && text.bytes().all(fits)).then_some(Self::Domain(text))
    }
}

fn port(digits: &str) -> Option<u16> {
    // `parse` alone would take a sign.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// An `Origin` that has a host; `null` has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// Whether a web page can have it, unlike `vscode-webview://` and the like.
    pub(super) is_web: bool,
    pub(super) authority: Authority<'a>,
}

impl<'a> Origin<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        Some(Self { is_web, authority: Authority::parse(authority)? })
    }
}
