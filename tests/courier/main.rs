//! The bed's courier: it carries bytes between two ends, in pods and on nodes, and counts them
//! at both.
//!
//! `serve` sends back whatever comes by TCP and UDP, with what was counted here and who seemed
//! to send it, and answers HTTP with as many bytes as are asked for. `tcp` and `udp` send, and
//! say what came there, what came back, and as whom they were seen; `tcp` also for how many
//! milliseconds nothing came back, at the most. Content is a marker over and
//! over, for captures to look for.
//!
//! It uses the standard library alone: the bed compiles this file by itself, static, into an
//! image.
#![allow(clippy::disallowed_methods, reason = "it waits in real time")]

use std::collections::BTreeMap;
use std::io::{self, Error, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: courier serve PORT
       courier tcp ADDRESS:PORT BYTES MARKER
       courier udp ADDRESS:PORT DATAGRAMS MARKER [BYTES]";
/// Until a connection that says nothing is given up: a guess, above what a loaded machine takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Until a datagram counts as lost: the same for one of them.
const LOST: Duration = Duration::from_secs(2);
/// Datagrams that are sent at once.
const AT_ONCE: u64 = 16;
/// Bytes of a datagram, which every path takes whole, where no others are asked for.
const DATAGRAM: usize = 1_000;
/// Asks how many datagrams came, and from whom.
const ASK: &[u8] = b"how many?";
const TOLD: &str = "told ";
/// Senders of datagrams that are remembered.
const SENDERS: usize = 1_000;
/// Bytes of an HTTP request, at most.
const REQUEST: usize = 64 << 10;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", port] => parsed(port).and_then(serve),
        ["tcp", to, bytes, marker] => both(to, bytes).and_then(|(to, n)| by_tcp(to, n, marker)),
        ["udp", to, count, marker] => {
            both(to, count).and_then(|(to, n)| by_udp(to, n, marker, DATAGRAM))
        }
        ["udp", to, count, marker, bytes] => both(to, count)
            .and_then(|(to, n)| parsed(bytes).and_then(|bytes| by_udp(to, n, marker, bytes))),
        _ => Err(Error::other(USAGE)),
    };
    match done {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("courier: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn both(to: &str, number: &str) -> io::Result<(SocketAddr, u64)> {
    Ok((parsed(to)?, parsed(number)?))
}

fn parsed<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse().map_err(|_| Error::other(format!("{word:?} is not understood\n{USAGE}")))
}

/// Serves until it is killed.
fn serve(port: u16) -> io::Result<String> {
    // Of both families, where there are both.
    let [any_v6, any_v4] = ["::", "0.0.0.0"].map(|any| any.parse::<IpAddr>());
    let any = [any_v6, any_v4].into_iter().flatten().map(|any| SocketAddr::new(any, port));
    let any: Vec<_> = any.collect();
    let datagrams = UdpSocket::bind(&any[..])?;
    let listener = TcpListener::bind(&any[..])?;
    thread::spawn(move || send_datagrams_back(&datagrams));
    println!("serving on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(error) = answer(stream) {
                println!("a connection failed: {error}");
            }
        });
    }
    Err(Error::other("nothing listens any more"))
}

fn send_datagrams_back(socket: &UdpSocket) {
    let mut senders = BTreeMap::<SocketAddr, u64>::new();
    let mut room = vec![0; 64 << 10];
    loop {
        // A port that is closed over there is reported here.
        let Ok((length, from)) = socket.recv_from(&mut room) else { continue };
        if senders.len() == SENDERS && !senders.contains_key(&from) {
            senders.pop_first();
        }
        let count = senders.entry(from).or_default();
        let sent = if &room[..length] == ASK {
            let told = format!("{TOLD}{count} {}", from.ip().to_canonical());
            socket.send_to(told.as_bytes(), from)
        } else {
            *count += 1;
            socket.send_to(&room[..length], from)
        };
        if let Err(error) = sent {
            println!("cannot answer {from}: {error}");
        }
    }
}

/// Sends back what comes, and after its end a line of what was counted and who sent it.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let seen_as = stream.peer_addr()?.ip().to_canonical();
    let (mut room, mut count) = (vec![0; 64 << 10], 0);
    loop {
        let length = stream.read(&mut room)?;
        if length == 0 {
            break;
        }
        if count == 0 && room.starts_with(b"GET /") {
            return page(stream, room[..length].to_vec(), seen_as);
        }
        count += length as u64;
        stream.write_all(&room[..length])?;
    }
    write!(stream, "\n{count} {seen_as}\n")?;
    println!("{count} bytes came by TCP from {seen_as}");
    Ok(())
}

