//! What `federation` asks and shows.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_agent::{Joined, Listed};
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::certificate::Role;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::federation::Root;
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::join::{JoinToken, Secret};
use mercato_protocol::time::Now;

use super::{Script, TURIN, fits, mercato, told};
use crate::admin::{Answer, Class, OperatorApi, Problem, Request};

fn root(name: &str) -> Signed<Root> {
    let key = KeyPair::from_seed(&[4; 32]);
    Root::found(&key, name.parse().unwrap(), Now::default()).unwrap()
}

fn joined(name: &str) -> Joined {
    Joined {
        id: root(name).federation_id(),
        name: name.parse().unwrap(),
        root: PublicKey([4; 32]),
        document: root(name),
        domain: None,
        organisation: Some("polito".parse().unwrap()),
        roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
        until_ms: Some(1_795_161_600_000),
        was_certified: true,
        members: 2,
        list: Some((3, 1_795_161_600_000)),
        root_revoked: vec![3],
        successions: Vec::new(),
        refused: Some("the membership was revoked".to_owned()),
    }
}

fn member(cluster: ClusterId, revoked: bool) -> Listed {
    Listed {
        cluster,
        name: Some("turin".to_owned()),
        organisation: None,
        roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
        until_ms: 1_795_161_600_000,
        revoked,
        certificate: Some((PublicKey([4; 32]), 9)),
    }
}

pub(super) fn script(names: &[&str]) -> Arc<Script> {
    let federations = names.iter().map(|name| joined(name)).collect();
    let members = vec![member(TURIN, false), member(ClusterId([0x5f; 32]), true)];
    Arc::new(Script { federations, members, ..Script::default() })
}

/// Answers as a script does, but for one sort of request, which fails.
struct Failing {
    script: Script,
    fails: fn(&Request) -> bool,
}

impl OperatorApi for Failing {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        if (self.fails)(&request) {
            let problem = Problem::failed("no room is left on the disk");
            return async move { Err(problem) }.boxed();
        }
        self.script.ask(request)
    }
}

#[test]
fn a_federation_that_is_not_created_leaves_no_key_or_says_how_to_go_on_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("alps.root");
    let create = format!("federation create alps --root-key {}", file.display());
    let fails = |request: &Request| matches!(request, Request::Status);
    let silent = Arc::new(Failing { script: Script::default(), fails });
    for _ in 0..2 {
        let problem = mercato(&silent, &create).unwrap_err().to_string();
        assert!(problem.contains("no room is left") && !file.exists(), "{problem}");
    }
    let fails = |request: &Request| matches!(request, Request::Enter(_));
    let full = Arc::new(Failing { script: Script::default(), fails });
    let problem = mercato(&full, &create).unwrap_err().to_string();
    let next = format!("mercato federation registrar {}", file.display());
    assert!(problem.contains(&next) && file.exists(), "{problem}");
}

#[test]
fn what_was_joined_is_a_page_each() {
    let none = mercato(&script(&[]), "federation").unwrap();
    assert!(none.contains("mercato federation join TOKEN"), "{none}");
    let all = mercato(&script(&["alps", "apennines"]), "federation").unwrap();
    for said in [
        "alps\n  fingerprint   ",
        "as provider, consumer, registrar, until 2026-11-20 08:00:00",
        "list 3, the next by 2026-11-20",
        "not renewed   the membership was revoked",
    ] {
        assert!(all.contains(said), "{all}");
    }
    fits(&all);
}

#[test]
fn one_of_several_is_named() {
    let several = script(&["alps", "apennines"]);
    let which = mercato(&several, "federation members").unwrap_err();
    assert_eq!(which.class, Class::Usage);
    assert!(which.to_string().contains("--of apennines"), "{which}");
    let none = mercato(&several, "federation leave --of andes --yes").unwrap_err();
    assert_eq!((none.class, told(&several)), (Class::NoMatch, None));
    mercato(&several, "federation leave --of alps --yes").unwrap();
    assert_eq!(told(&several), Some(Request::Leave(root("alps").federation_id())));
    let members = mercato(&several, "federation members --of alps").unwrap();
    assert!(members.contains("provider, consumer, registrar") && members.contains("revoked"));
    fits(&members);
}

