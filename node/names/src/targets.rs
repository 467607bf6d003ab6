//! What SRV records lead to: ports, each at a name. A headless Service may have millions of them, far more
//! than any answer holds: each is made when it is taken, and no more are looked at than may be of use.

use std::collections::BTreeSet;

use crate::limits;

/// What SRV records of one name lead to, made one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Targets<'a> {
    groups: Vec<Group<'a>>,
    /// What comes after each of the names, before the domain.
    below: String,
}

/// Names that have the same ports: each of them each of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group<'a> {
    pub(crate) ports: Vec<u16>,
    /// Labels; an empty one is what comes after it.
    pub(crate) names: Vec<&'a str>,
}

/// What was taken of them for one answer.
pub(crate) struct Taken<'a> {
    /// Ports, with the names that have them; each pair once.
    pub(crate) all: Vec<(u16, &'a str)>,
    /// How many there are, or may be where not all were looked at.
    pub(crate) of: usize,
}

impl<'a> Targets<'a> {
    /// Of these groups, below this name.
    pub(crate) fn new(groups: impl IntoIterator<Item = Group<'a>>, below: String) -> Self {
        let groups = groups.into_iter().filter(|group| group.len() > 0).collect();
        Self { groups, below }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// As many of them as an answer of so many bytes may hold, and one that shows that there are more.
    /// Another one is the first with each `turn`.
    pub(crate) fn taken(&self, turn: usize, room: u16) -> Taken<'a> {
        let count = self.groups.iter().map(Group::len).sum::<usize>();
        let (mut all, mut known, mut left) = (Vec::new(), BTreeSet::new(), usize::from(room));
        let start = turn.checked_rem(count).unwrap_or_default();
        for (looked_at, target) in self.from(start).enumerate() {
            if looked_at == limits::TARGETS_LOOKED_AT {
                return Taken { all, of: count };
            }
            // What listens at one port by TCP and by UDP is told of by one record.
            if !known.insert(target) {
                continue;
            }
            all.push(target);
            let Some(rest) = left.checked_sub(self.bytes(target.1)) else {
                return Taken { all, of: count };
            };
            left = rest;
        }
        let of = all.len();
        Taken { all, of }
    }

    /// The whole name that is meant, before the domain.
    pub(crate) fn full(&self, name: &str) -> String {
        if name.is_empty() { self.below.clone() } else { format!("{name}.{}", self.below) }
    }

    /// What a record of it takes in an answer, at least: the domain comes on top.
    fn bytes(&self, name: &str) -> usize {
        limits::SRV_BYTES + name.len() + self.below.len()
    }

    /// All of them, beginning with this one.
    fn from(&self, start: usize) -> impl Iterator<Item = (u16, &'a str)> {
        let (mut first, mut offset) = (0, start);
        while let Some(group) = self.groups.get(first).filter(|group| group.len() <= offset) {
            (first, offset) = (first + 1, offset - group.len());
        }
        let (before, after) = self.groups.split_at(first);
        let of = |group: &'_ Group<'a>, at| group.at(at);
        let head =
            after.iter().take(1).flat_map(move |it| (offset..it.len()).map(move |n| of(it, n)));
        let rest = after.iter().skip(1).chain(before);
        let rest = rest.flat_map(move |it| (0..it.len()).map(move |n| of(it, n)));
        let tail = after.iter().take(1).flat_map(move |it| (0..offset).map(move |n| of(it, n)));
        head.chain(rest).chain(tail)
    }
}

impl<'a> Group<'a> {
    fn len(&self) -> usize {
        self.ports.len() * self.names.len()
    }

    fn at(&self, index: usize) -> (u16, &'a str) {
        (self.ports[index / self.names.len()], self.names[index % self.names.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Targets<'static> {
        let group = |ports: &[u16], names: &[&'static str]| Group {
            ports: ports.to_vec(),
            names: names.to_vec(),
        };
        let groups = [
            group(&[], &["z"]),
            group(&[1, 2], &["a", "b"]),
            group(&[], &[]),
            group(&[2, 3], &["b"]),
        ];
        Targets::new(groups, "web.shop.svc".into())
    }

    #[test]
    fn each_is_there_once_and_another_is_the_first_each_time() {
        let all = |turn| {
            let taken = targets().taken(turn, u16::MAX);
            assert_eq!(taken.of, 5);
            taken.all
        };
        assert_eq!(all(0), [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "b")]);
        assert_eq!(all(2), [(2, "a"), (2, "b"), (3, "b"), (1, "a"), (1, "b")]);
        assert_eq!(all(5), [(3, "b"), (1, "a"), (1, "b"), (2, "a"), (2, "b")]);
        assert_eq!(all(6), all(0));
        assert_eq!(targets().full("a"), "a.web.shop.svc");
        assert_eq!(targets().full(""), "web.shop.svc");
        assert!(Targets::new([], String::new()).taken(7, 512).all.is_empty());
    }

    #[test]
    fn one_more_is_taken_than_there_is_room_for() {
        let two = 2 * targets().bytes("a");
        let taken = targets().taken(0, u16::try_from(two).unwrap());
        assert_eq!((taken.all.len(), taken.of), (3, 6));
    }

    #[test]
    fn of_millions_no_more_are_looked_at_than_may_be_of_use() {
        let names = ["same"; 4_000].to_vec();
        let group = || Group { ports: vec![7; 1_000], names: names.clone() };
        let taken = Targets::new([group(), group()], "x".into()).taken(3, u16::MAX);
        assert_eq!((taken.all.len(), taken.of), (1, 8_000_000));
    }
}
