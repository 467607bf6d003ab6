//! The name server by its sockets, asked by a resolver and by hand.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RecordType};
use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{Resolver, TokioResolver};
use mercato_names::{Bounds, NameServer, Zone};
use mercato_protocol::names::{LeaseNames, NamedEndpoint, SliceNames};
use socket2::{Domain, Socket, Type};

use crate::asks::{ask, by_tcp, bytes, guest, question};
use crate::samples::*;
use crate::served::*;
use crate::upstream::{Says, Upstream};

fn resolver(at: SocketAddr) -> TokioResolver {
    let mut server = NameServerConfig::udp_and_tcp(at.ip());
    server.connections.iter_mut().for_each(|connection| connection.port = at.port());
    let name = |text: &str| Name::from_ascii(text).unwrap();
    let search = ["shop.svc.rome.example.", "svc.rome.example.", "rome.example."].map(name);
    let config = ResolverConfig::from_parts(None, search.into(), vec![server]);
    let mut options = ResolverOpts::default();
    options.ndots = 5;
    options.cache_size = 0;
    let builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.with_options(options).build().unwrap()
}

#[tokio::test]
async fn a_resolver_finds_what_it_finds_at_home() {
    let upstream = Upstream::start(Says::All).await;
    let server = server(Bounds::default(), vec![upstream.address]).await;
    let resolver = resolver(server.address());
    let found = async |name: &str| {
        let found = resolver.lookup_ip(name).await;
        let mut found: Vec<_> = found.iter().flat_map(|it| it.iter()).collect();
        found.sort();
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    for name in ["web", "web.shop", "web.shop.svc", "web.shop.svc.rome.example", "inner"] {
        assert_eq!(found(name).await, "10.96.0.7", "{name}");
    }
    assert_eq!(found("api.bank").await, "10.96.0.8");
    assert_eq!(found("db-0.members").await, "10.201.3.7 fd4d::7");
    for name in ["secret.vault.svc.cluster.local", "kubernetes.default.svc.rome.example", "api"] {
        assert_eq!(found(name).await, "", "{name}");
    }
    assert_eq!(upstream.asked(), 0, "none of it left");
    assert_eq!(found("example.org").await, "192.0.2.7");
    assert_eq!(found("outside").await, "192.0.2.7", "it stands for one elsewhere");
    let places = resolver.lookup("_sql._tcp.members", RecordType::SRV).await.unwrap();
    assert_eq!(places.answers().len(), 2);
}

#[tokio::test]
async fn each_guest_sees_its_own_home_and_nobody_else_is_answered() {
    let server = server(Bounds::default(), vec![]).await;
    let to = server.address();
    let [one, two, isolated, early] =
        [guest(ONE).await, guest(TWO).await, guest(ISOLATED).await, guest(EARLY).await];
    let (web, secret) = ("web.shop.svc.rome.example.", "secret.vault.svc.cluster.local.");
    assert_eq!(addresses(&ask(&one, to, web, RecordType::A).await), ["10.96.0.7"]);
    assert_eq!(addresses(&ask(&two, to, secret, RecordType::A).await), ["10.96.0.9"]);
    // What another one's home calls its cluster is any name: it is asked elsewhere, where nobody is.
    let others = [(&one, secret, ResponseCode::NXDomain), (&two, web, ResponseCode::ServFail)];
    for (socket, name, code) in others {
        let answer = ask(socket, to, name, RecordType::A).await;
        assert_eq!((answer.metadata.response_code, answer.answers.len()), (code, 0), "{name}");
    }
    let refused = ask(&isolated, to, "example.org.", RecordType::A).await;
    assert_eq!(refused.metadata.response_code, ResponseCode::Refused);
    let failed = ask(&early, to, web, RecordType::A).await;
    assert_eq!(failed.metadata.response_code, ResponseCode::ServFail, "never that there is none");
    let none = ask(&one, to, web, RecordType::AAAA).await;
    assert_eq!(none.metadata.response_code, ResponseCode::NoError);
    assert!(none.answers.is_empty() && none.authorities[0].record_type() == RecordType::SOA);
    // A stranger asks first; whoever asks afterwards is answered, and it is not.
    let stranger = guest(STRANGER).await;
    let asked = question(web, RecordType::A, None).to_vec().unwrap();
    stranger.send_to(&asked, to).await.unwrap();
    ask(&one, to, web, RecordType::A).await;
    assert!(stranger.try_recv(&mut [0; 512]).is_err());
    assert!(by_tcp(STRANGER, to, &[question(web, RecordType::A, None)]).await.is_empty());
}

#[tokio::test]
async fn what_does_not_fit_comes_by_tcp() {
    let mut said = rome();
    let endpoint = |n: u16| {
        let address = [10, 201, (n >> 8) as u8, n as u8].into();
        NamedEndpoint { address, hostname: String::new() }
    };
    let slices = &mut said.namespaces[0].services[1].slices;
    let slice = slices.iter().find(|slice| !slice.ports.is_empty()).cloned().unwrap();
    slices.remove(&slice);
    let endpoints = (0..500).map(endpoint).collect();
    slices.insert(SliceNames { endpoints, ..slice });
    let server = server(Bounds::default(), vec![]).await;
    let mut knowledge = with(vec![]);
    knowledge.zones.insert(LEASE, Arc::new(Zone::new(&said)));
    server.know(knowledge);
    let (one, to, members) = (guest(ONE).await, server.address(), "members.shop.svc.rome.example.");
    for (room, least, most) in [(None, 20, 512), (Some(4_096), 70, 1_232), (Some(100), 20, 512)] {
        let asked = question(members, RecordType::A, room);
        let answer = bytes(&one, to, &asked.to_vec().unwrap()).await;
        assert!(answer.metadata.truncation, "{room:?}");
        assert!(answer.answers.len() >= least, "{room:?}: {}", answer.answers.len());
        assert!(answer.to_vec().unwrap().len() <= most, "{room:?}");
    }
    let asked = question(members, RecordType::A, None);
    let web = question("web.shop.svc.rome.example.", RecordType::A, Some(1_232));
    let answers = by_tcp(ONE, to, &[asked, web]).await;
    assert_eq!([answers[0].answers.len(), answers[1].answers.len()], [500, 1]);
    assert!(!answers[0].metadata.truncation && answers[1].edns.is_some());
    assert_eq!(resolver(to).lookup_ip("members").await.unwrap().iter().count(), 501);
}

#[tokio::test]
async fn an_answer_from_elsewhere_is_kept_for_a_while() {
    let (silent, upstream) =
        (Upstream::start(Says::Nothing).await, Upstream::start(Says::All).await);
    let server = server(Bounds::default(), vec![silent.address, upstream.address]).await;
    let (one, to) = (guest(ONE).await, server.address());
    for name in ["example.org.", "EXAMPLE.org.", "example.ORG."] {
        let answer = ask(&one, to, name, RecordType::A).await;
        assert_eq!(addresses(&answer), ["192.0.2.7"]);
        assert!(answer.queries[0].name.eq_case(&Name::from_ascii(name).unwrap()));
        assert!(answer.answers[0].name.eq_case(&answer.queries[0].name), "{name}");
    }
    assert_eq!(upstream.asked(), 1);
    let loops = ask(&one, to, "one.shop.svc.rome.example.", RecordType::A).await;
    assert_eq!(loops.metadata.response_code, ResponseCode::ServFail, "names in a circle");
}

#[tokio::test]
async fn what_is_no_question_does_no_harm() {
    let server = server(Bounds::default(), vec![]).await;
    let (one, to) = (guest(ONE).await, server.address());
    let web = question("web.shop.svc.rome.example.", RecordType::A, None).to_vec().unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut web = web.clone();
        web[at..at + bytes.len()].copy_from_slice(bytes);
        web
    };
    for (noise, code) in [
        (with(4, &[0, 0]), ResponseCode::FormErr),
        (with(4, &[0xff, 0xff]), ResponseCode::FormErr),
        (with(6, &[0xff, 0xff]), ResponseCode::FormErr),
        (with(10, &[0xff, 0xff]), ResponseCode::FormErr),
        (with(12, &[0xc0, 12]), ResponseCode::FormErr),
        (web[..20].to_vec(), ResponseCode::FormErr),
        (with(2, &[0x28, 0]), ResponseCode::NotImp),
        (with(web.len() - 2, &[0, 3]), ResponseCode::Refused),
        (with(web.len() - 4, &[0, 252]), ResponseCode::Refused),
        (with(web.len() - 4, &[0, 255]), ResponseCode::NoError),
    ] {
        let answer = bytes(&one, to, &noise).await;
        assert_eq!(answer.metadata.response_code, code, "{noise:?}");
    }
    // Of an answer, and of less than a header, nothing comes.
    for noise in [with(2, &[0x81, 0x80]), vec![], vec![0; 11], vec![0xff; 3_000]] {
        one.send_to(&noise, to).await.unwrap();
    }
    let said: LeaseNames = rome();
    assert_eq!(said.lease, LEASE);
    assert_eq!(bytes(&one, to, &web).await.answers.len(), 1);
}

/// Somebody who has this port at all addresses, or wants to, by UDP or TCP, and would share it.
fn at_all_addresses(kind: Type, port: u16) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, kind, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    if kind == Type::STREAM {
        socket.listen(1)?;
    }
    Ok(socket)
}

#[tokio::test]
async fn its_port_is_its_own_by_udp_and_by_tcp() {
    for kind in [Type::DGRAM, Type::STREAM] {
        let server = server(Bounds::default(), vec![]).await;
        let at = server.address();
        let refused = at_all_addresses(kind, at.port()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse, "{kind:?}");
        drop(server);
        // Its sockets are closed when its tasks have ended.
        let other = loop {
            match at_all_addresses(kind, at.port()) {
                Ok(other) => break other,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let Err(refused) = NameServer::start(at, Bounds::default()) else {
            panic!("{kind:?} is shared")
        };
        assert_eq!(refused.kind(), ErrorKind::AddrInUse, "{kind:?}");
        let who = format!("ss -lntup sport = :{}", at.port());
        assert!(refused.to_string().contains(&who), "{refused}");
        drop(other);
        NameServer::start(at, Bounds::default()).unwrap();
    }
}
