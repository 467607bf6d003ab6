//! Which way packets of a tunnel are lost, in words for a person: from where to which port, and who
//! is to let them through.

use std::net::SocketAddr;

use mercato_session::{Link, Lost, PeerState, PublicKey};

/// Of a link that is down: which way packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) lost: Lost,
    /// The UDP port of this cluster's gateway.
    pub(super) own_port: u16,
}

impl Loss {
    /// By what is known of a cluster's gateways: that one is looked at first that is preferred. None
    /// if one is reached, or nobody asks.
    pub(super) fn of(keys: &[PublicKey], known: &[PeerState], own_port: u16) -> Option<Self> {
        let of = |key: &PublicKey| known.iter().find(|state| state.key == *key);
        let all: Vec<_> = keys.iter().filter_map(of).collect();
        if all.iter().any(|state| state.link == Link::Up) {
            return None;
        }
        let lost = all.iter().find_map(|state| state.lost)?;
        Some(Self { lost, own_port })
    }

    /// What is lost and what to do, with a gateway that is said to be there.
    pub(super) fn text(self, addresses: &[SocketAddr]) -> String {
        let own = format!("UDP port {} of this cluster's gateway", self.own_port);
        let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.lost {
            Lost::FromPeer => format!(
                "nothing comes from the other cluster's gateway at {addresses} to {own}: let UDP \
                 through in that direction (firewall, NAT), out of the other cluster and into this \
                 one; or the gateway over there is away. Its mercato status says whether what is sent \
                 from here arrives"
            ),
            Lost::ToPeer => format!(
                "what is sent from {own} does not arrive at the other cluster's gateway at \
                 {addresses} (UDP), though that one is heard: let UDP through in that direction \
                 (firewall, NAT), out of this cluster and into the other one"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [PublicKey; 2] = [PublicKey::new([1; 32]), PublicKey::new([2; 32])];

    fn state(key: PublicKey, link: Link, lost: Option<Lost>) -> PeerState {
        let path = mercato_session::Path::default();
        PeerState {
            key,
            link,
            since: None,
            lost,
            address: None,
            round_trip: None,
            path,
            sessions: 0,
        }
    }

    #[test]
    fn a_cluster_is_lost_if_none_of_its_gateways_is_reached() {
        let [one, other] = KEYS;
        let down = |key, lost| state(key, Link::Down, Some(lost));
        let of = |known: &[PeerState]| Loss::of(&KEYS, known, 7475).map(|loss| loss.lost);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[state(one, Link::Down, None)]), None, "nobody asks");
        assert_eq!(of(&[down(one, Lost::ToPeer)]), Some(Lost::ToPeer));
        let both = [down(other, Lost::FromPeer), down(one, Lost::ToPeer)];
        assert_eq!(of(&both), Some(Lost::ToPeer), "of the preferred one");
        assert_eq!(of(&[down(one, Lost::ToPeer), state(other, Link::Up, None)]), None);
        assert_eq!(of(&[down(PublicKey::new([3; 32]), Lost::ToPeer)]), None, "somebody else's");
    }

    #[test]
    fn each_direction_is_told_with_its_port_and_what_to_do() {
        let at = ["192.0.2.7:7475".parse().unwrap()];
        let said = |lost| Loss { lost, own_port: 7480 }.text(&at);
        for (lost, parts) in [
            (Lost::FromPeer, ["nothing comes from", "out of the other cluster and into this one"]),
            (Lost::ToPeer, ["does not arrive at", "out of this cluster and into the other one"]),
        ] {
            for part in parts.into_iter().chain(["192.0.2.7:7475", "UDP port 7480"]) {
                assert!(said(lost).contains(part), "{}", said(lost));
            }
        }
    }
}
