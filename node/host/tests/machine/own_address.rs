//! A closed pod that knows itself by the address that everybody knows it by, and has another one on the
//! wire: nobody outside sees the former, and nobody in the pod the latter.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_host::{Namespaces, Sandbox, close_both, has_address, open, put_address};
use mercato_machine::Closed;

use crate::closed::{connection, echoes, says};
use crate::cluster::{PATIENCE, nft, said};
use crate::packets::{exchange, has_nothing, rises, socket};
use crate::pods::{NODE, POD, POD_V6, Pods, REACHED, counted_in_all, wanted};
use crate::services::{CALLED as SERVICE_CALLED, HERE as SERVICE_HERE, behind, translated};

const OWN: Ipv4Addr = Ipv4Addr::new(10, 201, 9, 5);
const LATER_OWN: Ipv4Addr = Ipv4Addr::new(10, 201, 9, 6);
/// From whom it is called that calls itself by a Service.
const BY_SERVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 6);
/// At which nobody listens (that of `discard`).
const NOBODYS_PORT: u16 = 9;

/// Counts what comes from the pod with the address that is none on the wire, or asks for it.
const FOREIGN: &str = "
table netdev foreign {
    chain arriving {
        type filter hook ingress device \"pod0\" priority -20; policy accept;
        ip saddr { 10.201.9.5, 10.201.9.6 } counter
        ip daddr { 10.201.9.5, 10.201.9.6 } counter
        arp saddr ip { 10.201.9.5, 10.201.9.6 } counter
    }
}
table netdev neighbours {
    chain arriving {
        type filter hook ingress device \"pod0\" priority -20; policy accept;
        arp saddr ip 10.42.0.5 counter
    }
}";

fn called(own: Ipv4Addr) -> Closed {
    Closed { called: Some(own), ..wanted() }
}

fn close_and_put(pods: &Pods, wanted: &Closed) -> Result<Sandbox> {
    let (sandbox, wanted) = (pods.sandbox()?, wanted.clone());
    let at = sandbox.clone();
    let own = wanted.called.context("it has none")?;
    pods.node.within(move || close_both(&at, &wanted).and_then(|()| put_address(&at, own)))??;
    Ok(sandbox)
}

/// What the pod has of IPv4, and of IPv6.
fn state(pods: &Pods) -> Result<[String; 4]> {
    let list = |words: &str| said(&pods.pod, words);
    Ok([
        list("ip -4 -o address show dev eth0")?,
        list("ip -4 route")?,
        list("ip -6 -o address show dev eth0")?,
        list("ip -6 route")?,
    ])
}

