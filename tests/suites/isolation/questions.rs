//! Questions for names, as a resolver without a cache asks them: they take nothing of what else a guest
//! may have, and by TCP they are no slower than a pod's beside it.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier;
use mercato_tests::suite::{self, Level};
use mercato_tests::user::User;

use super::floods::{NAMES, known};
use super::inside::Inside;
use super::{GUESTS, LOCAL, NAMESPACE};

/// Who asks: a guest, and the provider's own pod beside it on its node.
const GUEST: &str = "far";
const ORDINARY: &str = "liar";
/// What a search list makes of a full name that has no dot at its end, and the name itself.
const TRIED: [&str; 5] =
    [".closed.svc.cluster.local", ".svc.cluster.local", ".cluster.local", ".campus.example", ""];
/// Of a record: an address of IPv4, and of IPv6.
const KINDS: [u16; 2] = [1, 28];
/// Names are looked up so often.
const EACH: Duration = Duration::from_millis(5);
/// An answer that takes longer is asked for again.
const SOON: Duration = Duration::from_secs(1);
/// Of ten thousand questions so many may be asked again, each once: this machine does other things as well.
const AGAIN: usize = 10;
/// A connection that begins later was kept waiting: a first packet that is lost takes a second.
const BEGINS: Duration = Duration::from_secs(4);
/// Connections to home that begin meanwhile, and are kept.
const KEPT: usize = 50;
/// What the node's conntrack may have more afterwards.
const FLOWS: u64 = 1_000;
const BY_TCP: usize = 400;
/// How many times as long as a pod beside it a guest may take for these, and what the machine may take.
const AS_LONG: u32 = 3;
const MACHINE: Duration = Duration::from_millis(500);

/// Looks names up for as long as this level has it, beside connections that begin, and then by TCP.
pub(crate) async fn take_nothing(provider: &Cluster, near: IpAddr) -> Result<()> {
    let names = match suite::level() {
        Level::Ci => 1_000,
        Level::Full => 12_000,
    };
    let guest = Inside::of(provider, &User::new(provider, GUESTS), GUEST).await?;
    let before = known(provider, guest.node).await?;
    let begun = Instant::now();
    let kept = guest.does(move |_| keep(SocketAddr::new(near, courier::PORT)));
    let asked = guest.does(move |pod| look_up(pod.on_device, names));
    let (kept, again) = tokio::try_join!(kept, asked)?;
    let (took, more) = (begun.elapsed(), known(provider, guest.node).await?.saturating_sub(before));
    let questions = names * TRIED.len() * KINDS.len();
    println!(
        "{questions} questions in {took:.1?}, {again} again: {more} connections more, {} kept",
        kept.len()
    );
    ensure!(again <= AGAIN * names / 1_000, "{again} of {questions} were asked again");
    ensure!(more < FLOWS, "{more} connections more of {questions} questions");

    let local = User::new(provider, LOCAL);
    let ordinary = Inside::of(provider, &local, ORDINARY).await?;
    let service = ["get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}"];
    let theirs: IpAddr = User::new(provider, "kube-system").kubectl(&service).await?.parse()?;
    let by_guest = guest.does(|_| by_tcp(SocketAddr::from(NAMES))).await.context("by TCP")?;
    let plain = ordinary.does(move |_| by_tcp(SocketAddr::new(theirs, 53))).await?;
    println!("{BY_TCP} by TCP: {by_guest:.1?}, and {plain:.1?} of a pod beside it");
    let is_as_fast = by_guest <= AS_LONG * plain + MACHINE;
    ensure!(is_as_fast, "{BY_TCP} by TCP take {by_guest:?}, and {plain:?} of a pod beside it");
    Ok(())
}

/// Begins them one after the other, each within a moment.
fn keep(to: SocketAddr) -> Result<Vec<TcpStream>> {
    let one = |number| {
        std::thread::sleep(20 * EACH);
        TcpStream::connect_timeout(&to, BEGINS).with_context(|| format!("connection {number}"))
    };
    (0..KEPT).map(one).collect()
}

/// Each question from a port of its own, as a resolver asks. Gives how many were asked again.
fn look_up(from: Ipv4Addr, names: usize) -> Result<usize> {
    let (begun, mut again) = (Instant::now(), 0);
    for number in 0..names {
        let due = EACH * u32::try_from(number)?;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let name = format!("near.{NAMESPACE}.svc.cluster.local");
        for (tried, kind) in TRIED.iter().flat_map(|tried| KINDS.map(|kind| (tried, kind))) {
            let id = u16::try_from(number % usize::from(u16::MAX))?;
            let whole = format!("{name}{tried}");
            if ask(from, id, &whole, kind).is_err() {
                again += 1;
                ask(from, id, &whole, kind)
                    .with_context(|| format!("{whole}, look-up {number}"))?;
            }
        }
    }
    Ok(again)
}

fn ask(from: Ipv4Addr, id: u16, name: &str, kind: u16) -> Result<()> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.connect(NAMES)?;
    socket.set_read_timeout(Some(SOON))?;
    socket.send(&question(id, name, kind))?;
    let mut answer = [0; 1_232];
    let bytes = socket.recv(&mut answer)?;
    ensure!(answer[..bytes].starts_with(&id.to_be_bytes()), "it is another question's answer");
    Ok(())
}

/// How long so many take, each on a connection of its own.
fn by_tcp(server: SocketAddr) -> Result<Duration> {
    let begun = Instant::now();
    for number in 0..BY_TCP {
        let ask = || -> Result<()> {
            let mut stream = TcpStream::connect_timeout(&server, BEGINS)?;
            stream.set_read_timeout(Some(BEGINS))?;
            stream.set_nodelay(true)?;
            let question =
                question(u16::try_from(number)?, "kubernetes.default.svc.cluster.local", 1);
            let length = u16::try_from(question.len())?.to_be_bytes();
            stream.write_all(&[&length[..], &question].concat())?;
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
            Ok(stream.read_exact(&mut answer)?)
        };
        ask().with_context(|| format!("look-up {number}"))?;
    }
    Ok(begun.elapsed())
}

/// A question of the class IN, which asks for recursion (RFC 1035, section 4.1).
fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut question = id.to_be_bytes().to_vec();
    question.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        question.push(label.len() as u8);
        question.extend(label.bytes());
    }
    question.push(0);
    question.extend(kind.to_be_bytes());
    question.extend([0, 1]);
    question
}
