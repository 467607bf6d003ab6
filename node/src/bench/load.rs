//! Load between the two ends, by the bare cable or through the tunnel.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use super::ends::{self, Cable};

const STREAM_PORT: u16 = 5_201;
const ANSWER_PORT: u16 = 5_202;
const WRITE_BYTES: usize = 128 << 10;
const QUESTIONS: usize = 2_000;

/// By which way the load goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// Without a tunnel.
    Cable,
    /// Sealed.
    Tunnel,
}

/// What one TCP stream carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    bytes: u64,
    took: Duration,
    cpu: Duration,
}

impl Path {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable",
            Self::Tunnel => "tunnel",
        }
    }

    fn address(self, end: usize) -> Ipv4Addr {
        match self {
            Self::Cable => ends::outer(end),
            Self::Tunnel => ends::pod(end),
        }
    }
}

impl Stream {
    pub(super) fn bits_per_second(&self) -> u64 {
        let nanoseconds = self.took.as_nanos().max(1);
        u64::try_from(u128::from(self.bytes) * 8 * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
    }

    pub(super) fn cpu_ms_per_gigabyte(&self) -> u64 {
        let per = self.cpu.as_millis() * 1_000_000_000 / u128::from(self.bytes.max(1));
        u64::try_from(per).unwrap_or(u64::MAX)
    }
}

/// One TCP stream from the first end to the second, as fast as it goes.
pub(super) fn stream(cable: &Cable, path: Path, time: Duration) -> Result<Stream> {
    let to = (path.address(1), STREAM_PORT);
    let reader = cable.namespace(1).within(move || -> Result<_> {
        let listener = TcpListener::bind(to)?;
        Ok(std::thread::spawn(move || read_all(&listener)))
    })??;
    let began_cpu = cpu()?;
    let began = Instant::now();
    cable.namespace(0).within(move || -> Result<()> {
        let mut stream = TcpStream::connect(to)?;
        let bytes = vec![7; WRITE_BYTES];
        while began.elapsed() < time {
            stream.write_all(&bytes)?;
        }
        Ok(())
    })??;
    let bytes = reader.join().map_err(|_| anyhow!("a reader panicked"))??;
    Ok(Stream { bytes, took: began.elapsed(), cpu: cpu()?.saturating_sub(began_cpu) })
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

/// The median time from a question of one byte to its answer.
pub(super) fn round_trip(cable: &Cable, path: Path) -> Result<Duration> {
    let to = (path.address(1), ANSWER_PORT);
    let answerer = cable.namespace(1).within(move || -> Result<_> {
        let listener = TcpListener::bind(to)?;
        Ok(std::thread::spawn(move || answer_all(&listener)))
    })??;
    let times = cable.namespace(0).within(move || -> Result<_> {
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        let mut times = Vec::with_capacity(QUESTIONS);
        for _ in 0..QUESTIONS {
            let asked = Instant::now();
            stream.write_all(&[1])?;
            stream.read_exact(&mut [0])?;
            times.push(asked.elapsed());
        }
        Ok(times)
    })?;
    let mut times = times?;
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

/// Processor time of this process so far.
fn cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)))
}