/// Answers `GET /BYTES/MARKER` with that, and a line as after a connection.
fn page(mut stream: TcpStream, mut request: Vec<u8>, seen_as: IpAddr) -> io::Result<()> {
    // What is left unread would reset the connection.
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST {
        let mut room = [0; 4 << 10];
        match stream.read(&mut room)? {
            0 => break,
            length => request.extend_from_slice(&room[..length]),
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let Some((bytes, marker)) = path.trim_start_matches('/').split_once('/') else {
        return stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    };
    let bytes: u64 = parsed(bytes)?;
    let last = format!("\n{bytes} {seen_as}\n");
    let length = bytes + last.len() as u64;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n")?;
    write_content(&mut stream, bytes, marker)?;
    stream.write_all(last.as_bytes())
}

/// Sends so many bytes by TCP and reads them back; what is told of it.
fn by_tcp(to: SocketAddr, bytes: u64, marker: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut out, marker_out) = (stream.try_clone()?, marker.to_owned());
    let writer = thread::spawn(move || {
        write_content(&mut out, bytes, &marker_out)?;
        out.shutdown(Shutdown::Write)
    });
    let mut received = Vec::new();
    let silence = read_all(&mut stream, &mut received);
    let ended = |error| Error::other(format!("after {} bytes: {error}", received.len()));
    let silence_ms = silence.map_err(ended)?.as_millis();
    writer.join().map_err(|_| Error::other("a writer panicked"))??;
    Ok(format!("{} {silence_ms}", told(&received, marker)?))
}

/// Reads to the end; for how long nothing came, at the most.
fn read_all(stream: &mut TcpStream, to: &mut Vec<u8>) -> io::Result<Duration> {
    let (mut room, mut silence, mut heard) = (vec![0; 256 << 10], Duration::ZERO, Instant::now());
    loop {
        let length = stream.read(&mut room)?;
        silence = silence.max(heard.elapsed());
        heard = Instant::now();
        if length == 0 {
            return Ok(silence);
        }
        to.extend_from_slice(&room[..length]);
    }
}

/// What the last line tells, with the count of what came before it, all of which was right.
fn told(received: &[u8], marker: &str) -> io::Result<String> {
    let cut = || Error::other(format!("the connection was cut after {} bytes", received.len()));
    let line = received.strip_suffix(b"\n").ok_or_else(cut)?;
    let end = line.iter().rposition(|byte| *byte == b'\n').ok_or_else(cut)?;
    let content = &received[..end];
    let right = marker.bytes().cycle();
    if let Some(at) = content.iter().zip(right).position(|(is, right)| *is != right) {
        return Err(Error::other(format!("byte {at} came back as another one")));
    }
    let line = String::from_utf8_lossy(&line[end + 1..]).into_owned();
    let (there, seen_as) = line.split_once(' ').ok_or_else(cut)?;
    Ok(format!("{there} {} {seen_as}", content.len()))
}

/// Sends so many datagrams of so many bytes, a few at a time, and reads them back; what is told of
/// it.
fn by_udp(to: SocketAddr, datagrams: u64, marker: &str, bytes: usize) -> io::Result<String> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(LOST))?;
    let (mut back, mut room) = (0, vec![0; 64 << 10]);
    for first in (0..datagrams).step_by(AT_ONCE as usize) {
        let numbers = first..datagrams.min(first + AT_ONCE);
        let all: Vec<_> = numbers.map(|number| datagram(number, marker, bytes)).collect();
        for one in &all {
            heeded(|| socket.send(one))?;
        }
        for _ in &all {
            // One that is lost is not counted, and those after it are.
            let Ok(length) = heeded(|| socket.recv(&mut room)) else { break };
            back += u64::from(all.iter().any(|one| one[..] == room[..length]));
        }
    }
    for _ in 0..5 {
        heeded(|| socket.send(ASK))?;
        while let Ok(length) = heeded(|| socket.recv(&mut room)) {
            let said = String::from_utf8_lossy(&room[..length]);
            if let Some((there, seen_as)) =
                said.strip_prefix(TOLD).and_then(|told| told.split_once(' '))
            {
                return Ok(format!("{there} {back} {seen_as}"));
            }
        }
    }
    Err(Error::other(format!("nobody answers at {to}; {back} datagrams came back")))
}

/// The kernel tells a socket that packets of a size do not pass whole, instead of what it was asked
/// for, once for each that it has sent before it knew: then that is asked for again.
fn heeded<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const TOO_LONG: i32 = 90;
    let is_told = |done: &io::Result<T>| {
        done.as_ref().is_err_and(|error| error.raw_os_error() == Some(TOO_LONG))
    };
    let mut done = ask();
    for _ in 0..2 * AT_ONCE {
        if !is_told(&done) {
            break;
        }
        done = ask();
    }
    done
}

fn datagram(number: u64, marker: &str, bytes: usize) -> Vec<u8> {
    let number = format!("{number:08} ").into_bytes();
    number.into_iter().chain(marker.bytes().cycle()).take(bytes).collect()
}

fn write_content(to: &mut TcpStream, bytes: u64, marker: &str) -> io::Result<()> {
    if marker.is_empty() {
        return Err(Error::other("a marker of no bytes"));
    }
    // Whole markers, so that one block follows another.
    let block = marker.repeat((64 << 10) / marker.len() + 1).into_bytes();
    let mut left = bytes;
    while left > 0 {
        let length = left.min(block.len() as u64);
        to.write_all(&block[..length as usize])?;
        left -= length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn what_is_cut_or_changed_is_not_told() {
        let whole = b"markmarkma\n10 10.42.1.2\n";
        assert_eq!(told(whole, "mark").expect("it is whole"), "10 10 10.42.1.2");
        for length in 0..whole.len() {
            assert!(told(&whole[..length], "mark").is_err(), "{length} bytes are a part");
        }
        assert!(told(b"markmurk\n8 10.42.1.2\n", "mark").is_err());
        // Fewer than were counted over there.
        assert_eq!(told(b"mark\n8 10.42.1.2\n", "mark").expect("both are told"), "8 4 10.42.1.2");
    }
}
