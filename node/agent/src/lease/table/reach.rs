//! By which addresses a lease's pods, and those that may call them, are known: ranges of the
//! pool, kept on record, and what the session hears of the tunnel.

use std::net::IpAddr;

use ipnet::IpNet;
use mercato_broker::{Desired, Side};
use mercato_offload::address::{MappedRange, Tunnel};
use mercato_offload::{guest, home};
use mercato_protocol::id::{ClusterId, ContractId};

use super::Leases;
use super::meeting::meeting;
use crate::context::Turn;
use crate::effect::{Effect, GuestWork, OwnRanges, Work};
use crate::input::{TunnelInput, TunnelNews};
use crate::lease::Lease;
use crate::lease::ranges::Given;
use crate::limits;
use crate::record::RangeOwner;
use crate::request::Request;

impl Leases {
    pub(crate) fn on_tunnel(&mut self, input: TunnelInput, turn: &mut Turn<'_>) {
        match input {
            TunnelInput::Pool(pool) => {
                self.ranges.set_pool(pool);
                for id in self.ids(|_| true) {
                    self.reach(id, turn);
                }
                self.name_own_ranges(turn);
            }
            TunnelInput::Own(blocks) => {
                self.own = blocks.into_iter().take(limits::OWN_BLOCKS).collect();
                self.name_own_ranges(turn);
            }
            TunnelInput::Peer(cluster, ranges) => {
                let ids = self.ids(|lease| lease.peer().cluster == cluster);
                if ids.is_empty() {
                    return;
                }
                // As a peer of any size needs them: a larger one would leave the others nothing.
                let ranges = ranges.into_iter().filter(|it| bits(*it) <= limits::PEER_RANGE_BITS);
                self.of_peers.insert(cluster, ranges.take(limits::RANGES).collect());
                for id in ids {
                    self.reach(id, turn);
                }
                self.forget_ranges(cluster, turn);
            }
        }
    }

    /// Gives the lease the ranges that it is to have, and says so.
    pub(super) fn reach(&mut self, id: ContractId, turn: &mut Turn<'_>) {
        let Some(lease) = self.get(&id) else { return };
        let cluster = lease.peer().cluster;
        let wanted: Vec<_> = match lease.spec.side {
            Side::Consumer => vec![(
                RangeOwner::Lease(id),
                bits_for(lease.spec.contract.terms.quantity.pods),
                None,
            )],
            Side::Provider => {
                let of_guests: Vec<IpNet> = self.ranges.of_guests(id).collect();
                // Its own guests are among those that the consumer's other leases meet.
                let is_own = |range: &&IpNet| of_guests.iter().any(|own| overlap(own, range));
                let ranges = self.of_peers.get(&cluster).into_iter().flatten();
                let of_peer = ranges.filter(|range| !is_own(range));
                let of_peer = of_peer.map(|range| (RangeOwner::Peer(cluster, *range), *range));
                let of_guests = of_guests.iter();
                let of_guests = of_guests.map(|range| (RangeOwner::Guests(id, *range), *range));
                let wish = |(owner, range)| (owner, bits(range), Some(range));
                of_peer.chain(of_guests).map(wish).collect()
            }
        };
        let mut ranges = Vec::new();
        for (owner, bits, wish) in wanted {
            let Some(local) = self.give(owner, bits, wish, turn) else { continue };
            ranges.push(MappedRange { inner: wish.unwrap_or(local), local });
        }
        let own = self.said_own.blocks.clone();
        let others = self.said_own.leases.clone().into_iter();
        let Some(lease) = self.get_mut(&id) else { return };
        if lease.spec.side == Side::Consumer {
            let is_own = |range: &IpNet| ranges.iter().any(|own| overlap(&own.local, range));
            let others = others.filter(|range| !is_own(range));
            let others = others.map(|range| MappedRange { inner: range, local: range });
            lease.reach.own = own.into_iter().chain(others).collect();
        }
        let are_others = lease.reach.ranges != ranges;
        lease.reach.ranges = ranges;
        lease.hear_of_tunnel(lease.reach.news, turn);
        lease.reconcile(turn);
        // After the desire, by which they are made.
        if are_others {
            lease.handle_guest(turn.now, guest::Input::Reached, &mut turn.out);
        }
    }