#[test]
fn a_token_is_all_that_is_printed() {
    let api = script(&["alps"]);
    let line = "federation token --org polito --role consumer --attribute jurisdiction=IT --for 1h";
    let token = mercato(&api, line).unwrap();
    assert_eq!(token, "mercato-join-x\n");
    let asked = Request::Token {
        federation: root("alps").federation_id(),
        organisation: Some("polito".parse().unwrap()),
        roles: vec![Role::Consumer],
        attributes: vec![Attribute {
            name: "jurisdiction".parse().unwrap(),
            value: "IT".to_owned(),
            assurance: Assurance::Issuer,
        }],
        for_s: 3_600,
    };
    assert_eq!(told(&api), Some(asked));
    let long = mercato(&api, "federation token --for 25h").unwrap_err();
    assert!(long.to_string().contains("at most one day"), "{long}");
}

#[test]
fn a_member_spends_no_token_without_a_question() {
    let api = script(&["alps"]);
    let token = |of: &str| JoinToken {
        federation: root(of).federation_id(),
        registrar: PublicKey([5; 32]),
        addresses: vec!["/ip4/192.0.2.1/tcp/7474".to_owned()],
        secret: Secret(NegotiationId([7; 16])),
        expires_ms: 1_795_161_600_000,
    };
    let asked = mercato(&api, &format!("federation join {}", token("alps"))).unwrap_err();
    assert_eq!((asked.class, told(&api)), (Class::Usage, None));
    assert!(asked.to_string().contains("add --yes"), "{asked}");
    let done = mercato(&api, &format!("federation join {} --yes", token("alps"))).unwrap();
    assert!(done.starts_with("joined again: before, of organisation polito\nalps\n"), "{done}");
    assert_eq!(told(&api), Some(Request::Join(token("alps").to_string())));

    // One that belongs to another, or no longer, is asked nothing.
    let over = joined("alps");
    let federations = vec![Joined { until_ms: None, ..over }, joined("apennines")];
    let api = Arc::new(Script { federations, ..Script::default() });
    let done = mercato(&api, &format!("federation join {}", token("alps"))).unwrap();
    assert!(done.starts_with("joined\nalps\n"), "{done}");
}

#[test]
fn whom_a_revocation_is_about_is_one() {
    let api = script(&["alps"]);
    let both = mercato(&api, "federation revoke turin --yes").unwrap_err();
    assert_eq!((both.class, told(&api)), (Class::Usage, None));
    // One whom the root let in only it can throw out.
    let by_root = mercato(&api, "federation revoke 4f4f --yes").unwrap_err();
    assert!(by_root.to_string().contains("--root-key FILE"), "{by_root}");
    let let_in = |member: Listed| Listed { certificate: Some((PublicKey([5; 32]), 9)), ..member };
    let members = api.members.iter().cloned().map(let_in).collect();
    let federations = api.federations.clone();
    let api = Arc::new(Script { federations, members, ..Script::default() });
    let done = mercato(&api, "federation revoke 4f4f --yes").unwrap();
    assert!(done.contains("turin is revoked:\nrevocation list 3, the next by"), "{done}");
    let asked = Request::Revoke(root("alps").federation_id(), TURIN);
    assert_eq!(told(&api), Some(asked));
}

#[test]
fn records_are_lines_of_a_zone_file() {
    let api = script(&["alps"]);
    let unnamed = mercato(&api, "federation dns").unwrap_err();
    assert!(unnamed.to_string().contains("alps.example"), "{unnamed}");
    let zone = mercato(&api, "federation dns Alps.Example").unwrap();
    for line in [
        "$TTL 3600",
        "_mercato.alps.example. IN TXT \"v=mercato1 root=",
        "_mercato._udp.alps.example. IN SRV 10 10 7474 rome.alps.example.",
        "rome.alps.example. IN A 192.0.2.1",
    ] {
        assert!(zone.contains(line), "{zone}");
    }
    let peer = "federation dns alps.example --peer hub.alps.example:7475";
    let zone = mercato(&api, peer).unwrap();
    assert!(zone.contains("_tcp.alps.example. IN SRV 10 10 7475 hub.alps.example."), "{zone}");
    let bad = mercato(&api, "federation dns alps.example --peer nowhere").unwrap_err();
    assert_eq!(bad.class, Class::Usage);
}
