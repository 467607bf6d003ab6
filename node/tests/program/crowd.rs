//! A crowd of strangers that holds every connection it gets, and floods what is valid and nobody
//! asked for: whom the owner trusts connects and trades all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mercato_discovery::Address;
use mercato_net::{Event, Limits, Net, NetConfig, limits};
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gossip::{Message, Publication, Withdraw};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{ClusterId, Digest, FederationId};
use mercato_protocol::identity::Identity;
use mercato_protocol::limits::PUSH_ITEMS;
use tokio::runtime::Runtime;

use crate::hostile::now;
use crate::kit::{Daemon, done};

/// More than there are places for.
fn crowd() -> usize {
    match std::env::var("MERCATO_TEST_LEVEL").as_deref() {
        Ok("full") => 1_000,
        _ => 70,
    }
}

fn key(n: usize) -> ([u8; 32], KeyPair) {
    let seed = Digest::of(&n.to_be_bytes()).0;
    (seed, KeyPair::from_seed(&seed))
}

/// As many publications as one message takes, each valid, of publishers that nobody knows.
fn flood() -> Bytes {
    let end = |n| {
        let (_, key) = key(n);
        let (provider, issued_ms) = (ClusterId(key.public().0), now().wall_ms);
        let end = Withdraw { provider, epoch: 1, seq: 1, issued_ms };
        Publication::Withdraw(key.sign(FederationId::lan(), &end).unwrap())
    };
    let publications = (0..PUSH_ITEMS).map(|n| end(10_000 + n)).collect();
    Bytes::from(Message::Push { publications, bodies: vec![] }.to_bytes().unwrap())
}

/// One of the crowd: dials until it is let in, says hello like anybody, and floods.
async fn stranger(n: usize, address: Address, flood: Bytes, holding: Arc<AtomicUsize>) {
    let (seed, key) = key(n);
    let config = NetConfig::new(seed, Vec::new(), Limits::default());
    let (net, mut events) = Net::start(config).unwrap();
    let hello = Hello {
        identity: Identity::found(&key, "crowd", now()).unwrap(),
        federation: FederationId::lan(),
        software: "crowd/1".to_owned(),
        addresses: Vec::new(),
        rotations: Vec::new(),
        certificates: Vec::new(),
        time_ms: None,
    };
    let said = Bytes::from(hello.to_bytes().unwrap());
    let hello = Bytes::from(FirstFrame::Hello(hello).to_bytes().unwrap());
    let answers = async {
        while let Some(event) = events.recv().await {
            if let Event::Request { responder, .. } = event {
                responder.respond(said.clone());
            }
        }
    };
    let floods = async {
        loop {
            if let Ok(victim) = net.dial(None, vec![address.clone()]).await
                && net.request(victim, hello.clone()).await.is_ok()
            {
                holding.fetch_add(1, Ordering::Relaxed);
                while net.send_gossip(victim, flood.clone()).is_ok() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                holding.fetch_sub(1, Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::join!(answers, floods);
}

/// Two who trust each other, of whom turin sells.
pub(crate) fn partners() -> (Daemon, Daemon) {
    let turin = Daemon::start("turin", &[]);
    let rome = Daemon::start("rome", &[&turin.address()]);
    let share = ["share", "set", "--cpu", "50%", "--memory", "50%", "--price", "cpu=0.60 EUR/h"];
    done(&turin, &[&share[..], &["--approve", "auto"]].concat());
    rome.wait_for_text(&["browse"], |table| table.contains("turin"));
    done(&rome, &["peer", "trust", "turin", "--yes"]);
    done(&turin, &["peer", "trust", "rome", "--yes"]);
    (turin, rome)
}

/// Rome, which knows turin, buys of it.
pub(crate) fn trade(rome: &Daemon, turin: &Daemon) {
    rome.wait_for_text(&["browse"], |table| table.contains("turin"));
    let demand = ["order", "--cpu", "2", "--memory", "4Gi", "--pods", "10", "--for", "1h"];
    let ordered = rome.json(&[&demand[..], &["-o", "json"]].concat());
    let id = ordered["id"].as_str().unwrap();
    for side in [rome, turin] {
        let show = ["contracts", "show", id, "-o", "json"];
        side.wait_for(&show, |contract| contract["state"] == "active");
    }
}

#[test]
fn whom_the_owner_trusts_trades_amid_a_crowd() {
    let (turin, rome) = partners();
    let (runtime, holding) = (Runtime::new().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (address, flood): (Address, _) = (turin.address().parse().unwrap(), flood());
    for n in 0..crowd() {
        runtime.spawn(stranger(n, address.clone(), flood.clone(), Arc::clone(&holding)));
    }
    let start = Instant::now();
    while holding.load(Ordering::Relaxed) < limits::PER_PRIVATE - 1 {
        assert!(start.elapsed() < Duration::from_secs(60), "{holding:?} are connected");
        std::thread::sleep(Duration::from_millis(50));
    }

    // Its connection of before is gone; it has to get another one among them.
    let rome = rome.restart_with(&[&turin.address()]);
    trade(&rome, &turin);
    assert!(holding.load(Ordering::Relaxed) > 0, "the crowd is still there");
    drop(runtime);
    [rome, turin].into_iter().for_each(Daemon::stop);
}
