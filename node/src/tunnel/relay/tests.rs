//! What guests hear, and what others do, over loopback: each guest calls from an address of its own.

use futures::FutureExt as _;
use mercato_protocol::id::{ClusterId, ContractId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::*;

const LEASE: ContractId = ContractId([1; 16]);
const GUEST: &str = "127.0.5.7";
const OTHER: &str = "127.0.5.8";
const STRANGER: &str = "127.0.5.9";
/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// An API server that says everything back, and its last word at the end.
async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut said = [0; 64];
                while let Ok(length @ 1..) = connection.read(&mut said).await {
                    connection.write_all(&said[..length]).await.unwrap();
                }
                let _ = connection.write_all(b"bye").await;
            });
        }
    });
    address
}

/// An address at which nobody listens.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

fn callers(all: &[(&str, &str)]) -> Callers {
    let caller =
        |pod: &str| Caller { cluster: ClusterId([1; 32]), lease: LEASE, pod: Uid(pod.to_owned()) };
    Arc::new(all.iter().map(|(at, pod)| (at.parse().unwrap(), caller(pod))).collect())
}

/// One that brings guests to these, with room for so many connections of one.
async fn relay(servers: &[SocketAddr], of_guest: usize) -> Relay {
    let all: Vec<_> = servers.iter().map(|at| (at.ip().to_string(), at.port())).collect();
    let ask: AskServers = Arc::new(move || {
        let all = all.clone();
        async move { all }.boxed()
    });
    let bounds = RelayBounds { of_guest, ..RelayBounds::default() };
    let relay = Relay::start("127.0.0.1:0".parse().unwrap(), ask, bounds).await.unwrap();
    relay.allow(&callers(&[(GUEST, "web"), (OTHER, "api")]));
    relay
}

/// A connection of this guest's; none, where it was refused before it was known to be there.
async fn call(from: &str, relay: &Relay) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    timeout(PATIENCE, socket.connect(relay.address())).await.unwrap().ok()
}

/// Whether the server answers; else the connection is over.
async fn is_answered(connection: &mut Option<TcpStream>) -> bool {
    let Some(connection) = connection else { return false };
    let mut said = [0; 4];
    // It may be over before that is said.
    let _ = connection.write_all(b"ping").await;
    match timeout(PATIENCE, connection.read_exact(&mut said)).await.expect("nothing comes of it") {
        Ok(_) => {
            assert_eq!(&said, b"ping");
            true
        }
        Err(_) => false,
    }
}

#[tokio::test]
async fn what_is_said_is_passed_on_as_it_is_and_so_is_its_end() {
    let relay = relay(&[server().await, nobody().await], 4).await;
    let mut guest = call(GUEST, &relay).await.unwrap();
    let all: Vec<u8> = (0..1_000_000_u32).map(|n| (n ^ (n >> 9)) as u8).collect();
    let (mut from, mut to) = guest.split();
    let said = all.clone();
    let says = async {
        to.write_all(&said).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let hears = async {
        let mut heard = Vec::new();
        from.read_to_end(&mut heard).await.unwrap();
        heard
    };
    let (heard, ()) = timeout(PATIENCE, async { tokio::join!(hears, says) }).await.unwrap();
    assert!(heard.ends_with(b"bye") && heard[..all.len()] == all, "{} bytes", heard.len());
}

#[tokio::test]
async fn nobody_but_guests_that_may_is_heard() {
    let relay = relay(&[server().await, nobody().await], 4).await;
    let mut stranger = call(STRANGER, &relay).await;
    assert!(!is_answered(&mut stranger).await);
    assert_eq!((relay.refused(), relay.connections()), (1, 0));
    assert!(is_answered(&mut call(GUEST, &relay).await).await);
    assert_eq!(relay.refused(), 1);
}

#[tokio::test]
async fn whose_access_ends_loses_what_he_has() {
    let relay = relay(&[server().await, nobody().await], 4).await;
    let (mut guest, mut other) = (call(GUEST, &relay).await, call(OTHER, &relay).await);
    assert!(is_answered(&mut guest).await && is_answered(&mut other).await);
    relay.allow(&callers(&[(OTHER, "api")]));
    let mut said = [0; 1];
    let ended = guest.as_mut().unwrap().read(&mut said);
    let ended = timeout(PATIENCE, ended).await.expect("it goes on");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert!(is_answered(&mut other).await, "another one is not concerned");
    assert!(!is_answered(&mut call(GUEST, &relay).await).await);
    // Another pod has the address by now.
    relay.allow(&callers(&[(OTHER, "new")]));
    assert!(!is_answered(&mut other).await, "it goes on as somebody else");
    assert!(is_answered(&mut call(OTHER, &relay).await).await);
}

#[tokio::test]
async fn a_flood_takes_no_room_but_its_own() {
    let relay = relay(&[server().await, nobody().await], 3).await;
    let mut flood = Vec::new();
    for _ in 0..30 {
        flood.push(call(GUEST, &relay).await);
    }
    let mut answered = Vec::new();
    for connection in &mut flood {
        answered.push(is_answered(connection).await);
    }
    assert_eq!(answered, (0..30).map(|n| n < 3).collect::<Vec<_>>());
    assert_eq!(relay.refused(), 27);
    assert!(is_answered(&mut call(OTHER, &relay).await).await, "another one has room");
    drop(flood);
    timeout(PATIENCE, async {
        while !is_answered(&mut call(GUEST, &relay).await).await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("its room does not come back");
}

#[tokio::test]
async fn the_next_server_is_taken_where_one_is_dead() {
    let (dead, last) = (nobody().await, server().await);
    let relay = relay(&[dead, dead, last], 4).await;
    for _ in 0..3 {
        assert!(is_answered(&mut call(GUEST, &relay).await).await);
    }
    let relay = self::relay(&[dead, dead], 4).await;
    assert!(!is_answered(&mut call(GUEST, &relay).await).await, "nobody is there");
    assert_eq!(relay.refused(), 0, "it is not refused");
    let why = relay.trouble().expect("it is not said");
    assert!(why.contains(&dead.to_string()), "{why}");
    let relay = self::relay(&[], 4).await;
    assert!(!is_answered(&mut call(GUEST, &relay).await).await, "none is known");
}