    /// Provider: guests call each other, too, by the addresses that their home has for them, and are made with
    /// these. In which range these are follows from one of them, and from how many there may be: home's
    /// choice goes by the same rule. `before` is what was asked before the lease was heard.
    pub(super) fn know_guests(&mut self, id: ContractId, before: usize, turn: &mut Turn<'_>) {
        let asked = turn.out.get(before..).unwrap_or_default().iter();
        let addresses = asked.filter_map(|request| {
            let Request::Outside(effect) = request else { return None };
            if let Effect::Map(_, of) = effect {
                return Some(of.address);
            }
            let Effect::Work(
                _,
                Work::Guest(GuestWork::Apply(_, content) | GuestWork::Make(_, content)),
            ) = effect
            else {
                return None;
            };
            content.called
        });
        let addresses: Vec<IpAddr> = addresses.collect();
        let Some(lease) = self.get(&id) else { return };
        let pods = lease.spec.contract.terms.quantity.pods;
        let mut is_new = false;
        for address in addresses {
            let known: Vec<IpNet> = self.ranges.of_guests(id).collect();
            let is_full = known.len() == limits::GUEST_RANGES;
            if is_full || known.iter().any(|range| range.contains(&address)) {
                continue;
            }
            // As large as the first was taken to be: such ranges are one or apart.
            let bits = known.first().map_or_else(|| bits_for(pods), |range| bits(*range));
            let length = IpNet::from(address).max_prefix_len().saturating_sub(bits);
            let Ok(range) = IpNet::new(address, length) else { continue };
            let owner = RangeOwner::Guests(id, range.trunc());
            self.make_room(id, range.trunc(), turn);
            is_new |= self.give(owner, bits, Some(range.trunc()), turn).is_some();
        }
        if is_new {
            // Whoever has lost a range gets another.
            let Some(cluster) = self.get(&id).map(|lease| lease.peer().cluster) else { return };
            for id in self.ids(|lease| lease.peer().cluster == cluster) {
                self.reach(id, turn);
            }
        }
    }

    /// The consumer may have told already where the guests of this lease are, as its other leases
    /// know them. Nobody has called one there: the first is not known yet.
    fn make_room(&mut self, id: ContractId, range: IpNet, turn: &mut Turn<'_>) {
        let Some(cluster) = self.get(&id).map(|lease| lease.peer().cluster) else { return };
        let is_theirs = |owner: &RangeOwner| match owner {
            RangeOwner::Peer(of, told) => *of == cluster && overlap(told, &range),
            RangeOwner::Lease(_)
            | RangeOwner::Nodes
            | RangeOwner::Own(_)
            | RangeOwner::Guests(..) => false,
        };
        for owner in self.ranges.owners().filter(is_theirs).collect::<Vec<_>>() {
            turn.note(self.ranges.give_back(owner));
        }
    }

    pub(super) fn name_own_ranges(&mut self, turn: &mut Turn<'_>) {
        let nodes = self.give(RangeOwner::Nodes, limits::NODES_BITS, None, turn);
        let mut blocks = Vec::new();
        for block in self.own.clone() {
            let local = self.give(RangeOwner::Own(block), bits(block), None, turn);
            blocks.extend(local.map(|inner| MappedRange { inner, local: block }));
        }
        let room = limits::RANGES.saturating_sub(blocks.len() + limits::FIRST_RANGES);
        let is_over = |lease: &&Lease| lease.spec.desired == Desired::Gone;
        let bought = self.all.values().filter(|lease| lease.spec.side == Side::Consumer);
        let bought = bought.filter(|lease| !is_over(lease) && !lease.reach.ranges.is_empty());
        let bought = bought.map(|lease| lease.reach.ranges.iter().map(|range| range.local));
        let bought: Vec<Vec<IpNet>> = bought.map(Iterator::collect).collect();
        let own = OwnRanges { nodes, blocks, leases: meeting(&bought, room) };
        if own != self.said_own {
            turn.push(Effect::OwnRanges(own.clone()));
            self.said_own = own;
            for id in self.ids(|lease| lease.spec.side == Side::Consumer) {
                self.reach(id, turn);
            }
        }
    }

