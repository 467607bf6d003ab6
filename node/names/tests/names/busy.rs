//! Many look-ups at once, and guests that ask without end. Where answers from elsewhere come once so
//! many are asked for, all of these are under way at once.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use mercato_names::{Bounds, NameServer};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::asks::{Connection, ask, guest, next, question};
use crate::samples::*;
use crate::served::*;
use crate::upstream::{Says, Upstream};

/// As a page of many parts makes them.
const MANY: u16 = 40;

/// Look-ups of other names each.
fn many(of: &str) -> impl Iterator<Item = Message> {
    (0..MANY).map(move |n| {
        let mut question = question(&format!("n{n}.{of}.example.org."), RecordType::A, None);
        question.metadata.id = n;
        question
    })
}

async fn asked_by_udp(socket: &UdpSocket, to: SocketAddr, all: impl Iterator<Item = Message>) {
    for question in all {
        socket.send_to(&question.to_vec().unwrap(), to).await.unwrap();
    }
}

/// Each of them has its answer, in whatever order.
fn all_answered(answers: &[Message]) {
    let numbers: BTreeSet<u16> = answers.iter().map(|answer| answer.metadata.id).collect();
    assert_eq!(numbers, (0..MANY).collect());
    for answer in answers {
        assert_eq!(addresses(answer), ["192.0.2.7"], "{}", answer.queries[0]);
    }
}

async fn with_upstream(says: Says) -> (Upstream, NameServer) {
    let upstream = Upstream::start(says).await;
    let server = server(Bounds::default(), vec![upstream.address]).await;
    (upstream, server)
}

#[tokio::test]
async fn forty_look_ups_are_under_way_at_once_by_udp() {
    let (_upstream, server) = with_upstream(Says::Together(MANY.into())).await;
    let one = guest(ONE).await;
    asked_by_udp(&one, server.address(), many("late")).await;
    let mut answers = Vec::new();
    for _ in 0..MANY {
        answers.push(next(&one, server.address()).await);
    }
    all_answered(&answers);
}

#[tokio::test]
async fn forty_look_ups_are_under_way_at_once_on_one_connection() {
    let (_upstream, server) = with_upstream(Says::Together(MANY.into())).await;
    let mut connection = Connection::open(ONE, server.address()).await;
    for question in many("late") {
        connection.ask(&question).await;
    }
    // It asks no more, and hears all the same.
    connection.end().await;
    let mut answers = Vec::new();
    while let Some(answer) = connection.next().await {
        answers.push(answer);
    }
    all_answered(&answers);
}

#[tokio::test]
async fn forty_look_ups_are_under_way_at_once_on_a_connection_each() {
    let (_upstream, server) = with_upstream(Says::Together(MANY.into())).await;
    let to = server.address();
    let mut asks = JoinSet::new();
    for question in many("late") {
        asks.spawn(async move {
            let mut connection = Connection::open(ONE, to).await;
            connection.ask(&question).await;
            connection.next().await.expect("an answer")
        });
    }
    all_answered(&asks.join_all().await);
}

#[tokio::test]
async fn an_answer_on_a_connection_waits_for_no_other() {
    let (upstream, server) = with_upstream(Says::Nothing).await;
    let mut connection = Connection::open(ONE, server.address()).await;
    connection.ask(&question("silent.example.org.", RecordType::A, None)).await;
    connection.ask(&question("web.shop.svc.rome.example.", RecordType::A, None)).await;
    assert_eq!(addresses(&connection.next().await.unwrap()), ["10.96.0.7"]);
    let failed = connection.next().await.unwrap();
    assert_eq!(failed.metadata.response_code, ResponseCode::ServFail);
    assert!((1..=2).contains(&upstream.asked()), "{}", upstream.asked());
}

