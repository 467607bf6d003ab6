//! The bed's courier: bytes from pods and nodes to wherever, counted by a reader at each end.
//!
//! What it says on the wire is in `courier/main.rs`. A pod of it is made by
//! [`User::serves`](crate::user::User::serves); this module makes the program, sends by it, and
//! reads what it tells.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::cluster::Cluster;
use crate::user::User;
use crate::wait;

/// Of the program; it decides with others whether the images are made anew.
pub const SOURCE: &str = include_str!("../courier/main.rs");
/// The image whose pods serve.
pub const IMAGE: &str = "mercato.test/courier:1";
/// Where they serve TCP, HTTP and UDP.
pub const PORT: u16 = 7_000;

/// How long a connection may take to begin.
const BEGINS: Duration = Duration::from_secs(30);
/// Its name among the programs of the toolchain.
const PROGRAM: &str = "courier";

/// What was carried to an end and back, and as whom the sender was seen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Bytes, or datagrams, that the reader over there counted.
    pub there: u64,
    /// Those that came back, or came, and were the right ones.
    pub back: u64,
    /// The address from which they came, as it was seen over there.
    pub seen_as: IpAddr,
    /// By TCP: for how long nothing came back, at the most.
    pub silence: Duration,
}

/// From where something is sent.
#[derive(Clone, Copy, Debug)]
pub enum Sender<'a> {
    /// From a pod of the courier's image, through `kubectl exec` of the user's cluster: a guest
    /// where home is that cluster.
    Pod(User<'a>, &'a str),
    /// From the network of one of a cluster's machines, counted from 1.
    Node(&'a Cluster, u8),
}

impl Sender<'_> {
    /// Sends so many bytes by TCP and reads them back, the marker over and over.
    ///
    /// # Errors
    /// When not all come back as they were sent.
    pub async fn tcp(&self, to: IpAddr, bytes: u64, marker: &str) -> Result<Carried> {
        self.carry("tcp", to, bytes, &[marker]).await
    }

    /// Sends so many datagrams of a thousand bytes by UDP and reads back what is sent back. Those
    /// that are lost are not counted, and no error.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn udp(&self, to: IpAddr, datagrams: u64, marker: &str) -> Result<Carried> {
        self.carry("udp", to, datagrams, &[marker]).await
    }

    /// The same with datagrams of so many bytes, which the sender's kernel does not let be
    /// fragmented before it is told of a size.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn udp_of(
        &self,
        bytes: u64,
        to: IpAddr,
        datagrams: u64,
        marker: &str,
    ) -> Result<Carried> {
        self.carry("udp", to, datagrams, &[marker, &bytes.to_string()]).await
    }

    /// Sends so many echo requests; how many were answered.
    ///
    /// # Errors
    /// When none can be sent.
    pub async fn ping(&self, to: IpAddr, times: u64) -> Result<u64> {
        let (times, to) = (times.to_string(), to.to_string());
        let ping = ["busybox", "ping", "-q", "-i", "0.2", "-W", "2", "-c", &times, &to];
        // It fails when nothing answers, too: what it says counts.
        let said = self.run(&ping).await?;
        let received = said.split(", ").find_map(|part| part.strip_suffix(" packets received"));
        let received = received.with_context(|| format!("ping said {said:?}"))?;
        Ok(received.parse()?)
    }

    /// Keeps a connection by TCP for half a minute at most, and says a word by it five times a second. Gives
    /// when it is over, or when none could be made.
    ///
    /// # Errors
    /// When nobody can be told to do so.
    pub async fn keep(&self, to: SocketAddr) -> Result<Instant> {
        let (at, port) = (to.ip(), to.port());
        let words = "while busybox sleep 0.2; do echo word || exit; done";
        let most = BEGINS.as_secs();
        let keep = format!("({words}) | busybox timeout {most} busybox nc {at} {port} > /dev/null");
        self.run(&["busybox", "sh", "-c", &keep]).await?;
        Ok(Instant::now())
    }

    async fn carry(&self, how: &str, to: IpAddr, amount: u64, rest: &[&str]) -> Result<Carried> {
        let program = match self {
            Self::Pod(..) => "/courier".to_owned(),
            Self::Node(cluster, _) => cluster.program_path(PROGRAM).display().to_string(),
        };
        let to = SocketAddr::new(to, PORT);
        let (amount, at) = (amount.to_string(), to.to_string());
        let said = self.run(&[&[&program, how, &at, &amount], rest].concat()).await?;
        Carried::parse(&said).with_context(|| format!("{how} to {to}: {said:?}"))
    }

    /// What it said, whether or not it succeeded.
    async fn run(&self, words: &[&str]) -> Result<String> {
        let output = match self {
            Self::Pod(user, pod) => user.output(&[&["exec", pod, "--"], words].concat()).await?,
            Self::Node(cluster, number) => {
                let (program, args) = words.split_first().context("no program given")?;
                let output = cluster.machine(*number).command(program)?.args(args).output().await?;
                output.into()
            }
        };
        Ok(output.stdout + &output.stderr)
    }
}

