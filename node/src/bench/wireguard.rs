//! WireGuard over the cable, to compare with: by a program in user space, or by the kernel.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use mercato_session::KeyPair;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use super::cable::{self, Cable, wait_for_link};
use super::ground::{self, Ground};
use super::mercato::{OVERHEAD, pod};

/// Where programs in user space listen for their settings.
const SOCKETS: &str = "/var/run/wireguard";
const START: Duration = Duration::from_secs(10);
const PORT: u16 = 51_820;

/// A WireGuard to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// The program of `golang.zx2c4.com/wireguard`, at this path.
    WireguardGo(PathBuf),
    /// The program `boringtun-cli`, at this path.
    Boringtun(PathBuf),
    /// WireGuard of this machine's kernel.
    Kernel,
}

/// Both ends of a tunnel by a rival.
pub(super) struct RivalTunnel {
    addresses: [IpAddr; 2],
    ends: Vec<RivalEnd>,
}

/// One end. It ends with this value.
struct RivalEnd {
    program: Option<Child>,
}

impl Rival {
    /// Finds a program by `NAME` or `NAME=PATH`.
    ///
    /// # Errors
    /// When it is none of those that are known, or is not found.
    pub(crate) fn find(word: &str) -> Result<Self> {
        let (name, path) = word.split_once('=').map_or((word, None), |(n, p)| (n, Some(p)));
        let (names, how): (&[&str], _) = match name {
            "wireguard-go" => {
                (&["wireguard-go", "wireguard"], "go install golang.zx2c4.com/wireguard@latest")
            }
            "boringtun" => (&["boringtun-cli", "boringtun"], "cargo install boringtun-cli"),
            other => bail!("{other:?} is none of wireguard-go and boringtun"),
        };
        let found = match path {
            Some(path) => Some(PathBuf::from(path)).filter(|path| path.is_file()),
            None => names.iter().find_map(|name| on_path(name)),
        };
        let found = found.with_context(|| {
            format!(
                "{name} is not {}: `{how}` makes it; --beside {name}=FILE says where it is",
                path.unwrap_or("on PATH")
            )
        })?;
        Ok(if name == "boringtun" { Self::Boringtun(found) } else { Self::WireguardGo(found) })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::WireguardGo(_) => "wireguard-go",
            Self::Boringtun(_) => "boringtun",
            Self::Kernel => "kernel WireGuard",
        }
    }

    /// Whether the kernel of this machine has WireGuard, and the program that sets it is there.
    pub(super) fn is_kernel_ready(cable: &Cable) -> bool {
        let namespace = cable.namespace(0);
        let is_there = namespace.ip("link add wg-try type wireguard").is_ok();
        if is_there {
            // It ends with its namespace in any case.
            let _ = namespace.ip("link delete wg-try");
        }
        is_there && on_path("wg").is_some()
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

impl RivalTunnel {
    /// Starts both ends of the tunnel of this number, and waits until they reach each other.
    pub(super) fn begin(ground: &Ground, rival: &Rival, number: u8, mtu: usize) -> Result<Self> {
        let secrets: [Zeroizing<[u8; 32]>; 2] =
            std::array::from_fn(|_| Zeroizing::new(rand::random()));
        let cable = &ground.cable;
        let address = |end| match ground.has_nodes() {
            true => pod(end, 0),
            false => Ipv4Addr::new(10, 210 + number, end as u8, 0).into(),
        };
        let mut tunnel = Self { addresses: [address(0), address(1)], ends: Vec::new() };
        for end in 0..2 {
            let device = format!("wg{}-{number}-{end}", std::process::id());
            let program = start(cable, rival, end, &device)?;
            tunnel.ends.push(RivalEnd { program });
            let other = KeyPair::from_secret(&secrets[1 - end]).public();
            let port = PORT + u16::from(number);
            let at = format!("{}:{port}", cable::outer(1 - end));
            let may_send = match ground.has_nodes() {
                true => ground::network(1 - end).to_string(),
                false => format!("{}/24", tunnel.address(1 - end)),
            };
            if *rival == Rival::Kernel {
                set_kernel(cable, end, &device, &secrets[end], other.as_bytes(), port, &at)?;
            } else {
                set_program(
                    &device,
                    &format!(
                        "set=1\nprivate_key={}\nlisten_port={port}\npublic_key={}\nendpoint={at}\n\
                         allowed_ip={may_send}\n\n",
                        hex::encode(*secrets[end]),
                        hex::encode(other.as_bytes()),
                    ),
                )?;
            }
            if ground.has_nodes() {
                ground.stand(end, &device, mtu - OVERHEAD)?;
                continue;
            }
            let namespace = cable.namespace(end);
            namespace.ip(&format!("address add {}/32 dev {device}", tunnel.address(end)))?;
            namespace.ip(&format!("link set {device} mtu {} up", mtu - OVERHEAD))?;
            let source = tunnel.address(end);
            namespace.ip(&format!("route add {may_send} dev {device} src {source}"))?;
        }
        wait_for_link(ground.ends(), tunnel.address(0), tunnel.address(1))?;
        Ok(tunnel)
    }

    /// Of an end, inside the tunnel.
    pub(super) fn address(&self, end: usize) -> IpAddr {
        self.addresses[end]
    }

    /// Of its programs, if it has any.
    pub(super) fn processes(&self) -> Vec<Pid> {
        let programs = self.ends.iter().filter_map(|end| end.program.as_ref());
        programs.map(|child| Pid::from_raw(child.id() as i32)).collect()
    }
}

fn start(cable: &Cable, rival: &Rival, end: usize, device: &str) -> Result<Option<Child>> {
    let words: &[&str] = match rival {
        Rival::Kernel => {
            cable.namespace(end).ip(&format!("link add {device} type wireguard"))?;
            return Ok(None);
        }
        Rival::WireguardGo(_) => &["-f"],
        Rival::Boringtun(_) => &["--foreground", "--disable-drop-privileges"],
    };
    let (Rival::WireguardGo(path) | Rival::Boringtun(path)) = rival else { return Ok(None) };
    // It ends with the thread of its namespace, and so with this process, however that ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(path).args(words).arg(device);
    command.env("LOG_LEVEL", "error").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = cable
        .namespace(end)
        .within(move || command.spawn())?
        .context("cannot start a program: setpriv is part of util-linux")?;
    let socket = socket_of(device);
    let until = Instant::now() + START;
    while !(socket.exists() && UnixStream::connect(&socket).is_ok()) {
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended at once: {status}", path.display());
        }
        ensure!(Instant::now() < until, "{} does not open its socket", path.display());
        std::thread::yield_now();
    }
    Ok(Some(child))
}

