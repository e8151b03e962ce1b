//! Which addresses may be connected to, where strangers name the URL.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// Which addresses may be connected to. They are checked after the name was looked up, so
/// that no name can lead elsewhere in between (OB-3).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Reach {
    /// All.
    #[default]
    Anywhere,
    /// Those of the Internet, and these besides.
    PublicAnd(Arc<[AddressRange]>),
}

impl Reach {
    /// The addresses of the Internet alone.
    pub fn public() -> Self {
        Self::PublicAnd(Arc::new([]))
    }

    /// Whether an address may be connected to.
    pub fn has(&self, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::PublicAnd(besides) => {
                is_public(address) || besides.iter().any(|range| range.has(address))
            }
        }
    }
}

/// An address, or all that begin alike: `10.0.0.7`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// This machine.
    pub const LOOPBACK: [Self; 2] = [
        Self { first: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), bits: 8 },
        Self { first: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 },
    ];

    /// Networks of companies and homes (RFC 1918, RFC 6598, RFC 4193).
    pub const PRIVATE: [Self; 5] = [
        Self { first: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), bits: 8 },
        Self { first: IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), bits: 12 },
        Self { first: IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), bits: 16 },
        Self { first: IpAddr::V4(Ipv4Addr::new(100, 64, 0, 0)), bits: 10 },
        Self { first: IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), bits: 7 },
    ];

    /// Whether an address is one of these.
    pub fn has(&self, address: IpAddr) -> bool {
        let number = |address: IpAddr| match address {
            IpAddr::V4(four) => u128::from(four.to_bits()) << 96,
            IpAddr::V6(six) => six.to_bits(),
        };
        let address = plain(address);
        let differs =
            (number(address) ^ number(self.first)).checked_shr(128 - u32::from(self.bits));
        address.is_ipv4() == self.first.is_ipv4() && differs.unwrap_or(0) == 0
    }
}

/// The text is neither an address nor a range of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("write an address, or a range of them: 10.0.0.7 or 10.0.0.0/8")]
pub struct BadRange;

impl FromStr for AddressRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let (first, bits) = text.split_once('/').map_or((text, None), |(it, n)| (it, Some(n)));
        let first: IpAddr = first.parse().map_err(|_| BadRange)?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| BadRange))?;
        if bits > most { Err(BadRange) } else { Ok(Self { first, bits }) }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.first, self.bits)
    }
}

/// The address that a host is, if it is one and no name: in every spelling that browsers,
/// proxies and system libraries take for one (OB-4).
pub(super) fn address_of(host: &str) -> Option<IpAddr> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    plain.parse().ok().or_else(|| loose_v4(host.strip_suffix('.').unwrap_or(host)))
}

/// `127.1`, `0x7f000001`, `0177.0.0.1`, `2130706433`: up to four numbers, of which the last
/// fills what is left.
fn loose_v4(host: &str) -> Option<IpAddr> {
    let numbers: Vec<u32> = host.split('.').map(loose_number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last().filter(|(_, first)| first.len() < 4)?;
    let has_room = u64::from(*last) >> (8 * (4 - first.len())) == 0;
    let mut octets = last.to_be_bytes();
    for (octet, number) in octets.iter_mut().zip(first) {
        *octet = u8::try_from(*number).ok()?;
    }
    has_room.then_some(IpAddr::V4(octets.into()))
}

/// A number as C writes it.
fn loose_number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hex, text.strip_prefix('0')) {
        (Some(""), _) => Some(0),
        (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8).ok(),
        _ if text.starts_with('+') => None,
        _ => text.parse().ok(),
    }
}

/// An IPv4 address that is written as IPv6 is that IPv4 address.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    let [.., high, low] = six.segments();
    let four = |high: u16, low: u16| {
        let ([one, two], [three, four]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(one, two, three, four))
    };
    match six.segments() {
        // Mapped, NAT64, and the IPv4-compatible ones of old; `::` and `::1` are their own.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => four(high, low),
        [0, 0, 0, 0, 0, 0, ..] if !six.is_unspecified() && !six.is_loopback() => four(high, low),
        // 6to4 has it in front.
        [0x2002, high, low, ..] => four(high, low),
        _ => address,
    }
}

/// Whether an address is one of the Internet.
pub fn is_public(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(four) => is_public_v4(four),
        IpAddr::V6(six) => is_public_v6(six),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !is_special
}

/// Only what is given out at all, `2000::/3`, without documentation, tests and tunnels.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let is_special = matches!((a, b), (0x2001, 0..=0x01ff | 0x0db8) | (0x3fff, 0..=0x0fff));
    (0x2000..=0x3fff).contains(&a) && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_a_network_are_told_from_those_of_the_internet() {
        // wire: OB-3, OA-6, AUTH-4
        for inside in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "64:ff9b:1::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
            assert!(!Reach::public().has(inside.parse().unwrap()), "{inside}");
        }
        for outside in [
            "1.1.1.1",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
        let besides = Reach::PublicAnd(AddressRange::LOOPBACK.into());
        assert!(besides.has("::ffff:127.0.0.1".parse().unwrap()));
        assert!(besides.has("::1".parse().unwrap()));
        assert!(!besides.has("10.0.0.1".parse().unwrap()));
        assert!(Reach::Anywhere.has("10.0.0.1".parse().unwrap()));
        assert_eq!(address_of("[::1]"), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(address_of("localhost"), None);
    }

    #[test]
    fn an_address_is_one_in_every_spelling() {
        // wire: OB-3, OB-4, OA-6
        for (host, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0X7F.1", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("10.1.256", "10.1.1.0"),
            ("0", "0.0.0.0"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(address_of(host), Some(address.parse().unwrap()), "{host}");
        }
        for name in
            ["a.example", "1.2.3.4.5", "1.256.1.1", "127.16777216", "1.2.3.256", "+1", "", "09"]
        {
            assert_eq!(address_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_range_has_what_begins_like_it() {
        // wire: OB-3
        for (range, address, expected) in [
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.8", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("10.0.0.0/8", "10.9.9.9", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("10.1.1.1/32", "10.1.1.1", true),
            ("10.1.1.1/32", "10.1.1.2", false),
            ("fd00::/8", "fdab::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "10.0.0.1", false),
            ("0.0.0.0/0", "10.0.0.1", true),
        ] {
            let range = AddressRange::from_str(range).unwrap();
            assert_eq!(range.has(address.parse().unwrap()), expected, "{range:?} {address}");
        }
        for bad in ["10.0.0.0/33", "corp.example", "10.0.0/8", "10.0.0.0/x", ""] {
            assert_eq!(AddressRange::from_str(bad), Err(BadRange), "{bad}");
        }
    }
}
