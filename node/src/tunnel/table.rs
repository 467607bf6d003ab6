//! What the gateway should know, and what has to be told it so that it does: peers, leases, and
//! which address exists for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use mercato_protocol::id::{ClusterId, ContractId, Digest};
use mercato_session::{Change, Entry, Group, PublicKey, RangeEntry, Role};

/// All that the gateway should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) gateways: BTreeMap<PublicKey, KnownGateway>,
    pub(super) clusters: BTreeMap<ClusterId, Vec<PublicKey>>,
    pub(super) leases: BTreeMap<ContractId, Row>,
}

/// A gateway of another cluster: of one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownGateway {
    pub(super) claims: Vec<KnownClaim>,
}

/// A cluster whose gateway it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownClaim {
    pub(super) cluster: ClusterId,
    /// Of the secret that handshakes begin with.
    pub(super) secret: Digest,
    pub(super) addresses: Vec<SocketAddr>,
}

/// What is known of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) cluster: ClusterId,
    pub(super) role: Role,
    /// When it ends, by the wall clock.
    pub(super) until_ms: u64,
    /// Addresses of this cluster, and what they are called between the gateways.
    pub(super) locals: BTreeMap<IpAddr, IpAddr>,
    /// Guests of the other side, one by one, likewise.
    pub(super) guests: BTreeMap<IpAddr, IpAddr>,
    /// Pods of the other side by their ranges, likewise.
    pub(super) ranges: BTreeMap<IpNet, IpNet>,
    /// Those of its guests that guests of other leases reach, likewise, and in which group.
    pub(super) members: BTreeMap<IpAddr, (IpAddr, Group)>,
    /// Addresses of its guests that are gone, as they were called here, likewise.
    pub(super) gone: BTreeMap<IpAddr, IpAddr>,
}

impl Row {
    /// One that has no address yet.
    pub(super) fn new(cluster: ClusterId, role: Role, until_ms: u64) -> Self {
        Self {
            cluster,
            role,
            until_ms,
            locals: BTreeMap::new(),
            guests: BTreeMap::new(),
            ranges: BTreeMap::new(),
            members: BTreeMap::new(),
            gone: BTreeMap::new(),
        }
    }

    /// The groups of its guests are those that they reach.
    fn groups(&self) -> BTreeSet<Group> {
        self.members.values().map(|(_, group)| *group).collect()
    }
}

/// In which group guests of a namespace are.
pub(super) fn group(namespace: &str) -> Group {
    let digest = Digest::of(namespace.as_bytes()).0;
    Group(std::array::from_fn(|at| digest[at]))
}

/// What has to be told, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Gateways that are new, or of which something is.
    pub(super) added: BTreeSet<PublicKey>,
    pub(super) changes: Vec<Change>,
    /// Gateways that are to be forgotten.
    pub(super) removed: BTreeSet<PublicKey>,
}

impl Table {
    /// What has to be told so that a gateway that knows `before` knows this. `wall_ms` is now.
    pub(super) fn since(&self, before: &Self, wall_ms: u64) -> Difference {
        let mut told = Difference::default();
        for (key, gateway) in &self.gateways {
            if before.gateways.get(key) != Some(gateway) {
                told.added.insert(*key);
            }
        }
        let gone = before.gateways.keys().filter(|key| !self.gateways.contains_key(key));
        told.removed = gone.copied().collect();
        let changes = &mut told.changes;
        let ended = before.leases.keys().filter(|lease| !self.leases.contains_key(lease));
        changes.extend(ended.copied().map(Change::RemoveLease));
        let parted = before.clusters.keys().filter(|cluster| !self.clusters.contains_key(cluster));
        changes.extend(parted.copied().map(Change::RemoveLink));
        for (cluster, gateways) in &self.clusters {
            let Some(active) = gateways.first() else { continue };
            if before.clusters.get(cluster) != Some(gateways) {
                let (gateways, active) = (gateways.clone(), *active);
                changes.push(Change::Link { cluster: *cluster, gateways, active });
            }
        }
        for (lease, row) in &self.leases {
            row.since(*lease, before.leases.get(lease), wall_ms, changes);
        }
        told
    }
}