/// Waits until a connection to the courier at this address goes through a machine of a cluster. What makes
/// it begins late where the machine has much to do.
///
/// # Errors
/// When there is none within half a minute.
pub async fn is_under_way(cluster: &Cluster, machine: u8, to: IpAddr) -> Result<()> {
    let (to, port) = (to.to_string(), PORT.to_string());
    let of = ["-L", "-p", "tcp", "-d", &to, "--dport", &port, "--state", "ESTABLISHED"];
    wait::until(&format!("a connection to {to} is under way"), BEGINS, || async {
        let known = cluster.machine(machine).command("conntrack")?.args(of).output().await?;
        Ok(!known.stdout.is_empty())
    })
    .await
}

/// Asks a pod of the courier's image for so many bytes, through its cluster's API server.
///
/// # Errors
/// When not all come as they were asked for.
pub async fn by_pod_proxy(user: &User<'_>, pod: &str, bytes: u64, marker: &str) -> Result<Carried> {
    let said = user.proxied(pod, PORT, &format!("{bytes}/{marker}")).await?;
    let cut = || format!("the answer was cut after {} bytes", said.len());
    let (content, last) = said.trim_end().rsplit_once('\n').with_context(cut)?;
    ensure!(
        content.bytes().zip(marker.bytes().cycle()).all(|(is, right)| is == right),
        "other bytes came than were asked for"
    );
    let (there, seen_as) = last.split_once(' ').with_context(cut)?;
    Carried::parse(&format!("{there} {} {seen_as}", content.len()))
}

impl Carried {
    /// Of the courier's own words.
    fn parse(said: &str) -> Result<Self> {
        let mut words = said.split_whitespace();
        let mut next = || words.next().context("it said too little");
        let (there, back) = (next()?.parse()?, next()?.parse()?);
        let (seen_as, silence_ms) = (next()?.parse()?, words.next().unwrap_or("0").parse()?);
        Ok(Self { there, back, seen_as, silence: Duration::from_millis(silence_ms) })
    }
}

/// Compiles the program into a folder of programs, so that it needs nothing of where it runs;
/// where it is.
///
/// # Errors
/// When there is no `rustc`, or no static C library.
pub fn compile(programs: &Path) -> Result<PathBuf> {
    let source = programs.with_file_name("courier.rs");
    fs::write(&source, SOURCE)?;
    let (whole, partial) = (programs.join(PROGRAM), programs.join("courier.partial"));
    let flags = ["--edition=2024", "-Copt-level=3", "-Cpanic=abort", "-Cstrip=symbols"];
    let built = Command::new("rustc")
        .args(flags)
        .args(["-Ctarget-feature=+crt-static", "--crate-name=courier", "-o"])
        .args([&partial, &source])
        .output()
        .context("start rustc, which must be installed and on the path")?;
    ensure!(
        built.status.success(),
        "rustc could not build the courier; a static C library is in Debian's libc6-dev:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    fs::rename(&partial, &whole)?;
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::Carried;

    #[test]
    fn what_is_told_is_read() {
        let carried = Carried::parse("5 4 10.42.1.2 70\n").expect("four words");
        assert_eq!(carried.silence.as_millis(), 70);
        let carried = Carried::parse("5 4 10.42.1.2\n").expect("three words");
        assert_eq!((carried.there, carried.back), (5, 4));
        assert_eq!(carried.seen_as.to_string(), "10.42.1.2");
        assert!(Carried::parse("5 4").is_err());
        assert!(Carried::parse("courier: nobody answers").is_err());
    }
}
