//! How large a datagram may be on the way to one peer: found by probes inside the session, as RFC
//! 8899 has it, since what routers say of it is neither certain to come nor authentic. Sending
//! the probes, and the echoes to those of the peer, is the gateway's.

use crate::control::Probe;
use crate::limits;

/// Sizes of outer packets that links have: each with what tunnels, tags and dial-up take off
/// 1,500, then those of jumbo frames. A size in between is found as the next smaller one. 1,340
/// and 1,360 carry inner packets of 1,280 bytes, over IPv4 and over IPv6.
const SIZES: [usize; 15] = [
    limits::BASE_OUTER_BYTES,
    1_340,
    1_360,
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

/// What is known of the way to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The largest outer packet that is known to arrive.
    pub outer_bytes: usize,
    /// Whether larger ones were tried and did not arrive, or are refused by the own link. Before,
    /// nobody is told that a packet is too large.
    pub is_settled: bool,
}

/// The search for the largest packet that reaches one peer.
#[derive(Clone, Debug)]
pub struct PathMtu {
    /// Of [`SIZES`]: the largest that the own link can send.
    most: usize,
    /// Of [`SIZES`]: the largest that came back.
    confirmed: usize,
    state: State,
    /// Whether the own link refuses a size that was confirmed before.
    is_narrowed: bool,
    next_id: u32,
    /// Echoes of probes before this one say nothing of the way as it is now.
    first_id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Sizes from `confirmed` up to this one are in question.
    Searching { highest: usize, probe: Option<Outstanding> },
    /// Whether the confirmed size still arrives is in question.
    Confirming { probe: Outstanding, searched_ms: u64 },
    /// Nothing is in question.
    Found { searched_ms: u64, confirmed_ms: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outstanding {
    size: usize,
    sent_ms: u64,
    tries: u32,
}

impl Default for Path {
    fn default() -> Self {
        Self { outer_bytes: limits::BASE_OUTER_BYTES, is_settled: false }
    }
}

impl PathMtu {
    /// A search in which nothing is known but the own link's MTU.
    pub fn new(link_mtu: usize) -> Self {
        let most = SIZES.iter().rposition(|size| *size <= link_mtu).unwrap_or(0);
        let state = State::begin(most);
        Self { most, confirmed: 0, state, is_narrowed: false, next_id: 0, first_id: 0 }
    }

    /// What is known. A link that carries less than IPv6 asks for cannot be told apart from one
    /// that is down.
    pub fn path(&self) -> Path {
        let is_settled = self.is_narrowed || !matches!(self.state, State::Searching { .. });
        Path { outer_bytes: SIZES[self.confirmed], is_settled }
    }

    /// The probe that is due, if one is.
    pub fn poll(&mut self, mono_ms: u64) -> Option<Probe> {
        self.wakeup_ms().filter(|at_ms| *at_ms <= mono_ms)?;
        match self.state {
            State::Searching { highest, probe } => self.search(mono_ms, highest, probe),
            State::Confirming { probe, .. } if probe.tries >= limits::PROBES => {
                self.doubt();
                self.poll(mono_ms)
            }
            State::Confirming { probe, searched_ms } => {
                let (probe, to_send) = self.probe(mono_ms, probe.size, probe.tries);
                self.state = State::Confirming { probe, searched_ms };
                Some(to_send)
            }
            State::Found { .. } => None,
        }
    }

    fn search(
        &mut self,
        mono_ms: u64,
        highest: usize,
        probe: Option<Outstanding>,
    ) -> Option<Probe> {
        let (highest, again) = match probe {
            Some(probe) if probe.tries >= limits::PROBES => (probe.size - 1, None),
            other => (highest, other),
        };
        if highest <= self.confirmed {
            self.state = State::Found { searched_ms: mono_ms, confirmed_ms: mono_ms };
            return None;
        }
        // The own link's size first: mostly it is the path's. Then by halves.
        let is_first = probe.is_none() && highest == self.most;
        let halved = self.confirmed + (highest - self.confirmed).div_ceil(2);
        let size = again.map_or(if is_first { highest } else { halved }, |probe| probe.size);
        let (probe, to_send) = self.probe(mono_ms, size, again.map_or(0, |probe| probe.tries));
        self.state = State::Searching { highest, probe: Some(probe) };
        Some(to_send)
    }

    fn probe(&mut self, mono_ms: u64, size: usize, tries: u32) -> (Outstanding, Probe) {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let outstanding = Outstanding { size, sent_ms: mono_ms, tries: tries + 1 };
        (outstanding, Probe { id, outer_bytes: SIZES[size] as u16 })
    }

    /// The peer has received a probe; perhaps one that was given up already.
    pub fn on_echo(&mut self, mono_ms: u64, echo: Probe) {
        let of_now = self.next_id.wrapping_sub(self.first_id);
        let is_of_now = echo.id.wrapping_sub(self.first_id) < of_now;
        let size = SIZES.iter().position(|size| *size == usize::from(echo.outer_bytes));
        let Some(size) = size.filter(|size| is_of_now && *size <= self.most) else { return };
        self.confirmed = self.confirmed.max(size);
        match self.state {
            State::Searching { highest, .. } if self.confirmed >= highest => {
                self.state = State::Found { searched_ms: mono_ms, confirmed_ms: mono_ms };
            }
            State::Searching { highest, probe } => {
                let probe = probe.filter(|probe| probe.size > self.confirmed);
                self.state = State::Searching { highest, probe };
            }
            State::Confirming { probe, searched_ms } if size >= probe.size => {
                self.state = State::Found { searched_ms, confirmed_ms: mono_ms };
            }
            State::Confirming { .. } | State::Found { .. } => {}
        }
    }

    /// Something was sent: from time to time, what was found is tried anew. Without traffic
    /// nothing is.
    pub fn on_sent(&mut self, mono_ms: u64) {
        let State::Found { searched_ms, confirmed_ms } = self.state else { return };
        if mono_ms >= searched_ms + limits::PROBE_AGAIN_MS && self.confirmed < self.most {
            self.state = State::begin(self.most);
        } else if mono_ms >= confirmed_ms + limits::CONFIRM_MS && self.confirmed > 0 {
            let probe = Outstanding { size: self.confirmed, sent_ms: 0, tries: 0 };
            self.state = State::Confirming { probe, searched_ms };
        }
    }

    /// The own link refuses packets of this size: smaller ones are tried at once, and a larger one
    /// when it is time to look for more.
    pub fn on_refused(&mut self, outer_bytes: usize) {
        let most = SIZES.iter().rposition(|size| *size < outer_bytes).unwrap_or(0);
        let highest = match self.state {
            State::Searching { highest, .. } => highest,
            State::Confirming { .. } | State::Found { .. } if self.confirmed <= most => return,
            State::Confirming { .. } | State::Found { .. } => self.confirmed,
        };
        if highest <= most {
            return;
        }
        if self.confirmed > most {
            (self.confirmed, self.is_narrowed) = (0, true);
        }
        self.first_id = self.next_id;
        self.state = State::begin(most);
    }

    /// Large packets seem to be lost, or the peer is elsewhere: what was confirmed is in question
    /// again.
    pub fn doubt(&mut self) {
        (self.confirmed, self.is_narrowed) = (0, false);
        self.first_id = self.next_id;
        self.state = State::begin(self.most);
    }

    /// When [`PathMtu::poll`] is to be asked next.
    pub fn wakeup_ms(&self) -> Option<u64> {
        match self.state {
            State::Searching { probe: Some(probe), .. } => Some(probe.sent_ms + limits::PROBE_MS),
            State::Searching { probe: None, .. } => Some(0),
            State::Confirming { probe, .. } if probe.tries == 0 => Some(0),
            State::Confirming { probe, .. } => Some(probe.sent_ms + limits::PROBE_MS),
            State::Found { .. } => None,
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

    /// Lets a search run for so long on a path of this size, of which each `lost`-th probe is lost,
    /// while data is sent. Gives how many probes there were.
    fn run(search: &mut PathMtu, path: usize, lost: usize, from_ms: u64, to_ms: u64) -> usize {
        let mut probes = 0;
        for now_ms in (from_ms..to_ms).step_by(100) {
            search.on_sent(now_ms);
            while let Some(probe) = search.poll(now_ms) {
                probes += 1;
                if usize::from(probe.outer_bytes) <= path && probes % lost != 0 {
                    search.on_echo(now_ms, probe);
                }
            }
        }
        probes
    }

    fn found(path: usize, link: usize) -> Path {
        let outer_bytes = SIZES.into_iter().filter(|size| *size <= path.min(link)).max().unwrap();
        Path { outer_bytes, is_settled: true }
    }

    proptest! {
        #[test]
        fn it_finds_what_the_path_carries(path in 1_280_usize..9_200, link in 1_280_usize..9_200) {
            let mut search = PathMtu::new(link);
            run(&mut search, path, usize::MAX, 0, 30_000);
            prop_assert_eq!(search.path(), found(path, link));
        }

        #[test]
        fn a_lost_probe_now_and_then_does_not_matter(path in 1_280_usize..9_200, lost in 2_usize..9) {
            let mut search = PathMtu::new(1_500);
            run(&mut search, path, lost, 0, 60_000);
            prop_assert_eq!(search.path(), found(path, 1_500));
        }

        #[test]
        fn it_follows_a_path_that_changes(paths in proptest::collection::vec(1_280_usize..1_600, 1..6)) {
            let mut search = PathMtu::new(1_500);
            for (nth, path) in paths.into_iter().enumerate() {
                let begin_ms = nth as u64 * 700_000;
                run(&mut search, path, usize::MAX, begin_ms, begin_ms + 700_000);
                prop_assert_eq!(search.path(), found(path, 1_500));
            }
        }
    }

    #[test]
    fn one_probe_is_enough_where_the_path_is_as_wide_as_the_link() {
        let mut search = PathMtu::new(1_500);
        assert_eq!(run(&mut search, 1_500, usize::MAX, 0, limits::CONFIRM_MS), 1);
        assert_eq!(search.path(), found(1_500, 1_500));
    }

    #[test]
    fn nothing_is_tried_while_nothing_is_sent() {
        let mut search = PathMtu::new(1_500);
        run(&mut search, 1_500, usize::MAX, 0, 10_000);
        while let Some(probe) = search.poll(10_000) {
            search.on_echo(10_000, probe);
        }
        assert_eq!((search.wakeup_ms(), search.poll(10_000_000)), (None, None));
    }

    #[test]
    fn a_path_that_narrows_is_found_out_within_ten_seconds() {
        let mut search = PathMtu::new(1_500);
        run(&mut search, 1_500, usize::MAX, 0, 20_000);
        run(&mut search, 1_425, usize::MAX, 20_000, 30_000);
        assert!(search.path().outer_bytes <= 1_420, "{search:?}");
    }

    #[test]
    fn what_the_own_link_refuses_is_not_sent_again_before_its_time() {
        for path in [1_280, 1_400, 1_472] {
            let mut search = PathMtu::new(9_000);
            run(&mut search, 9_000, usize::MAX, 0, 10_000);
            assert_eq!(search.path(), found(9_000, 9_000));
            // The link changes: what is too large for it is refused at once, and never lost.
            let mut sizes = vec![9_000];
            search.on_refused(9_000);
            let narrowed = Path { outer_bytes: limits::BASE_OUTER_BYTES, is_settled: true };
            assert_eq!(search.path(), narrowed, "senders are told at once");
            for now_ms in (10_000..20_000).step_by(100) {
                search.on_sent(now_ms);
                while let Some(probe) = search.poll(now_ms) {
                    let size = usize::from(probe.outer_bytes);
                    if size <= path {
                        search.on_echo(now_ms, probe);
                    } else {
                        assert!(!sizes.contains(&size), "{size} was refused already");
                        sizes.push(size);
                        search.on_refused(size);
                    }
                }
            }
            assert_eq!(search.path(), found(path, 9_000), "{sizes:?}");
        }
        let mut search = PathMtu::new(1_500);
        run(&mut search, 1_400, usize::MAX, 0, 10_000);
        search.on_refused(1_500);
        search.on_refused(1_420);
        assert_eq!(search.path(), found(1_400, 1_500), "smaller ones pass as before");
    }

    #[test]
    fn an_echo_from_before_a_doubt_confirms_nothing() {
        let mut search = PathMtu::new(1_500);
        let before = search.poll(0).unwrap();
        search.doubt();
        let after = search.poll(limits::PROBE_MS).unwrap();
        search.on_echo(limits::PROBE_MS, before);
        assert_eq!(search.path(), Path::default());
        search.on_echo(limits::PROBE_MS, Probe { outer_bytes: 9_000, ..after });
        assert_eq!(search.path(), Path::default(), "it was never tried");
        search.on_echo(limits::PROBE_MS, after);
        assert_eq!(search.path(), found(1_500, 1_500));
    }
}
