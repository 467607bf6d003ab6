//! Bytes that mean nothing, on every port that a daemon has.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, PART};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket, UnixStream};

const PATIENCE: Duration = Duration::from_secs(60);

/// Each connection is let go, none of them changes how the daemon is.
pub(crate) async fn everywhere(daemon: &Daemon<'_>) -> Result<()> {
    let before = daemon.json(&["status"]).await?;
    let (streams, datagrams) = ports(daemon).await?;
    ensure!(!streams.is_empty() && !datagrams.is_empty(), "no ports in {before}");
    for at in streams {
        let mut stream = TcpStream::connect(at).await.with_context(|| format!("TCP {at}"))?;
        let_go(&mut stream).await.with_context(|| format!("TCP {at}"))?;
    }
    for at in datagrams {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        for length in [1, 40, 1_200] {
            socket.send_to(&noise(length), at).await?;
        }
    }
    let socket = daemon.cluster.data_outside().join(PART).join("admin.sock");
    let_go(&mut UnixStream::connect(socket).await?).await.context("the admin socket")?;
    let after = daemon.json(&["status"]).await?;
    ensure!(after["daemon"] == before["daemon"], "before {before}, after {after}");
    Ok(())
}

/// Where it listens on the LAN: TCP and UDP.
async fn ports(daemon: &Daemon<'_>) -> Result<(Vec<SocketAddr>, Vec<SocketAddr>)> {
    let listening = daemon.cluster.command("ss")?.args(["-Hlntup"]).output().await?;
    let listening = String::from_utf8(listening.stdout)?;
    let process = format!("\"{PART}\"");
    let (mut streams, mut datagrams) = (Vec::new(), Vec::new());
    let lan = lan_address(daemon).await?;
    for line in listening.lines().filter(|line| line.contains(&process)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(kind), Some(place)) = (words.first(), words.get(4)) else { continue };
        let Some(port) = place.rsplit(':').next().and_then(|port| port.parse().ok()) else {
            continue;
        };
        let at = SocketAddr::new(lan, port);
        if place.starts_with("127.") || place.starts_with("[::1]") {
            continue;
        }
        // mDNS is shared by all on a machine and answers nobody in particular.
        match *kind {
            "tcp" => streams.push(at),
            "udp" if port != 5353 => datagrams.push(at),
            _ => {}
        }
    }
    Ok((streams, datagrams))
}

async fn lan_address(daemon: &Daemon<'_>) -> Result<std::net::IpAddr> {
    let view = ["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"];
    let server = daemon.cluster.kubectl(&view).await?.ok()?;
    let host = server.trim_start_matches("https://").rsplit_once(':').context("a port")?.0;
    Ok(host.parse()?)
}

/// Writes noise until the other side ends the connection.
async fn let_go(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> Result<()> {
    let ended = async {
        // It may be let go before all is written.
        let _ = stream.write_all(&noise(4_096)).await;
        let mut answer = [0; 4_096];
        while matches!(stream.read(&mut answer).await, Ok(1..)) {}
    };
    tokio::time::timeout(PATIENCE, ended).await.context("the connection is held open")
}

/// The same each time, and nothing that any protocol begins with.
fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 167 + 13) as u8 | 0x80).collect()
}