impl Row {
    fn since(
        &self,
        lease: ContractId,
        before: Option<&Self>,
        wall_ms: u64,
        changes: &mut Vec<Change>,
    ) {
        let nothing = Self::new(self.cluster, self.role, self.until_ms);
        let known = before.filter(|it| (it.cluster, it.role) == (self.cluster, self.role));
        if before.is_some() && known.is_none() {
            changes.push(Change::RemoveLease(lease));
        }
        if known.is_none_or(|known| known.until_ms != self.until_ms) {
            let left = Duration::from_millis(self.until_ms.saturating_sub(wall_ms));
            changes.push(Change::Lease { lease, cluster: self.cluster, role: self.role, left });
        }
        let known = known.unwrap_or(&nothing);
        let entry = |(local, inner)| Entry { lease, local, inner };
        let back = differing(&known.gone, &self.gone);
        changes.extend(back.map(entry).map(Change::RemoveGone));
        // What gives an address up comes first: another may have it now.
        let gone = differing(&known.members, &self.members);
        changes.extend(gone.map(|(local, _)| Change::RemoveMember { lease, local }));
        let (before, now) = (known.groups(), self.groups());
        let gone = before.difference(&now);
        changes.extend(gone.map(|group| Change::RemoveGroup { lease, group: *group }));
        let gone = differing(&known.locals, &self.locals);
        changes.extend(gone.map(|(local, _)| Change::RemoveLocal { lease, local }));
        let gone = differing(&known.guests, &self.guests);
        changes.extend(gone.map(|(local, _)| Change::RemoveRemote { lease, local }));
        let gone = differing(&known.ranges, &self.ranges);
        changes.extend(gone.map(|(local, _)| Change::RemoveRemoteRange { lease, local }));
        changes.extend(differing(&self.locals, &known.locals).map(entry).map(Change::AddLocal));
        changes.extend(differing(&self.guests, &known.guests).map(entry).map(Change::AddRemote));
        let ranges = differing(&self.ranges, &known.ranges);
        let range = |(local, inner)| RangeEntry { lease, local, inner };
        changes.extend(ranges.map(range).map(Change::AddRemoteRange));
        let more = now.difference(&before);
        changes.extend(more.map(|group| Change::AddGroup { lease, group: *group }));
        let members = differing(&self.members, &known.members);
        changes.extend(members.map(|(local, (inner, group))| Change::AddMember {
            entry: Entry { lease, local, inner },
            group,
        }));
        let gone = differing(&self.gone, &known.gone);
        changes.extend(gone.map(entry).map(Change::AddGone));
    }
}

