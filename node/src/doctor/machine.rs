//! The machine: data folder, ports, names, what its kernel can do for UDP.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use mercato_discovery::{Address, Host};
use mercato_net::Names;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::statvfs::statvfs;

use super::Finding;

/// What records may need in a while: a guess.
const SPACE: u64 = 64 << 20;
/// For a name to be found.
const RESOLVE: Duration = Duration::from_secs(5);

/// Whether the data folder can be written, and has space.
pub(crate) fn data(dir: &Path) -> Finding {
    const CHECK: &str = "data folder";
    let shown = dir.display();
    let todo = format!("look at it: ls -ld {shown}; df -h {shown}");
    if let Err(error) = writable(dir) {
        return Finding::fail(CHECK, format!("{shown} cannot be written: {error}")).todo(todo);
    }
    let seed = dir.join("identity.seed");
    let open = fs::metadata(&seed).is_ok_and(|seed| seed.mode() & 0o077 != 0);
    if open {
        let seed = seed.display();
        let what = format!("others can read the cluster's key: {seed}");
        return Finding::fail(CHECK, what).todo(format!("chmod 600 {seed}"));
    }
    let left = statvfs(dir).map(|fs| fs.blocks_available().saturating_mul(fs.fragment_size()));
    match left {
        Ok(left) if left < SPACE => {
            let what = format!("{shown} has only {} MiB left", left >> 20);
            Finding::warn(CHECK, what).todo("make room: a full disk stops all trade")
        }
        Ok(_) | Err(_) => Finding::ok(CHECK, format!("{shown} can be written")),
    }
}

fn writable(dir: &Path) -> io::Result<()> {
    let probe = dir.join(format!("doctor.{}", std::process::id()));
    let written = fs::File::create_new(&probe).and_then(|mut file| {
        file.write_all(b"x")?;
        file.sync_all()
    });
    // It is not there where it could not be made.
    let _ = fs::remove_file(&probe);
    written
}

/// The ports that a daemon would take here.
pub(crate) fn free_ports(peers: u16, health: u16) -> Vec<Finding> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, peers));
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, health));
    let free = [
        (peers, "UDP", UdpSocket::bind(any).map(drop)),
        (peers, "TCP", TcpListener::bind(any).map(drop)),
        (health, "TCP", TcpListener::bind(local).map(drop)),
    ];
    let taken = free.into_iter().filter_map(|(port, transport, bound)| {
        let what = format!("port {port} ({transport}) is not free: {}", bound.err()?);
        Some(Finding::warn("ports", what).todo("a daemon would take another one: set `listen`"))
    });
    let taken: Vec<Finding> = taken.collect();
    if taken.is_empty() {
        let what = format!("ports {peers} (UDP and TCP) and {health} (TCP) are free");
        return vec![Finding::ok("ports", what)];
    }
    taken
}

/// Whether the names of the owner's list lead somewhere.
pub(crate) async fn names(addresses: &[Address], lookup: &Names) -> Vec<Finding> {
    let named = addresses.iter().filter_map(|address| match &address.host {
        Host::Name(name) => Some(name.clone()),
        Host::Ip(_) => None,
    });
    let mut named: Vec<String> = named.collect();
    named.dedup();
    let mut findings = Vec::new();
    for name in named {
        let found = tokio::time::timeout(RESOLVE, lookup(name.clone())).await;
        findings.push(match found {
            Ok(Ok(addresses)) => match addresses.first() {
                Some(ip) => Finding::ok("names", format!("{name} is {ip}")),
                None => unknown(&name, "it has no address"),
            },
            Ok(Err(error)) => unknown(&name, &error.to_string()),
            Err(_) => unknown(&name, "no name server has answered for 5 s"),
        });
    }
    findings
}

fn unknown(name: &str, why: &str) -> Finding {
    Finding::fail("names", format!("{name} is not found: {why}"))
        .todo(format!("ask for it: getent hosts {name}; name servers: /etc/resolv.conf"))
}

/// Whether the kernel takes and gives UDP in large pieces, which saves processor time.
pub(crate) fn offloads() -> Finding {
    const CHECK: &str = "udp offloads";
    let socket = match UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
        Ok(socket) => socket,
        Err(error) => return Finding::warn(CHECK, format!("they cannot be looked at: {error}")),
    };
    let sends = setsockopt(&socket, sockopt::UdpGsoSegment, &1_200).is_ok();
    let receives = setsockopt(&socket, sockopt::UdpGroSegment, &true).is_ok();
    match (sends, receives) {
        (true, true) => Finding::ok(CHECK, "the kernel has GSO and GRO for UDP"),
        (false, _) => Finding::warn(CHECK, "the kernel has no GSO for UDP: sending costs more"),
        (true, false) => {
            Finding::warn(CHECK, "the kernel has no GRO for UDP: receiving costs more")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use mercato_net::system_names;

    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_data_folder_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(data(dir.path()).verdict, Verdict::Ok);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays");
        assert_eq!(data(&dir.path().join("none")).verdict, Verdict::Fail);
        let seed = dir.path().join("identity.seed");
        fs::write(&seed, b"x").unwrap();
        fs::set_permissions(&seed, fs::Permissions::from_mode(0o640)).unwrap();
        let found = data(dir.path());
        assert!(found.verdict == Verdict::Fail && found.todo[0].starts_with("chmod 600"));
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let _held = TcpListener::bind(("127.0.0.1", taken)).unwrap();
        let found = free_ports(0, taken);
        assert!(found.len() == 1 && found[0].what.contains(&taken.to_string()), "{found:?}");
        assert_eq!(free_ports(0, 0)[0].verdict, Verdict::Ok);
    }

    #[tokio::test]
    async fn names_are_resolved() {
        let address = |text: &str| text.parse().unwrap();
        let found = names(
            &[address("/dns/localhost/tcp/1"), address("/ip4/192.0.2.1/tcp/1")],
            &system_names(),
        )
        .await;
        assert!(found.len() == 1 && found[0].verdict == Verdict::Ok, "{found:?}");
        let found = names(&[address("/dns/nowhere.invalid/tcp/1")], &system_names()).await;
        assert_eq!(found[0].verdict, Verdict::Fail);
        assert_eq!(names(&[], &system_names()).await, []);
    }
}
