//! Which addresses may be connected to, where strangers name the URL.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses may be connected to. They are checked after the name was looked up, so
/// that no name can lead elsewhere in between (OB-3).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Reach {
    /// All.
    #[default]
    Anywhere,
    /// Those of the Internet.
    Public,
    /// Those of the Internet, and this machine.
    PublicAndLoopback,
}

impl Reach {
    /// Whether an address may be connected to.
    pub fn has(self, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Public => is_public(address),
            Self::PublicAndLoopback => is_public(address) || plain(address).is_loopback(),
        }
    }
}

/// The address that a host is, if it is one and no name.
pub(super) fn address_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
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
            assert!(!Reach::Public.has(inside.parse().unwrap()), "{inside}");
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
        assert!(Reach::PublicAndLoopback.has("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!Reach::PublicAndLoopback.has("10.0.0.1".parse().unwrap()));
        assert!(Reach::Anywhere.has("10.0.0.1".parse().unwrap()));
        assert_eq!(address_of("[::1]"), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(address_of("localhost"), None);
    }
}
