//! The disk of a simulated cluster.

use mercato_agent::Record;
use mercato_agent::limits::RECORD_BYTES;
use mercato_protocol::id::NegotiationId;

use super::*;

#[test]
fn it_takes_no_record_that_a_daemon_would_not_keep() {
    let namespaces = |count: usize| {
        let names = (0..count).map(|at| (format!("{at:063}"), String::new())).collect();
        vec![Effect::Persist(Change::Put(Record::Namespaces(NegotiationId([1; 16]), names)))]
    };
    let mut gate = Gate::default();
    keep(&mut gate, namespaces(64)).unwrap();
    let Violation(what) = keep(&mut gate, namespaces(RECORD_BYTES / 63)).unwrap_err();
    assert!(what.contains("at most 524288 are kept"), "{what}");
}