/// What the one has and the other has not, or otherwise.
fn differing<A: Copy + Ord, B: Copy + PartialEq>(
    one: &BTreeMap<A, B>,
    other: &BTreeMap<A, B>,
) -> impl Iterator<Item = (A, B)> {
    let differs = |(key, value): &(&A, &B)| other.get(key) != Some(value);
    one.iter().filter(differs).map(|(key, value)| (*key, *value))
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;

    use super::*;

    const LEASE: ContractId = ContractId([1; 16]);
    const ROME: ClusterId = ClusterId([1; 32]);
    const KEY: PublicKey = PublicKey::new([9; 32]);

    fn row(locals: &[(&str, &str)]) -> Row {
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        Row {
            locals: locals.iter().map(|(one, other)| (address(one), address(other))).collect(),
            ..Row::new(ROME, Role::Provider, 60_000)
        }
    }

    fn table(row: Row) -> Table {
        let claim = KnownClaim { cluster: ROME, secret: Digest([1; 32]), addresses: vec![] };
        let gateway = KnownGateway { claims: vec![claim] };
        Table {
            gateways: [(KEY, gateway)].into(),
            clusters: [(ROME, vec![KEY])].into(),
            leases: [(LEASE, row)].into(),
        }
    }

    #[test]
    fn a_link_comes_before_its_lease_and_that_before_its_addresses() {
        let all = table(row(&[("10.42.0.5", "10.200.0.9")]));
        let told = all.since(&Table::default(), 10_000);
        assert_eq!(told.added, [KEY].into());
        let [Change::Link { .. }, Change::Lease { left, .. }, Change::AddLocal(entry)] =
            &told.changes[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((left.as_secs(), entry.inner.to_string()), (50, "10.200.0.9".to_owned()));
        assert_eq!(all.since(&all, 20_000), Difference::default());
        let told = Table::default().since(&all, 20_000);
        assert_eq!(told.changes, [Change::RemoveLease(LEASE), Change::RemoveLink(ROME)]);
        assert_eq!(told.removed, [KEY].into());
    }

    #[test]
    fn a_lease_has_the_groups_of_its_guests_as_long_as_it_has_one() {
        let with = |guests: &[(&str, &str)]| {
            let of = |(address, namespace): &(&str, &str)| {
                let address: IpAddr = address.parse().unwrap();
                (address, (address, group(namespace)))
            };
            let members: BTreeMap<_, _> = guests.iter().map(of).collect();
            table(Row { members, role: Role::Consumer, ..row(&[]) })
        };
        let (shop, bank) = (group("shop"), group("bank"));
        assert_ne!(shop, bank);
        let one = with(&[("10.203.5.1", "shop")]);
        let two = with(&[("10.203.5.1", "shop"), ("10.203.5.2", "shop"), ("10.203.5.3", "bank")]);
        let told = one.since(&Table::default(), 0).changes;
        let [Change::Link { .. }, Change::Lease { .. }, Change::AddGroup { group, .. }, last] =
            &told[..]
        else {
            panic!("{told:?}")
        };
        assert!(
            *group == shop && matches!(last, Change::AddMember { group, .. } if *group == shop)
        );
        let told = two.since(&one, 0).changes;
        let [Change::AddGroup { group, .. }, Change::AddMember { .. }, Change::AddMember { .. }] =
            &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!(*group, bank);
        let told = one.since(&two, 0).changes;
        let gone = |change: &&Change| matches!(change, Change::RemoveMember { .. });
        assert_eq!(told.iter().filter(gone).count(), 2);
        assert!(told.contains(&Change::RemoveGroup { lease: LEASE, group: bank }), "{told:?}");
        assert_eq!(told.len(), 3, "the other group has a guest yet");
    }

    #[test]
    fn a_guest_is_gone_after_its_address_is_given_up_and_until_another_has_it() {
        let address: IpAddr = "10.203.5.1".parse().unwrap();
        let entry = Entry { lease: LEASE, local: address, inner: address };
        let of = |guests: BTreeMap<IpAddr, IpAddr>, gone: BTreeMap<IpAddr, IpAddr>| {
            table(Row { guests, gone, role: Role::Consumer, ..row(&[]) })
        };
        let lives = of([(address, address)].into(), BTreeMap::new());
        let gone = of(BTreeMap::new(), [(address, address)].into());
        let told = gone.since(&lives, 0).changes;
        let given_up = Change::RemoveRemote { lease: LEASE, local: address };
        assert_eq!(told, [given_up, Change::AddGone(entry)]);
        let told = lives.since(&gone, 0).changes;
        assert_eq!(told, [Change::RemoveGone(entry), Change::AddRemote(entry)]);
    }

    #[test]
    fn an_address_is_given_up_before_another_has_it() {
        let before = table(row(&[("10.42.0.5", "10.200.0.9"), ("10.42.0.6", "10.200.0.7")]));
        let after = table(row(&[("10.42.0.7", "10.200.0.9"), ("10.42.0.6", "10.200.0.7")]));
        let [Change::RemoveLocal { local, .. }, Change::AddLocal(entry)] =
            &after.since(&before, 0).changes[..]
        else {
            panic!()
        };
        assert_eq!(
            (local.to_string(), entry.local.to_string()),
            ("10.42.0.5".into(), "10.42.0.7".into())
        );
        let moved = table(row(&[("10.42.0.5", "10.200.0.8"), ("10.42.0.6", "10.200.0.7")]));
        let told = moved.since(&before, 0).changes;
        assert!(matches!(told[..], [Change::RemoveLocal { .. }, Change::AddLocal(_)]), "{told:?}");
    }
}
