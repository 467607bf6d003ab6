//! Load from the first end to the second, the same for whatever lies between.

use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use nix::sys::socket::sockopt::{RcvBufForce, TcpCongestion};
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg, setsockopt};
use socket2::{Domain, Protocol, Socket, Type};

use super::cable::Ends;

const WRITE_BYTES: usize = 128 << 10;
/// Linux's own default, whatever this machine has made of it.
const CONGESTION: &str = "cubic";
const QUESTIONS: usize = 2_000;
/// Payload of a small packet.
const SMALL_BYTES: usize = 64;
/// Small packets under way at most, so that none of the queues on the way is full.
const WINDOW: u64 = 256;
/// Of them, sent and received by one call, so that the load leaves the processor to the tunnel.
const AT_ONCE: usize = 16;
/// The sender, if it waits, is woken after so many.
const WAKE: u64 = WINDOW / 4;
/// After so long without a packet those under way count as lost.
const LOST: Duration = Duration::from_millis(5);
const SMALL_BUFFER_BYTES: usize = 8 << 20;

/// Two addresses, one at each end.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
}

/// Carries bytes by TCP from the first address of each pair to the second, all pairs at once, as
/// fast as it goes. Gives bytes and time.
pub(super) fn streams(ends: Ends<'_>, pairs: &[Pair], time: Duration) -> Result<(u64, Duration)> {
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for Pair { from, to } in pairs.iter().copied() {
        let listener = ends[1].within(move || TcpListener::bind((to, 0)))??;
        let at = listener.local_addr()?;
        readers.push(std::thread::spawn(move || read_all(&listener)));
        writers.push(ends[0].within(move || connect(from, at))??);
    }
    let began = Instant::now();
    let writers: Vec<JoinHandle<_>> = writers
        .into_iter()
        .map(|stream| std::thread::spawn(move || write_for(stream, began, time)))
        .collect();
    for writer in writers {
        writer.join().map_err(|_| anyhow!("a writer panicked"))??;
    }
    let mut bytes = 0;
    for reader in readers {
        bytes += reader.join().map_err(|_| anyhow!("a reader panicked"))??;
    }
    Ok((bytes, began.elapsed()))
}

fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    // A kernel without it has another one, by which all paths go.
    let _ = setsockopt(&socket, TcpCongestion, &OsString::from(CONGESTION));
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn write_for(mut stream: TcpStream, began: Instant, time: Duration) -> std::io::Result<()> {
    let bytes = vec![7; WRITE_BYTES];
    while began.elapsed() < time {
        stream.write_all(&bytes)?;
    }
    Ok(())
}

fn read_all(listener: &TcpListener) -> std::io::Result<u64> {
    let (mut stream, _) = listener.accept()?;
    let mut room = vec![0; 2 * WRITE_BYTES];
    let mut bytes = 0;
    loop {
        match stream.read(&mut room)? {
            0 => return Ok(bytes),
            read => bytes += read as u64,
        }
    }
}

/// Carries small packets of UDP, as fast as they arrive. Gives how many arrived, and the time.
pub(super) fn small_packets(
    ends: Ends<'_>,
    Pair { from, to }: Pair,
    time: Duration,
) -> Result<(u64, Duration)> {
    let there = ends[1].within(move || UdpSocket::bind((to, 0)))??;
    let here = ends[0].within(move || UdpSocket::bind((from, 0)))??;
    here.connect(there.local_addr()?)?;
    setsockopt(&there, RcvBufForce, &SMALL_BUFFER_BYTES)?;
    there.set_read_timeout(Some(Duration::from_millis(100)))?;
    let received = Arc::new(AtomicU64::new(0));
    let sender = std::thread::current();
    let is_over = Arc::new(AtomicBool::new(false));
    let receiver = {
        let (received, is_over) = (received.clone(), is_over.clone());
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let arrived = receive_small(&there);
                let before = received.fetch_add(arrived, Ordering::Relaxed);
                if before / WAKE != (before + arrived) / WAKE {
                    sender.unpark();
                }
            }
        })
    };
    let began = Instant::now();
    let (mut sent, mut lost) = (0, 0);
    while began.elapsed() < time {
        let arrived = received.load(Ordering::Relaxed);
        if sent - lost + AT_ONCE as u64 <= arrived + WINDOW {
            sent += send_small(&here).context("small packets were not taken")?;
        } else {
            // Without using the processor, which the tunnel needs.
            std::thread::park_timeout(LOST);
            if received.load(Ordering::Relaxed) == arrived {
                lost = sent - arrived;
            }
        }
    }
    let took = began.elapsed();
    let arrived = received.load(Ordering::Relaxed);
    is_over.store(true, Ordering::Relaxed);
    receiver.join().map_err(|_| anyhow!("a receiver panicked"))?;
    Ok((arrived, took))
}

/// Sends some. Gives how many.
fn send_small(socket: &UdpSocket) -> nix::Result<u64> {
    let bytes = [7; SMALL_BYTES];
    let packets = [[IoSlice::new(&bytes)]; AT_ONCE];
    let mut headers = MultiHeaders::<()>::preallocate(AT_ONCE, None);
    let flags = MsgFlags::empty();
    let all = sendmmsg(socket.as_raw_fd(), &mut headers, &packets, [None; AT_ONCE], [], flags)?;
    Ok(all.count() as u64)
}

/// Waits for one, and takes those that are there with it. Gives how many; none if none came.
fn receive_small(socket: &UdpSocket) -> u64 {
    let mut bytes = [[0; SMALL_BYTES]; AT_ONCE];
    let mut packets = bytes.each_mut().map(|packet| [IoSliceMut::new(packet)]);
    let mut headers = MultiHeaders::<()>::preallocate(AT_ONCE, None);
    let flags = MsgFlags::MSG_WAITFORONE;
    let all = recvmmsg(socket.as_raw_fd(), &mut headers, &mut packets, flags, None);
    all.map_or(0, |all| all.count() as u64)
}

/// The median time from a question of one byte to its answer, by TCP.
pub(super) fn round_trip(ends: Ends<'_>, Pair { from, to }: Pair) -> Result<Duration> {
    let listener = ends[1].within(move || TcpListener::bind((to, 0)))??;
    let at = listener.local_addr()?;
    let answerer = std::thread::spawn(move || answer_all(&listener));
    let mut stream = ends[0].within(move || connect(from, at))??;
    stream.set_nodelay(true)?;
    let mut times = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let asked = Instant::now();
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
        times.push(asked.elapsed());
    }
    drop(stream);
    answerer.join().map_err(|_| anyhow!("an answerer panicked"))??;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn answer_all(listener: &TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut byte = [0];
    while stream.read(&mut byte)? == 1 {
        stream.write_all(&byte)?;
    }
    Ok(())
}