pub(crate) fn a_pod_knows_itself_by_one_address() -> Result<()> {
    let pods = Pods::new()?;
    nft(&pods.node, FOREIGN)?;
    let [_, _, six_before, routes_before] = state(&pods)?;
    close_and_put(&pods, &called(OWN))?;
    let [addresses, routes, six, six_routes] = state(&pods)?;
    ensure!(addresses.lines().count() == 1 && addresses.contains("10.201.9.5/32"), "{addresses}");
    ensure!(six == six_before && six_routes == routes_before, "{six}\n{six_routes}");
    ensure!(routes.lines().count() == 3, "{routes}");
    ensure!(routes.lines().all(|route| route.contains("src 10.201.9.5")), "{routes}");
    for namespace in [&pods.node, &pods.pod] {
        said(namespace, "ip neigh flush all")?;
    }
    let [own, reached, node] = [OWN, REACHED, NODE[0]].map(IpAddr::from);
    // A listener and a caller that are bound to it alone.
    let (pod, outside) = (socket(&pods.pod, own, 0)?, socket(&pods.outside, reached, 0)?);
    let source = exchange(&pod, &outside, reached).context("a datagram")?;
    ensure!(source == IpAddr::from(POD), "it came from {source}");
    let port = pod.local_addr()?.port();
    outside.send_to(b"!", (POD, port))?;
    let (_, from) = pod.recv_from(&mut [0; 1]).context("a datagram to it")?;
    ensure!(from.ip() == reached, "it came from {from}");
    let large = [b'x'; 3_000];
    pod.send_to(&large, outside.local_addr()?)?;
    let (length, _) = outside.recv_from(&mut [0; 4_000]).context("in several packets")?;
    ensure!(length == large.len(), "it came with {length} bytes");
    let (mut stream, mut other) = connection(&pods.pod, own, &pods.outside, reached)?;
    ensure!(other.peer_addr()?.ip() == IpAddr::from(POD), "{other:?}");
    says(&mut stream, &mut other)?;
    says(&mut other, &mut stream)?;
    for (from, source) in [(&pods.outside, reached), (&pods.node, node)] {
        comes_in(&pods, from, source)?;
        echoes(from, source, POD.into()).with_context(|| format!("an echo from {source}"))?;
    }
    echoes(&pods.pod, own, reached).context("an echo of its own")?;
    // To itself.
    let (mut stream, mut other) = connection(&pods.pod, own, &pods.pod, own)?;
    ensure!(other.peer_addr()?.ip() == own, "{other:?}");
    says(&mut stream, &mut other)?;
    // IPv6 is as it was.
    connection(&pods.pod, POD_V6.into(), &pods.outside, crate::pods::REACHED_V6.into())?;
    let count = |table: &str| counted_in_all(&pods.node, &format!("netdev {table}"));
    ensure!(count("foreign")? == 0, "its own address is on the wire");
    ensure!(count("neighbours")? > 0, "no neighbour was asked or answered");
    Ok(())
}

/// Who calls the pod's address on the wire reaches who listens at its own one.
fn comes_in(pods: &Pods, from: &crate::namespace::Namespace, source: IpAddr) -> Result<()> {
    let listener = pods.pod.within(|| std::net::TcpListener::bind((OWN, 0)))??;
    let at = SocketAddr::new(POD.into(), listener.local_addr()?.port());
    let socket = from.within(move || {
        let kind = socket2::Type::STREAM;
        socket2::Socket::new(socket2::Domain::IPV4, kind, None)
    })??;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect_timeout(&at.into(), PATIENCE).with_context(|| format!("from {source}"))?;
    let (mut other, peer) = listener.accept()?;
    ensure!(peer.ip() == source && other.local_addr()?.ip() == IpAddr::from(OWN), "{other:?}");
    let mut stream = std::net::TcpStream::from(socket);
    for end in [&stream, &other] {
        end.set_read_timeout(Some(PATIENCE))?;
    }
    says(&mut stream, &mut other)?;
    says(&mut other, &mut stream)
}

