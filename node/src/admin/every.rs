//! One of each request, for the tests of tables that have a row for each.

use std::collections::BTreeSet;

use mercato_agent::Papers;
use mercato_broker::{Demand, Standing};
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, FederationId, NegotiationId};
use mercato_protocol::text::Line;

use super::{Offload, Request};

const TYPES: &str = include_str!("types.rs");

/// One of each; its namespaces are called `shop`, its ids have ones in each byte.
pub(crate) fn all() -> Vec<Request> {
    let (cluster, order) = (ClusterId([1; 32]), NegotiationId([1; 16]));
    let (federation, word) = (FederationId([1; 32]), "shop".to_owned());
    let root = Signed::from_bytes(Vec::new());
    let papers = Papers {
        root,
        successions: Vec::new(),
        certificates: Vec::new(),
        registrar: Vec::new(),
        domain: None,
    };
    let (demand, note) = (Demand::default(), Line::default());
    let offload = Offload { namespace: word.clone(), ..Offload::default() };
    vec![
        Request::Status,
        Request::Doctor,
        Request::Events(0),
        Request::Peers,
        Request::Judge(cluster, Standing::Trusted),
        Request::Place(cluster, None),
        Request::AddPeer(word.clone()),
        Request::RemovePeer(word.clone()),
        Request::Ping(word.clone()),
        Request::Browse { demand: demand.clone(), explain: false },
        Request::Providers,
        Request::Share,
        Request::SetShare(None),
        Request::Order { demand: demand.clone(), note: note.clone() },
        Request::Rfq { demand, note: note.clone() },
        Request::Take(order),
        Request::Deals,
        Request::Statement(order.into()),
        Request::Accept(order),
        Request::Deny(order, note.clone()),
        Request::Counter { request: order, price: None, quantity: None, hold_s: None },
        Request::Cancel(order, note.clone()),
        Request::Reclaim { contract: order.into(), notice_s: None, text: note },
        Request::Amend { contract: order.into(), quantity: None, term_s: None },
        Request::Withdraw(order.into()),
        Request::Federations,
        Request::Members(federation),
        Request::Lookup(word.clone()),
        Request::Enter(papers),
        Request::Join(word.clone()),
        Request::Leave(federation),
        Request::Token {
            federation,
            organisation: None,
            roles: Vec::new(),
            attributes: Vec::new(),
            for_s: 1,
        },
        Request::Revoke(federation, cluster),
        Request::Publish(federation, Signed::from_bytes(Vec::new())),
        Request::Offload(offload),
        Request::Unoffload(word),
        Request::RotateKey,
        Request::Export,
    ]
}

/// As it is called in JSON.
pub(crate) fn name(request: &Request) -> String {
    let value = serde_json::to_value(request).unwrap();
    let fields = value.as_object().map(|fields| fields.keys().next().unwrap().clone());
    fields.unwrap_or_else(|| value.as_str().unwrap().to_owned())
}

/// How many requests there are, as the source has them.
fn count() -> usize {
    let (_, rest) = TYPES.split_once("pub(crate) enum Request {\n").unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
    variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase())).count()
}

#[test]
fn there_is_one_of_each() {
    let requests = all();
    let names: BTreeSet<_> = requests.iter().map(name).collect();
    assert_eq!((names.len(), requests.len()), (count(), count()));
}
