//! Bytes that are carried from one end of a cable to the other, and looked at where they arrive.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use socket2::{Domain, Socket, Type};

use crate::cable::Cable;
use crate::mercato::pod;

/// Until what was sent must have arrived, whatever was lost on the way.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams that are sent at once.
const AT_ONCE: usize = 16;

/// Two addresses, one at each end.
pub(crate) type Pair = (IpAddr, IpAddr);

/// Carries so many bytes by TCP.
pub(crate) fn stream(cable: &Cable, (from, to): Pair, bytes: usize) -> Result<()> {
    let listener = cable.namespace(1).within(move || TcpListener::bind((to, 0)))??;
    let at = listener.local_addr()?;
    let reader = std::thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut received = Vec::with_capacity(bytes);
        stream.read_to_end(&mut received)?;
        ensure!(received.len() == bytes, "{} of {bytes} bytes arrived", received.len());
        let is_right = received.iter().enumerate().all(|(at, byte)| *byte == pattern(at));
        ensure!(is_right, "other bytes arrived than were sent");
        Ok(())
    });
    let mut stream = cable.namespace(0).within(move || connect(from, at))??;
    stream.set_write_timeout(Some(PATIENCE))?;
    let sent: Vec<u8> = (0..bytes).map(pattern).collect();
    stream.write_all(&sent).context("by TCP")?;
    drop(stream);
    reader.join().map_err(|_| anyhow!("a reader panicked"))?
}

/// A byte of the 251 that repeat, so that neither order nor loss goes unseen.
fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

/// Carries so many datagrams of so many bytes by UDP, a few at a time.
pub(crate) fn datagrams(cable: &Cable, (from, to): Pair, bytes: usize, count: usize) -> Result<()> {
    let there = cable.namespace(1).within(move || UdpSocket::bind((to, 0)))??;
    let here = cable.namespace(0).within(move || UdpSocket::bind((from, 0)))??;
    there.set_read_timeout(Some(Duration::from_secs(5)))?;
    here.connect(there.local_addr()?)?;
    let mut room = vec![0; 65_535];
    for first in (0..count).step_by(AT_ONCE) {
        let numbers = first..count.min(first + AT_ONCE);
        for number in numbers.clone() {
            here.send(&vec![number as u8; bytes])?;
        }
        for number in numbers {
            let length = there.recv(&mut room).with_context(|| format!("datagram {number}"))?;
            ensure!(length == bytes, "{length} of {bytes} bytes arrived");
            let is_right = room[..length].iter().all(|byte| *byte == number as u8);
            ensure!(is_right, "datagram {number} arrived out of turn, or changed");
        }
    }
    Ok(())
}

/// Carries one datagram from the pod at this end to the one at the other. Gives the sender's socket:
/// a kernel hears errors about those alone that are open.
pub(crate) fn one_datagram(cable: &Cable, end: usize, bytes: usize) -> Result<UdpSocket> {
    let (from, to) = (pod(end, 0), pod(1 - end, 0));
    let there = cable.namespace(1 - end).within(move || UdpSocket::bind((to, 0)))??;
    let here = cable.namespace(end).within(move || UdpSocket::bind((from, 0)))??;
    there.set_read_timeout(Some(Duration::from_secs(5)))?;
    here.send_to(&vec![7; bytes], there.local_addr()?)?;
    let mut room = vec![0; 65_535];
    let length = there.recv(&mut room).with_context(|| format!("{bytes} bytes of end {end}"))?;
    ensure!(room[..length] == vec![7; bytes], "{length} bytes arrived, or other ones");
    Ok(here)
}

/// Whether any of a few datagrams arrives.
pub(crate) fn is_heard(cable: &Cable, from: IpAddr, to: IpAddr) -> Result<bool> {
    let there = cable.namespace(1).within(move || UdpSocket::bind((to, 0)))??;
    let here = cable.namespace(0).within(move || UdpSocket::bind((from, 0)))??;
    there.set_read_timeout(Some(Duration::from_millis(100)))?;
    here.connect(there.local_addr()?)?;
    for _ in 0..3 {
        here.send(b"?")?;
        if there.recv(&mut [0; 1]).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How long it takes until a datagram arrives.
pub(crate) fn until_heard(cable: &Cable, (from, to): Pair) -> Result<Duration> {
    let there = cable.namespace(1).within(move || UdpSocket::bind((to, 0)))??;
    let here = cable.namespace(0).within(move || UdpSocket::bind((from, 0)))??;
    there.set_read_timeout(Some(Duration::from_millis(20)))?;
    here.connect(there.local_addr()?)?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        // An address that is gone for the moment is what is waited for.
        let _ = here.send(b"?");
        if there.recv(&mut [0; 1]).is_ok() {
            return Ok(began.elapsed());
        }
    }
    anyhow::bail!("nothing arrived in {PATIENCE:?}")
}
