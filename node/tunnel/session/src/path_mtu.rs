//! How large a datagram may be on the way to one peer: found by probes inside the session, as RFC
//! 8899 has it, since what routers say of it is neither certain to come nor authentic. Sending
//! the probes, and the echoes to those of the peer, is the gateway's.

use crate::limits;

/// Sizes of outer packets that links have: each with what tunnels, tags and dial-up take off
/// 1,500, then those of jumbo frames. A size in between is found as the next smaller one.
const SIZES: [usize; 14] = [
    limits::BASE_OUTER_BYTES,
    1_340,
    1_380,
    1_400,
    1_420,
    1_440,
    1_460,
    1_480,
    1_492,
    1_500,
    4_000,
    8_000,
    8_950,
    limits::MOST_OUTER_BYTES,
];

/// The search for the largest packet that reaches one peer.
#[derive(Clone, Debug)]
pub struct PathMtu {
    /// Of [`SIZES`]: the largest that the own link can send.
    most: usize,
    /// Of [`SIZES`]: the largest that came back.
    confirmed: usize,
    state: State,
    next_id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Sizes from `confirmed` up to this one are in question.
    Searching { highest: usize, probe: Option<Outstanding> },
    /// Nothing is in question before this moment.
    Found { again_ms: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outstanding {
    id: u32,
    size: usize,
    sent_ms: u64,
    tries: u32,
}

/// A probe to be sent: padded so that the outer packet has exactly this size, and not to be
/// fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// By which its echo is known.
    pub id: u32,
    /// Of the outer packet.
    pub outer_bytes: usize,
}

impl PathMtu {
    /// A search in which nothing is known but the own link's MTU.
    pub fn new(link_mtu: usize) -> Self {
        let most = SIZES.iter().rposition(|size| *size <= link_mtu).unwrap_or(0);
        Self { most, confirmed: 0, state: State::begin(most), next_id: 0 }
    }

    /// The largest outer packet that is known to arrive. A link that carries less than IPv6 asks
    /// for cannot be told apart from one that is down.
    pub fn outer_bytes(&self) -> usize {
        SIZES[self.confirmed]
    }

    /// The probe that is due, if one is.
    pub fn poll(&mut self, mono_ms: u64) -> Option<Probe> {
        if self.wakeup_ms() > mono_ms {
            return None;
        }
        let State::Searching { highest, probe } = self.state else {
            self.state = State::begin(self.most);
            return self.poll(mono_ms);
        };
        let (highest, tries) = match probe {
            Some(probe) if probe.tries >= limits::PROBES => (probe.size - 1, 0),
            Some(probe) => (highest, probe.tries),
            None => (highest, 0),
        };
        if highest <= self.confirmed {
            self.state = State::Found { again_ms: mono_ms + limits::PROBE_AGAIN_MS };
            return None;
        }
        // The own link's size first: mostly it is the path's. Then by halves.
        let is_first = probe.is_none() && highest == self.most;
        let halved = self.confirmed + (highest - self.confirmed).div_ceil(2);
        let size = match probe.filter(|_| tries > 0) {
            Some(probe) => probe.size,
            None if is_first => highest,
            None => halved,
        };
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let probe = Some(Outstanding { id, size, sent_ms: mono_ms, tries: tries + 1 });
        self.state = State::Searching { highest, probe };
        Some(Probe { id, outer_bytes: SIZES[size] })
    }

    /// The peer has received a probe.
    pub fn on_echo(&mut self, mono_ms: u64, id: u32) {
        let State::Searching { highest, probe: Some(probe) } = self.state else { return };
        if probe.id != id {
            return;
        }
        self.confirmed = probe.size;
        self.state = if probe.size >= highest {
            State::Found { again_ms: mono_ms + limits::PROBE_AGAIN_MS }
        } else {
            State::Searching { highest, probe: None }
        };
    }

    /// Large packets seem to be lost, or the peer is elsewhere: what was confirmed is in question
    /// again.
    pub fn doubt(&mut self) {
        self.confirmed = 0;
        self.state = State::begin(self.most);
    }

    /// When [`PathMtu::poll`] is to be asked next.
    pub fn wakeup_ms(&self) -> u64 {
        match self.state {
            State::Searching { probe: Some(probe), .. } => probe.sent_ms + limits::PROBE_MS,
            State::Searching { probe: None, .. } => 0,
            State::Found { again_ms } => again_ms,
        }
    }
}

impl State {
    fn begin(most: usize) -> Self {
        Self::Searching { highest: most, probe: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lets a search run for so long on a path of this size, of which each `lost`-th probe is lost.
    /// Gives how many probes there were.
    fn run(search: &mut PathMtu, path: usize, lost: usize, from_ms: u64, to_ms: u64) -> usize {
        let mut probes = 0;
        for now_ms in (from_ms..to_ms).step_by(100) {
            while let Some(probe) = search.poll(now_ms) {
                probes += 1;
                if probe.outer_bytes <= path && probes % lost != 0 {
                    search.on_echo(now_ms, probe.id);
                }
            }
        }
        probes
    }

    proptest! {
        #[test]
        fn it_finds_what_the_path_carries(path in 1_280_usize..9_200, link in 1_280_usize..9_200) {
            let mut search = PathMtu::new(link);
            run(&mut search, path, usize::MAX, 0, 30_000);
            let expected = SIZES.into_iter().filter(|size| *size <= path.min(link)).max();
            prop_assert_eq!(Some(search.outer_bytes()), expected);
        }

        #[test]
        fn a_lost_probe_now_and_then_does_not_matter(path in 1_280_usize..9_200, lost in 2_usize..9) {
            let mut search = PathMtu::new(1_500);
            run(&mut search, path, lost, 0, 60_000);
            let expected = SIZES.into_iter().filter(|size| *size <= path.min(1_500)).max();
            prop_assert_eq!(Some(search.outer_bytes()), expected);
        }
    }

    #[test]
    fn one_probe_is_enough_where_the_path_is_as_wide_as_the_link() {
        let mut search = PathMtu::new(1_500);
        assert_eq!(run(&mut search, 1_500, usize::MAX, 0, 60_000), 1);
        assert_eq!(search.outer_bytes(), 1_500);
    }

    #[test]
    fn a_path_that_narrows_is_found_out_and_one_that_widens_too() {
        let mut search = PathMtu::new(1_500);
        run(&mut search, 1_500, usize::MAX, 0, 10_000);
        search.doubt();
        assert_eq!(search.outer_bytes(), limits::BASE_OUTER_BYTES);
        run(&mut search, 1_425, usize::MAX, 10_000, 40_000);
        assert_eq!(search.outer_bytes(), 1_420);
        run(&mut search, 1_500, usize::MAX, 40_000, 60_000 + limits::PROBE_AGAIN_MS);
        assert_eq!(search.outer_bytes(), 1_500);
    }

    #[test]
    fn an_echo_of_an_older_probe_confirms_nothing() {
        let mut search = PathMtu::new(1_500);
        let first = search.poll(0).unwrap();
        let second = search.poll(limits::PROBE_MS).unwrap();
        search.on_echo(limits::PROBE_MS, first.id);
        assert_eq!(search.outer_bytes(), limits::BASE_OUTER_BYTES);
        search.on_echo(limits::PROBE_MS, second.id);
        assert_eq!(search.outer_bytes(), 1_500);
    }
}
