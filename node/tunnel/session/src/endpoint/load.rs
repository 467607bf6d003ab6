//! Which initiations are looked at with the private key, the expensive part of a handshake. The
//! first of each second are; of more only those with a cookie, and of one address only a few, so
//! that whoever has an address cannot take the processor from all others (WireGuard, section 5.3).

use std::hash::{Hash as _, Hasher as _};
use std::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher13;

use crate::limits;

/// Counters of addresses. Two addresses with one counter share what is allowed; which do changes
/// every second. A guess.
const COUNTERS: usize = 4_096;

/// What is done with an initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is looked at.
    Examine,
    /// Its sender is to come again with a cookie.
    AskForCookie,
    /// There were too many from its address.
    Refuse,
}

/// Who asks to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    pub(super) from: SocketAddr,
    pub(super) has_cookie: bool,
    /// Whether a peer is known to be at this address.
    pub(super) is_known: bool,
}

/// Initiations of this second.
pub(super) struct Load {
    second: u64,
    initiations: u32,
    /// Cookies that were asked for: by strangers, and by who is where a peer is known to be.
    cookies: [u32; 2],
    by_address: Box<[u8; COUNTERS]>,
    examined: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            second: 0,
            initiations: 0,
            cookies: [0; 2],
            by_address: Box::new([0; COUNTERS]),
            examined: 0,
        }
    }
}

impl Load {
    /// How many were looked at, ever.
    pub(super) fn examined(&self) -> u64 {
        self.examined
    }

    /// Counts one more. `key` is random, and this gateway's alone.
    pub(super) fn judge(&mut self, mono_ms: u64, asks: Asks, key: [u64; 2]) -> Verdict {
        let Asks { from, has_cookie, is_known } = asks;
        let second = mono_ms / 1_000;
        if self.second != second {
            self.second = second;
            self.initiations = 0;
            self.cookies = [0; 2];
            self.by_address.fill(0);
        }
        self.initiations = self.initiations.saturating_add(1);
        let is_loaded = self.initiations > limits::INITIATIONS_PER_SECOND;
        if is_loaded && !has_cookie {
            let cookies = &mut self.cookies[usize::from(is_known)];
            *cookies = cookies.saturating_add(1);
            let is_too_much = *cookies > limits::COOKIES_PER_SECOND;
            return if is_too_much { Verdict::Refuse } else { Verdict::AskForCookie };
        }
        if is_loaded {
            let of_address = &mut self.by_address[place(from, second, key)];
            if *of_address >= limits::INITIATIONS_PER_ADDRESS {
                return Verdict::Refuse;
            }
            *of_address += 1;
        }
        self.examined += 1;
        Verdict::Examine
    }
}

/// A person has 2^64 addresses of version 6 at least.
fn place(from: SocketAddr, second: u64, [one, other]: [u64; 2]) -> usize {
    let mut hasher = SipHasher13::new_with_keys(one, other);
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => ip.octets().hash(&mut hasher),
        IpAddr::V6(ip) => ip.octets()[..8].hash(&mut hasher),
    }
    second.hash(&mut hasher);
    hasher.finish() as usize % COUNTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_a_few_and_others_have_theirs() {
        let mut load = Load::default();
        let at = |port| SocketAddr::from(([192, 0, 2, 1], port));
        let other: SocketAddr = "[2001:db8::1]:7475".parse().unwrap();
        let judge_at = |load: &mut Load, mono_ms, from, has_cookie| {
            load.judge(mono_ms, Asks { from, has_cookie, is_known: false }, [1, 2])
        };
        let judge = |load: &mut Load, from, has_cookie| judge_at(load, 5_000, from, has_cookie);
        for port in 0..limits::INITIATIONS_PER_SECOND as u16 {
            assert_eq!(judge(&mut load, at(port), false), Verdict::Examine);
        }
        assert_eq!(judge(&mut load, at(1), false), Verdict::AskForCookie);
        for port in 0..limits::INITIATIONS_PER_ADDRESS {
            assert_eq!(judge(&mut load, at(port.into()), true), Verdict::Examine);
        }
        assert_eq!(judge(&mut load, at(1), true), Verdict::Refuse);
        assert_eq!(judge(&mut load, other, true), Verdict::Examine);
        assert_eq!(judge_at(&mut load, 6_000, at(1), false), Verdict::Examine);
    }

    #[test]
    fn a_flood_of_strangers_leaves_cookies_for_peers() {
        let mut load = Load::default();
        let asks = |is_known| {
            let from = SocketAddr::from(([192, 0, 2, 1], 1));
            Asks { from, has_cookie: false, is_known }
        };
        let of_strangers: Vec<_> =
            (0..100_000).map(|_| load.judge(5_000, asks(false), [1, 2])).collect();
        let cookies = of_strangers.iter().filter(|verdict| **verdict == Verdict::AskForCookie);
        assert_eq!(cookies.count(), limits::COOKIES_PER_SECOND as usize);
        assert_eq!(load.judge(5_000, asks(false), [1, 2]), Verdict::Refuse);
        assert_eq!(load.judge(5_000, asks(true), [1, 2]), Verdict::AskForCookie);
    }
}
