//! The body of one object that crosses: its JSON, apart from the statements that name it. What is
//! too much is said here alone, for whoever sends and whoever receives, real or simulated; where
//! bodies are kept, and for how long, is theirs to say.

use std::collections::BTreeMap;

use mercato_protocol::id::ClusterId;
use mercato_protocol::limits::{OBJECT_BYTES, STATUS_BYTES};

use crate::key::{Item, ObjectKind};
use crate::message::Refusal;

/// Values of one body, where a JSON object counts as [`OBJECT_VALUES`]. What etcd holds of one config
/// map, 1.5 MiB, has at most some 160,000 keys, of two values each.
const VALUES: usize = 384 << 10;
/// What a JSON object takes in memory beside its fields, in values: the node of a tree.
const OBJECT_VALUES: usize = 8;
/// Values of one body, each object counted once, that are taken by releases which end the stream
/// over one more.
const EARLIER_VALUES: usize = 64 << 10;

/// Which way a body goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// An object of home's, to the provider.
    ToGuest,
    /// The status of a guest pod, to home.
    ToHome,
}

/// How much there may be of one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of its text.
    pub bytes: usize,
    /// Values in it, where each JSON object counts as several.
    pub values: usize,
}

/// How much there is of one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    bytes: usize,
    values: usize,
    objects: usize,
}

/// What is kept under the digest of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// The body is kept here.
    Here(T),
    /// It came and is not taken, for this reason. To ask for it again is in vain.
    Refused(Refusal),
    /// Nothing is kept, and it may be asked for.
    Missing,
}

/// What is kept in memory of one lease, of this peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The other side of the lease.
    pub peer: ClusterId,
    /// How many bytes its bodies take.
    pub bytes: usize,
}

/// Which of these leases gives up a body, where all together may hold so many bytes; none: they hold no
/// more. It is the largest of the peer that holds the most, whatever it cut that into: who holds less
/// than another loses nothing.
pub fn who_gives(all: &[Held], budget: usize) -> Option<usize> {
    let mut of_peers: BTreeMap<ClusterId, usize> = BTreeMap::new();
    for Held { peer, bytes } in all {
        *of_peers.entry(*peer).or_default() += bytes;
    }
    let is_over = of_peers.values().sum::<usize>() > budget;
    let (most, _) = of_peers.into_iter().max_by_key(|(_, bytes)| *bytes).filter(|_| is_over)?;
    let of_it = all.iter().enumerate().filter(|(_, held)| held.peer == most);
    of_it.max_by_key(|(_, held)| held.bytes).map(|(at, _)| at)
}

impl<T> Found<T> {
    /// The body, if it is kept.
    pub fn here(self) -> Option<T> {
        match self {
            Self::Here(body) => Some(body),
            Self::Refused(_) | Self::Missing => None,
        }
    }
}

impl Limits {
    /// Those of a body that goes this way. Both sides have the same.
    pub const fn of(way: Way) -> Self {
        let bytes = match way {
            Way::ToGuest => OBJECT_BYTES,
            Way::ToHome => STATUS_BYTES,
        };
        Self { bytes, values: VALUES }
    }

    /// Whether a body of `item` that goes this way is taken.
    ///
    /// # Errors
    /// Why it is not, and by which field: for its owner.
    pub fn check(self, weight: Weight, way: Way, item: &Item) -> Result<(), Refusal> {
        let (path, advice) = field(way, item);
        let refused = |there: usize, most: usize, what: &str| {
            let reason = format!("{there} {what}, and at most {most} cross{advice}");
            Err(Refusal { path: path.to_owned(), reason })
        };
        if weight.bytes > self.bytes {
            refused(weight.bytes, self.bytes, "bytes of JSON")
        } else if weight.in_memory() > self.values {
            refused(weight.in_memory(), self.values, "values in it")
        } else {
            Ok(())
        }
    }
}

impl Weight {
    /// Of a JSON text, or of a text that is none, without building anything of it. It may count a
    /// few values too many, and none too few.
    pub fn of(text: &[u8]) -> Self {
        let (mut values, mut objects, mut quoted, mut escaped) = (1, 0, false, false);
        for byte in text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = quoted,
                b'"' => quoted = !quoted,
                b'{' if !quoted => (values, objects) = (values + 1, objects + 1),
                b'[' | b',' | b':' if !quoted => values += 1,
                _ => {}
            }
        }
        Self { bytes: text.len(), values, objects }
    }

    /// Whether such a body of home's goes to a provider that ends the stream over what it does not
    /// take.
    ///
    /// # Errors
    /// Why it does not, as [`Limits::check`] says it.
    pub fn check_earlier(self, item: &Item) -> Result<(), Refusal> {
        if self.values <= EARLIER_VALUES {
            return Ok(());
        }
        let path = field(Way::ToGuest, item).0.to_owned();
        let reason = format!(
            "{} values in it, and this provider's release of Mercato takes {EARLIER_VALUES}",
            self.values
        );
        Err(Refusal { path, reason })
    }

    /// Whether it is more than these allow.
    pub fn exceeds(self, limits: Limits) -> bool {
        self.bytes > limits.bytes || self.in_memory() > limits.values
    }

    /// Whether it is built in little memory, so that many may be at a time.
    pub fn is_small(self) -> bool {
        self.in_memory() <= VALUES / 16
    }

    fn in_memory(self) -> usize {
        self.values + (OBJECT_VALUES - 1) * self.objects
    }
}

