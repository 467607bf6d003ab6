//! How many look-ups one core answers: deciding alone, and a server that is asked over loopback; and how
//! long another guest waits while one asks a million times.

#![allow(clippy::disallowed_methods, reason = "a clock is what it is for")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use mercato_names::{Asker, Bounds, Knowledge, NameServer, Telling, Zone, answer};
use mercato_protocol::id::ContractId;
use mercato_protocol::names::{LeaseNames, NamedPort, NamespaceNames, ServiceNames};

const LEASE: ContractId = ContractId([1; 16]);
/// A guest that asks as any does, and one that does without an end.
const ASKS: Ipv4Addr = Ipv4Addr::LOCALHOST;
const FLOODS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// How often the latter asks.
const FLOOD: u32 = 1_000_000;
/// How often the other one does meanwhile: fewer times than it may.
const PACE: Duration = Duration::from_millis(5);
const BY: Asker = Asker { guest: IpAddr::V4(ASKS), lease: LEASE };
/// As many as a guest namespace holds.
const SERVICES: u16 = 512;

fn knowledge() -> Knowledge {
    let service = |n: u16| ServiceNames {
        name: format!("web-{n}"),
        addresses: vec![Ipv4Addr::new(10, 96, (n >> 8) as u8, n as u8).into()],
        ports: vec![NamedPort { name: "http".into(), is_udp: false, port: 80 }],
        ..ServiceNames::default()
    };
    let services = (0..SERVICES).map(service).collect();
    let said = LeaseNames {
        lease: LEASE,
        domains: vec!["cluster.local".into()],
        is_part: false,
        forwards: true,
        namespaces: vec![NamespaceNames { home: "shop".into(), services, is_part: false }],
        api: None,
        own: vec![],
        ranges: vec![],
    };
    Knowledge {
        domain: "cluster.local".into(),
        servers: Vec::new(),
        guests: [ASKS, FLOODS].map(|guest| (IpAddr::V4(guest), LEASE)).into(),
        zones: [(LEASE, Arc::new(Zone::new(&said)))].into(),
        never: BTreeMap::new(),
    }
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

fn decide(criterion: &mut Criterion) {
    let known = knowledge();
    let mut group = criterion.benchmark_group("decide");
    group.throughput(Throughput::Elements(1));
    for (what, of) in [
        ("a Service", "web-7.shop.svc.cluster.local."),
        ("no name", "example.org.shop.svc.cluster.local."),
    ] {
        let of = name(of);
        group.bench_function(what, |bencher| {
            let telling = Telling { turn: 0, room: 1_232 };
            bencher.iter(|| answer(&known, BY, black_box(&of), RecordType::A, telling));
        });
    }
    group.finish();
}

fn ask(criterion: &mut Criterion) {
    let most = u32::MAX;
    let bounds = Bounds { questions_per_second: most, burst: most, ..Bounds::default() };
    let (socket, question) = (guest(ASKS, server(bounds)), question());
    let mut buffer = [0; 512];
    // Several at once, as of several guests: else it is the time to and fro that is measured.
    const AT_ONCE: usize = 32;
    let mut group = criterion.benchmark_group("ask");
    group.throughput(Throughput::Elements(AT_ONCE as u64));
    group.bench_function("a Service by UDP", |bencher| {
        bencher.iter(|| {
            for _ in 0..AT_ONCE {
                socket.send(&question).expect("sent");
            }
            for _ in 0..AT_ONCE {
                socket.recv(&mut buffer).expect("answered");
            }
        });
    });
    group.finish();
}

/// What a guest waits for an answer with nobody else there, and while another one asks a million times.
fn beside(_: &mut Criterion) {
    let (at, question) = (server(Bounds::default()), question());
    let asks = guest(ASKS, at);
    asks.set_read_timeout(Some(Duration::from_secs(1))).expect("loopback");
    let waits = |until: &mut dyn FnMut(usize) -> bool| {
        let (mut waited, mut lost, mut buffer) = (Vec::new(), 0_u32, [0; 512]);
        while !until(waited.len()) {
            let asked = Instant::now();
            asks.send(&question).expect("sent");
            match asks.recv(&mut buffer) {
                Ok(_) => waited.push(asked.elapsed()),
                Err(_) => lost += 1,
            }
            std::thread::sleep(PACE);
        }
        waited.sort_unstable();
        let of = |part: usize| {
            let at = (waited.len() * part).div_ceil(100).max(1) - 1;
            waited.get(at).copied().unwrap_or_default()
        };
        format!(
            "{} answers, {lost} lost, half within {:?}, 99 of 100 within {:?}, all within {:?}",
            waited.len(),
            of(50),
            of(99),
            of(100)
        )
    };
    println!("beside/nobody: {}", waits(&mut |answers| answers == 400));
    let flood = guest(FLOODS, at);
    flood.set_nonblocking(true).expect("loopback");
    let (sent, began) = (question.clone(), Instant::now());
    let flooding = std::thread::spawn(move || {
        let (mut answers, mut buffer) = (0_u32, [0; 512]);
        for _ in 0..FLOOD {
            // What finds no room is lost, as on any network.
            let _ = flood.send(&sent);
            answers += u32::from(flood.recv(&mut buffer).is_ok());
        }
        answers
    });
    println!("beside/a million: {}", waits(&mut |_| flooding.is_finished()));
    let answers = flooding.join().expect("it does not panic");
    println!("beside/a million: asked in {:?}, {answers} answered", began.elapsed());
}

/// A server in a thread of its own, and where it is asked.
fn server(bounds: Bounds) -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (told, at) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        runtime.block_on(async {
            let at = "127.0.0.53:0".parse().expect("an address");
            let server = NameServer::start(at, bounds).expect("a port");
            server.know(knowledge());
            told.send(server.address()).expect("somebody listens");
            std::future::pending::<()>().await;
        });
    });
    at.recv().expect("it is there")
}

fn guest(own: Ipv4Addr, at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((own, 0)).expect("a port");
    socket.connect(at).expect("loopback");
    socket
}

fn question() -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name("web-7.shop.svc.cluster.local."), RecordType::A));
    message.to_vec().expect("a question")
}

criterion_group!(benches, decide, ask, beside);
criterion_main!(benches);