#[tokio::test]
async fn a_silent_name_server_loses_nobodys_look_up_and_is_asked_last_afterwards() {
    let (silent, upstream) =
        (Upstream::start(Says::Nothing).await, Upstream::start(Says::All).await);
    let server = server(Bounds::default(), vec![silent.address, upstream.address]).await;
    let (one, to) = (guest(ONE).await, server.address());
    asked_by_udp(&one, to, many("first")).await;
    let mut answers = Vec::new();
    for _ in 0..MANY {
        answers.push(next(&one, to).await);
    }
    all_answered(&answers);
    assert!(silent.names("first") > 0, "it was asked first");
    assert_eq!(upstream.names("first"), usize::from(MANY));
    assert_eq!(addresses(&ask(&one, to, "then.example.org.", RecordType::A).await), ["192.0.2.7"]);
    assert_eq!((silent.names("then"), upstream.names("then")), (0, 1));
}

/// Guests that have all places, since nothing that they ask for is answered.
#[tokio::test]
async fn a_modest_guest_has_its_look_ups_beside_greedy_ones() {
    const GREEDY: [&str; 4] = ["127.0.0.21", "127.0.0.22", "127.0.0.23", "127.0.0.24"];
    const OF_ALL: usize = 1_024;
    for (of_greedy, modest) in [(LEASE, ONE), (LEASE, TWO)] {
        let (upstream, server) = with_upstream(Says::Together(MANY.into())).await;
        let mut knowledge = with(vec![upstream.address]);
        knowledge.guests.extend(GREEDY.map(|greedy| (at(greedy), of_greedy)));
        server.know(knowledge);
        let to = server.address();
        let mut greedy = Vec::new();
        for address in GREEDY {
            let socket = guest(address).await;
            for n in 0..OF_ALL / GREEDY.len() {
                let name = format!("n{n}.for-{modest}.{address}.example.org.");
                let question = question(&name, RecordType::A, None);
                socket.send_to(&question.to_vec().unwrap(), to).await.unwrap();
                if n % 16 == 0 {
                    ask(&socket, to, "web.shop.svc.rome.example.", RecordType::A).await;
                }
            }
            greedy.push(socket);
        }
        let socket = guest(modest).await;
        let mut answers = Vec::new();
        // On a machine that does much else, some may be late: a resolver asks twice.
        for _ in 0..2 {
            asked_by_udp(&socket, to, many("late")).await;
            answers.clear();
            for _ in 0..MANY {
                answers.push(next(&socket, to).await);
            }
            if answers.iter().all(|answer| !answer.answers.is_empty()) {
                break;
            }
        }
        all_answered(&answers);
        let of_greedy = upstream.names(&format!("for-{modest}"));
        assert!(of_greedy > OF_ALL / 2, "{of_greedy}");
    }
}

#[tokio::test]
async fn who_asks_without_end_slows_nobody_else() {
    let bounds = Bounds { questions_per_second: 1, burst: 50, ..Bounds::default() };
    let server = server(bounds, vec![]).await;
    let (one, two, to) = (guest(ONE).await, guest(TWO).await, server.address());
    let web = question("web.shop.svc.rome.example.", RecordType::A, None).to_vec().unwrap();
    for _ in 0..1_000 {
        one.send_to(&web, to).await.unwrap();
    }
    let secret = ask(&two, to, "secret.vault.svc.cluster.local.", RecordType::A).await;
    assert_eq!(addresses(&secret), ["10.96.0.9"]);
    let mut answered = 0;
    while one.try_recv(&mut [0; 512]).is_ok() {
        answered += 1;
    }
    assert!((1..60).contains(&answered), "{answered} of a thousand are answered");
}

/// One more than it has in its burst: it waits, and is answered.
#[tokio::test]
async fn who_asks_too_fast_on_a_connection_waits() {
    let bounds = Bounds { questions_per_second: 100, burst: 5, ..Bounds::default() };
    let server = server(bounds, vec![]).await;
    let mut connection = Connection::open(ONE, server.address()).await;
    for _ in 0..10 {
        connection.ask(&question("web.shop.svc.rome.example.", RecordType::A, None)).await;
    }
    for _ in 0..10 {
        assert_eq!(addresses(&connection.next().await.unwrap()), ["10.96.0.7"]);
    }
}
