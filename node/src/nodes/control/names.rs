//! The names of a lease as they are said to nodes: each frame is made once, whoever it is said to.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mercato_protocol::names::{LeaseNames, NamesChange, Numbered};
use mercato_protocol::node::ToNode;

use super::wire;

/// The names of a lease, as they were said once, with what of them was another than before.
#[derive(Debug)]
pub(crate) struct SaidNames {
    /// No other names of this run of the daemon have it, and later ones have a larger one.
    number: u64,
    names: Arc<LeaseNames>,
    /// The frame that says all of them; none: it cannot be made.
    whole: OnceLock<Option<Bytes>>,
    change: Option<Change>,
}

/// The frame that says what is another.
#[derive(Debug)]
struct Change {
    /// In the names of this number.
    after: u64,
    frame: Bytes,
}

/// One number has one content.
impl PartialEq for SaidNames {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for SaidNames {}

impl SaidNames {
    /// Under that number. `before`: those that were said of the lease until now.
    pub(crate) fn new(number: u64, names: Arc<LeaseNames>, before: Option<&Self>) -> Self {
        let now = Numbered { number, names: &names };
        let change = before.and_then(|before| {
            let after = before.number;
            let of_before = Numbered { number: after, names: &before.names };
            let change = NamesChange::between(of_before, now)?;
            // One that is too large for a message is said whole.
            let frame = wire::frame(&ToNode::NamesChange(change)).ok()?;
            Some(Change { after, frame })
        });
        Self { number, names, whole: OnceLock::new(), change }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn names(&self) -> &LeaseNames {
        &self.names
    }

    /// What is to be said to whoever has the names of that number; none: to whoever has none. Nothing,
    /// where no message may have them.
    pub(super) fn frame(&self, known: Option<u64>) -> Option<Bytes> {
        let change = self.change.as_ref().filter(|change| Some(change.after) == known);
        let whole = || {
            let said = || ToNode::Names { number: self.number, names: (*self.names).clone() };
            self.whole.get_or_init(|| wire::frame(&said()).ok()).clone()
        };
        change.map(|change| change.frame.clone()).or_else(whole)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use mercato_protocol::id::ContractId;
    use mercato_protocol::names::{NamedEndpoint, NamespaceNames, ServiceNames, SliceNames};

    use super::*;

    /// A headless Service of 40 slices of 100 endpoints, nearly as many as there is room for; all of them,
    /// or all but one.
    fn names(all: bool) -> Arc<LeaseNames> {
        let endpoint = |n: u32| NamedEndpoint {
            address: IpAddr::V4(Ipv4Addr::from(0x0ac9_0000 + n)),
            hostname: format!("member-{n}"),
        };
        let slice = |nth: u32| {
            let endpoints = (nth * 100..(nth + 1) * 100).filter(|n| all || *n != 2_050);
            SliceNames { ports: vec![], endpoints: endpoints.map(endpoint).collect() }
        };
        let slices = (0..40).map(slice).collect();
        let service = ServiceNames { name: "members".into(), slices, ..ServiceNames::default() };
        let (home, services, is_part) = ("shop".to_owned(), vec![service], false);
        Arc::new(LeaseNames {
            lease: ContractId([5; 16]),
            domains: vec!["cluster.local".into()],
            is_part: false,
            forwards: true,
            namespaces: vec![NamespaceNames { home, services, is_part }],
            api: None,
            own: vec![],
            ranges: vec![],
        })
    }

    #[test]
    fn an_endpoint_that_flips_costs_each_node_its_slice_and_is_said_once() {
        let mut said = SaidNames::new(1, names(true), None);
        let whole = said.frame(None).unwrap().len();
        let mut bytes = 0;
        for number in 2..10 {
            said = SaidNames::new(number, names(number % 2 == 1), Some(&said));
            let frames: Vec<_> = (0..10).filter_map(|_| said.frame(Some(number - 1))).collect();
            assert!(frames.iter().all(|frame| frame.as_ptr() == frames[0].as_ptr()), "one frame");
            assert!(said.whole.get().is_none(), "nobody needs all of them");
            bytes += frames.iter().map(Bytes::len).sum::<usize>();
        }
        println!("8 changes for 10 nodes: {bytes} bytes; whole: {}", 8 * 10 * whole);
        assert!(20 * bytes < 8 * 10 * whole, "{bytes}, and each whole {whole}");
        // Who has missed some, or comes anew, hears all.
        for known in [None, Some(3)] {
            assert!(said.frame(known).unwrap().len() >= whole - 100);
        }
    }
}
