//! How many look-ups one core answers: deciding alone, and a server that is asked over loopback.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use mercato_names::{Asker, Bounds, Knowledge, NameServer, Zone, answer};
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::names::{LeaseNames, NamedPort, NamespaceNames, ServiceNames};

const LEASE: ContractId = NegotiationId([1; 16]);
const BY: Asker = Asker { guest: IpAddr::V4(Ipv4Addr::LOCALHOST), lease: LEASE };
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
        namespaces: vec![NamespaceNames { home: "shop".into(), services }],
        api: None,
    };
    Knowledge {
        domain: "cluster.local".into(),
        servers: Vec::new(),
        guests: [(IpAddr::V4(Ipv4Addr::LOCALHOST), LEASE)].into(),
        zones: [(LEASE, Arc::new(Zone::new(&said)))].into(),
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
            bencher.iter(|| answer(&known, BY, black_box(&of), RecordType::A, 0));
        });
    }
    group.finish();
}

fn ask(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let most = u32::MAX;
    let bounds = Bounds { questions_per_second: most, burst: most, ..Bounds::default() };
    let (told, at) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        runtime.block_on(async {
            let at = "127.0.0.53:0".parse().expect("an address");
            let server = NameServer::start(at, bounds).await.expect("a port");
            server.know(knowledge());
            told.send(server.address()).expect("somebody listens");
            std::future::pending::<()>().await;
        });
    });
    let at = at.recv().expect("it is there");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(at).expect("loopback");
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name("web-7.shop.svc.cluster.local."), RecordType::A));
    let question = message.to_vec().expect("a question");
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

criterion_group!(benches, decide, ask);
criterion_main!(benches);