/// What is not JSON, though it is called a body of `item`.
pub fn malformed(way: Way, item: &Item) -> Refusal {
    Refusal { path: field(way, item).0.to_owned(), reason: "is no JSON object".to_owned() }
}

/// What grows in an object of that kind, and what its owner can do.
fn field(way: Way, item: &Item) -> (&'static str, &'static str) {
    let key = match (way, item) {
        (Way::ToHome, _) => return ("status", ""),
        (Way::ToGuest, Item::Pod(_)) => {
            return (
                "spec",
                "; where most of them are variables of Services: enableServiceLinks: false",
            );
        }
        (Way::ToGuest, Item::Object(key)) => key,
    };
    match key.kind {
        ObjectKind::ConfigMap | ObjectKind::Secret => ("data", "; cut it into several"),
        ObjectKind::EndpointSlice => ("endpoints", ""),
        ObjectKind::Service | ObjectKind::Pod | ObjectKind::Claim => ("spec", ""),
        ObjectKind::Namespace => ("metadata", ""),
        ObjectKind::ServiceAccountToken => ("token", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{PodId, Uid, key};

    fn items() -> Vec<(Way, Item)> {
        let pod = || {
            let (namespace, name) = ("shop".to_owned(), "web".to_owned());
            Item::Pod(PodId { uid: Uid("u".to_owned()), namespace, name })
        };
        let objects =
            ObjectKind::ALL.map(|kind| (Way::ToGuest, Item::Object(key(kind, "shop", "web"))));
        objects.into_iter().chain([(Way::ToGuest, pod()), (Way::ToHome, pod())]).collect()
    }

    #[test]
    fn who_holds_the_most_gives_whatever_it_cut_that_into() {
        let held = |peer: u8, bytes| Held { peer: ClusterId([peer; 32]), bytes };
        assert_eq!(who_gives(&[held(1, 60), held(2, 40)], 100), None);
        assert_eq!(who_gives(&[held(1, 60), held(2, 41)], 100), Some(0));
        let cut = [held(1, 41), held(2, 15), held(2, 30), held(2, 15)];
        assert_eq!(who_gives(&cut, 100), Some(2), "its largest");
        assert_eq!(who_gives(&[], 0), None);
    }

    #[test]
    fn values_are_counted_outside_of_texts() {
        let weight = Weight::of(br#"{"a":[1,"\\\",[{:"],"b":"\\"}"#);
        assert_eq!((weight.values, weight.objects), (7, 1));
    }

    #[test]
    fn of_each_item_the_largest_is_taken_and_one_more_is_refused_by_its_field() {
        for (way, item) in items() {
            let Limits { bytes, values } = Limits::of(way);
            let check = |text: String| Limits::of(way).check(weight(&text), way, &item);
            assert_eq!(check(text(bytes)), Ok(()), "{item:?}");
            let refusal = check(text(bytes + 1)).unwrap_err();
            assert!(!refusal.path.is_empty() && refusal.reason.contains("bytes"), "{refusal:?}");
            if list(values).len() < bytes {
                assert_eq!(check(list(values)), Ok(()), "{item:?}");
                let refusal = check(list(values + 1)).unwrap_err();
                assert!(refusal.reason.contains("values"), "{refusal:?}");
            }
            let earlier = |values: usize| weight(&list(values)).check_earlier(&item);
            assert_eq!(earlier(EARLIER_VALUES), Ok(()));
            assert!(!earlier(EARLIER_VALUES + 1).unwrap_err().path.is_empty());
        }
    }

    #[test]
    fn what_takes_memory_beside_its_fields_weighs_more() {
        let objects = |count: usize| format!("[{}0]", "{},".repeat(count));
        let (way, item) = items().remove(0);
        let check = |count| Limits::of(way).check(weight(&objects(count)), way, &item);
        let most = VALUES / (OBJECT_VALUES + 1);
        assert!(check(most - 1).is_ok() && check(most + 1).is_err());
    }

    /// What a plain cluster takes: a pod of one container in a namespace of a thousand Services, and
    /// a config map of 1 MiB with as many keys as it holds.
    #[test]
    fn what_an_api_server_takes_crosses() {
        let (pod, map) = (items().remove(8).1, items().remove(2).1);
        let variable =
            r#"{"name":"SERVICE_0000_SERVICE_PORT_80_TCP_ADDR","value":"10.96.100.100"},"#;
        let of_pod = format!("[{}0]", variable.repeat(1_000 * 13));
        let of_map = format!("{{{}\"z\":0}}", r#""abcdefg":"","#.repeat((1 << 20) / 7));
        for (item, text) in [(pod, of_pod), (map, of_map)] {
            let refused = Limits::of(Way::ToGuest).check(weight(&text), Way::ToGuest, &item);
            assert_eq!(refused, Ok(()), "{item:?}");
        }
    }

    fn weight(text: &str) -> Weight {
        Weight::of(text.as_bytes())
    }

    fn text(bytes: usize) -> String {
        format!("\"{}\"", "x".repeat(bytes - 2))
    }

    fn list(values: usize) -> String {
        format!("[{}0]", "0,".repeat(values - 2))
    }
}