    fn give(
        &mut self,
        owner: RangeOwner,
        bits: u8,
        wish: Option<IpNet>,
        turn: &mut Turn<'_>,
    ) -> Option<IpNet> {
        let Given { range, record } = self.ranges.give(owner, bits, wish)?;
        match record {
            // It could not be kept, and would be another one after a restart.
            Some(_) if self.rests => {
                self.ranges.give_back(owner);
                return None;
            }
            record => turn.extend(record.map(Effect::Persist)),
        }
        Some(range)
    }

    /// Of a cluster, what no lease needs any more is free again.
    pub(super) fn forget_ranges(&mut self, cluster: ClusterId, turn: &mut Turn<'_>) {
        let needed = self.with(&cluster).next().is_some();
        if !needed {
            self.of_peers.remove(&cluster);
        }
        let told = self.of_peers.get(&cluster);
        let is_stale = |owner: &RangeOwner| match owner {
            RangeOwner::Peer(of, range) => {
                *of == cluster && !told.is_some_and(|told| told.contains(range))
            }
            RangeOwner::Lease(_)
            | RangeOwner::Nodes
            | RangeOwner::Own(_)
            | RangeOwner::Guests(..) => false,
        };
        let stale: Vec<_> = self.ranges.owners().filter(is_stale).collect();
        for owner in stale {
            turn.note(self.ranges.give_back(owner));
        }
    }

    /// Ranges of leases that there are no more.
    pub(super) fn drop_ranges(&mut self, turn: &mut Turn<'_>) {
        let is_stale = |owner: &RangeOwner| match owner {
            RangeOwner::Lease(id) | RangeOwner::Guests(id, _) => self.get(id).is_none(),
            RangeOwner::Peer(cluster, _) => self.with(cluster).next().is_none(),
            RangeOwner::Nodes | RangeOwner::Own(_) => false,
        };
        let stale: Vec<_> = self.ranges.owners().filter(is_stale).collect();
        for owner in stale {
            turn.note(self.ranges.give_back(owner));
        }
    }
}

impl Lease {
    /// The session hears what is known of the tunnel.
    pub(super) fn hear_of_tunnel(&mut self, news: TunnelNews, turn: &mut Turn<'_>) {
        self.reach.news = news;
        let range = self.reach.ranges.first();
        let tunnel = match (news, range) {
            (TunnelNews::Off, _) | (_, None) => Tunnel::Off,
            (TunnelNews::Awaited, Some(_)) => Tunnel::Awaited,
            (TunnelNews::Carries, Some(range)) => Tunnel::Agreed(range.local),
        };
        self.handle_home(turn.now, home::Input::Tunnel(tunnel), &mut turn.out);
    }
}

/// Two ranges have something in common if one is in the other.
fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// How many addresses a range has, as a power of two.
fn bits(range: IpNet) -> u8 {
    range.max_prefix_len() - range.prefix_len()
}

/// As many pods find room in a range of so many addresses, as a power of two, also while as many of
/// them end; and those of a lease that grows.
fn bits_for(pods: u64) -> u8 {
    let pods = pods.clamp(limits::RANGE_PODS, mercato_offload::limits::PODS as u64);
    (2 * pods).next_power_of_two().trailing_zeros() as u8
}