pub(crate) fn errors_are_about_what_each_knows() -> Result<()> {
    let pods = Pods::new()?;
    close_and_put(&pods, &called(OWN))?;
    let is_refused = |socket: &std::net::UdpSocket, whom: Ipv4Addr| -> Result<()> {
        socket.connect((whom, NOBODYS_PORT))?;
        socket.send(b"?")?;
        let refused = socket.recv(&mut [0; 1]).expect_err("nobody listens");
        ensure!(refused.kind() == ErrorKind::ConnectionRefused, "of {whom}: {refused}");
        Ok(())
    };
    is_refused(&socket(&pods.pod, OWN, 0)?, REACHED)?;
    is_refused(&socket(&pods.outside, REACHED, 0)?, POD)?;
    is_refused(&socket(&pods.node, NODE[0], 0)?, POD).context("the node")?;
    pods.node.ip("link set out0 mtu 1300")?;
    let outside = socket(&pods.outside, REACHED, 0)?;
    let pod = socket(&pods.pod, OWN, 0)?;
    pod.connect(outside.local_addr()?)?;
    let until = Instant::now() + PATIENCE;
    loop {
        // The first is too large, and an error says so; then its way is known, and it goes in parts.
        let _ = pod.send(&[b'x'; 1_400]);
        let routes = said(&pods.pod, &format!("ip route get {REACHED}"))?;
        if routes.contains("mtu 1300") {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the way is not known to take less: {routes}");
    }
}

pub(crate) fn services_are_translated_as_well() -> Result<()> {
    let pods = Pods::new()?;
    behind(&pods, &[(SERVICE_HERE, REACHED)])?;
    let all = Closed { called: Some(OWN), ..translated(&[(SERVICE_CALLED, SERVICE_HERE)]) };
    close_and_put(&pods, &all)?;
    ensure!(pods.is_closed(&all)?, "it is not read as it was written");
    let [pod, outside] = [socket(&pods.pod, OWN, 0)?, socket(&pods.outside, REACHED, 0)?];
    let source = exchange(&pod, &outside, SERVICE_CALLED)?;
    ensure!(source == IpAddr::from(POD), "it came from {source}");
    pod.connect((SERVICE_CALLED, NOBODYS_PORT))?;
    pod.send(b"?")?;
    let refused = pod.recv(&mut [0; 1]).expect_err("nobody is there");
    ensure!(refused.kind() == ErrorKind::ConnectionRefused, "{refused}");
    Ok(())
}

/// What a Service sends back to whoever has called it comes from the caller's own address, from outside.
pub(crate) fn it_is_called_by_itself() -> Result<()> {
    let pods = Pods::new()?;
    let range = format!("{OWN}/32").parse()?;
    let reached = wanted().reached.into_iter().chain([range]).collect();
    close_and_put(&pods, &Closed { called: Some(OWN), reached, ..wanted() })?;
    pods.outside.ip(&format!("address add {OWN}/32 dev lo"))?;
    let (outside, pod) = (socket(&pods.outside, OWN, 0)?, socket(&pods.pod, OWN, 0)?);
    let source = exchange(&outside, &pod, POD)?;
    ensure!(source == IpAddr::from(BY_SERVICE), "it came from {source}");
    Ok(())
}

/// As the pod ends, its pod network looks for the rule of the address that its device has.
pub(crate) fn its_masquerade_goes_along() -> Result<()> {
    let pods = Pods::new()?;
    let rule = |of: IpAddr| format!("POSTROUTING -s {of}/32 -m comment --comment of_it -j CNI-one");
    let nat = |words: &str| said(&pods.node, &format!("iptables-nft -t nat {words}"));
    for words in [
        "-N CNI-one",
        "-N MINE",
        "-A POSTROUTING -s 10.42.0.5/32 -m comment --comment another -j MINE",
        "-A POSTROUTING -s 10.42.0.0/24 -j CNI-one",
        &format!("-A {}", rule(POD.into())),
        "-A POSTROUTING -s 10.42.0.6/32 -j CNI-one",
    ] {
        nat(words)?;
    }
    let before = nat("-S POSTROUTING")?;
    let is_of = |of: Ipv4Addr| -> Result<()> {
        let (there, wanted) =
            (nat("-S POSTROUTING")?, before.replace(&rule(POD.into()), &rule(of.into())));
        ensure!(wanted.contains(&rule(of.into())), "{before}");
        ensure!(there == wanted, "{there}\nis not\n{wanted}");
        Ok(())
    };
    let sandbox = close_and_put(&pods, &called(OWN))?;
    is_of(OWN)?;
    close_and_put(&pods, &called(LATER_OWN))?;
    is_of(LATER_OWN)?;
    pods.node.within(move || open(&sandbox))??;
    is_of(POD)?;
    close_and_put(&pods, &called(OWN))?;
    // What a plugin says as the pod ends.
    nat(&format!("-D {}", rule(OWN.into()))).map(drop)
}

pub(crate) fn nothing_leaves_with_it_before() -> Result<()> {
    let pods = Pods::new()?;
    nft(&pods.node, FOREIGN)?;
    // The address without the rules that write another one: whoever sends as it is dropped.
    pods.close(&wanted())?;
    pods.pod.ip(&format!("address add {OWN}/32 dev eth0"))?;
    let outside = socket(&pods.outside, REACHED, 0)?;
    let pod = socket(&pods.pod, OWN, 0)?;
    let before = pods.dropped()?;
    pod.send_to(b"?", outside.local_addr()?)?;
    rises(|| pods.dropped(), before)?;
    has_nothing(&outside)?;
    let foreign = counted_in_all(&pods.node, "netdev foreign")?;
    ensure!(foreign == 0, "{foreign} frames have left");
    Ok(())
}

/// A second time nothing is done, whoever breaks it is mended, another address comes in its place, and
/// whoever was closed by mistake has that of the pod network again.
pub(crate) fn it_comes_and_goes() -> Result<()> {
    let pods = Pods::new()?;
    let before = state(&pods)?;
    let sandbox = close_and_put(&pods, &called(OWN))?;
    let there = state(&pods)?;
    let changes = || said(&pods.pod, "nft -s -a list table netdev mercato");
    let rules = changes()?;
    let again = close_and_put(&pods, &called(OWN))?;
    ensure!(again == sandbox, "it is found as {again:?}");
    ensure!(state(&pods)? == there && changes()? == rules, "it was made anew");
    for broken in [
        format!("address add {POD}/24 dev eth0 noprefixroute"),
        "route change default via 10.42.0.1 dev eth0".to_owned(),
    ] {
        pods.pod.ip(&broken)?;
        ensure!(state(&pods)? != there, "{broken} breaks nothing");
        close_and_put(&pods, &called(OWN))?;
        ensure!(state(&pods)? == there, "{broken} is not mended: {:?}", state(&pods)?);
    }
    close_and_put(&pods, &called(LATER_OWN))?;
    let later = state(&pods)?;
    ensure!(later == there.map(|line| line.replace("10.201.9.5", "10.201.9.6")), "{later:?}");
    let (at, asked) = (sandbox.clone(), sandbox.clone());
    ensure!(pods.node.within(move || has_address(&asked, LATER_OWN))??, "it is not seen");
    pods.node.within(move || open(&at))??;
    let [addresses, routes, ..] = state(&pods)?;
    ensure!(addresses.lines().count() == 1 && addresses.contains("10.42.0.5/32"), "{addresses}");
    let with_source = |routes: &str| routes.replace(" src 10.42.0.5", "").replace(" onlink", "");
    ensure!(with_source(&routes) == with_source(&before[1]), "{routes}\nis not\n{}", before[1]);
    let [pod, outside] = [socket(&pods.pod, POD, 0)?, socket(&pods.outside, REACHED, 0)?];
    exchange(&pod, &outside, REACHED).context("as before").map(drop)
}

/// Whoever looks for it, and has not seen it before, knows it by its address on the wire.
pub(crate) fn it_is_found_by_its_address_on_the_wire() -> Result<()> {
    let pods = Pods::new()?;
    let sandbox = close_and_put(&pods, &called(OWN))?;
    let found = pods.sandbox_of(POD.into())??.context("nobody was found")?;
    ensure!(found == sandbox, "{found:?} is not {sandbox:?}");
    ensure!(pods.sandbox_of(POD_V6.into())??.as_ref() == Some(&sandbox), "by IPv6");
    ensure!(pods.sandbox_of(OWN.into())??.is_none(), "it is found by its own address");
    let at = sandbox.clone();
    let addresses = pods.node.within(move || at.addresses())??;
    ensure!(addresses == [POD.into(), POD_V6.into()].into(), "{addresses:?}");
    let folder = pods.folder.clone();
    let ask = move |folder: PathBuf| {
        let folders = [folder.as_path()];
        let all = Namespaces::default().addresses(&folders)?;
        Ok::<_, mercato_host::HostError>((all, Namespaces::default().closed(&folders)?))
    };
    let (all, closed) = pods.node.within(move || ask(folder))??;
    ensure!(all.contains(&POD.into()) && !all.contains(&OWN.into()), "{all:?}");
    ensure!(closed == [(POD.into(), sandbox.clone())].into(), "{closed:?}");
    // One that has ended between the rules of another address and that address.
    let changed = called(LATER_OWN);
    pods.node.within(move || close_both(&sandbox, &changed))??;
    ensure!(pods.sandbox_of(POD.into())??.is_some(), "the change has lost it");
    close_and_put(&pods, &called(LATER_OWN)).map(drop)
}