fn socket_of(device: &str) -> PathBuf {
    Path::new(SOCKETS).join(format!("{device}.sock"))
}

/// `https://www.wireguard.com/xplatform/`: lines of settings, then an empty one; the answer ends
/// likewise.
fn set_program(device: &str, settings: &str) -> Result<()> {
    let mut stream = UnixStream::connect(socket_of(device))?;
    stream.set_read_timeout(Some(START))?;
    stream.write_all(settings.as_bytes())?;
    let answer = BufReader::new(stream).lines().next().context("no answer to the settings")??;
    ensure!(answer == "errno=0", "the settings were refused: {answer}");
    Ok(())
}

fn set_kernel(
    cable: &Cable,
    end: usize,
    device: &str,
    secret: &[u8; 32],
    other: &[u8; 32],
    port: u16,
    at: &str,
) -> Result<()> {
    use base64::Engine as _;
    let encode = |key: &[u8; 32]| base64::engine::general_purpose::STANDARD.encode(key);
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(encode(secret).as_bytes())?;
    let words = format!(
        "set {device} private-key {} listen-port {port} peer {} endpoint {at} allowed-ips 0.0.0.0/0",
        file.path().display(),
        encode(other),
    );
    file.flush()?;
    cable.namespace(end).run("wg", words.split_whitespace().map(str::to_owned).collect())
}

impl Drop for RivalEnd {
    fn drop(&mut self) {
        let Some(child) = &mut self.program else { return };
        // It has ended already, or ends now, with its device.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        let _ = child.wait();
    }
}
