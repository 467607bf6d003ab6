//! The connection to the daemon: sought for ever, one at a time, each with all words anew.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mercato_kubelet::{Repeated, warn_once};
use mercato_protocol::codec::CodecError;
use mercato_protocol::node::{FromNode, Snapshot, ToNode};
use mercato_protocol::text::shown;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::{pin, wire};
use super::force::Heard;
use super::machine::Machine;
use super::names::{self, Zones};
use super::places::{Control, Places, PlacesError};
use super::standing::Standing;
use crate::limits;

/// How long each thing takes at most, or is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// From a failure to the next try,
    pub(super) retry: Duration,
    /// and after several of them.
    pub(super) retry_most: Duration,
    pub(super) connect: Duration,
    /// Between two states, if nothing changes.
    pub(super) state: Duration,
    /// Who says nothing for so long is gone.
    pub(super) silence: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            retry: limits::FOLLOW_RETRY,
            retry_most: limits::FOLLOW_RETRY_MOST,
            connect: limits::FOLLOW_CONNECT,
            state: limits::FOLLOW_STATE,
            silence: limits::FOLLOW_SILENCE,
        }
    }
}

/// What it is that seeks the daemon, and speaks with it.
pub(super) struct Follower<M> {
    places: Places,
    pace: Pace,
    machine: Arc<M>,
    hear: Hear,
    standing: watch::Receiver<Option<Standing>>,
    /// Of the connection that is open, or was the last one that was tried.
    connection: u64,
    /// Whether anything was heard on it that leads this node.
    is_led: bool,
    /// Where the daemon was that led this node last.
    address: Option<SocketAddr>,
    failing: Repeated,
}

/// Takes what the daemon says.
pub(super) struct Hear {
    /// What this node is to have,
    pub(super) heard: watch::Sender<Option<Heard>>,
    /// and the names of its leases.
    pub(super) named: watch::Sender<Zones>,
}

/// A connection to the daemon, with what is to be said on it.
struct Dialled {
    stream: TlsStream<TcpStream>,
    address: SocketAddr,
    token: String,
}

/// Why the daemon leads this node no more, or not yet.
#[derive(Debug, Error)]
enum Why {
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// At none of its addresses.
    #[error(
        "{0}; is the daemon running with its gateway on (mercato status), and does this node \
         reach it there by TCP?"
    )]
    Unreached(Failures),
    #[error("the daemon refuses this node: {0}")]
    Refused(String),
    #[error("the connection to the daemon has ended: {0}")]
    Lost(#[from] io::Error),
    #[error("the daemon has said nothing for {0:?}")]
    Silent(Duration),
    #[error("the daemon said snapshot {next} after {last}: is it of this release?")]
    Older { last: u64, next: u64 },
    #[error("the daemon said {0}: is it of this release?")]
    Names(CodecError),
    /// Whoever keeps the machine has ended.
    #[error("this process ends")]
    Ends,
}

/// Why each address was not one of the daemon's.
#[derive(Debug)]
struct Failures(Vec<(SocketAddr, String)>);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (address, why)) in self.0.iter().enumerate() {
            let before = if nth == 0 { "" } else { ", " };
            write!(f, "{before}{address}: {why}")?;
        }
        Ok(())
    }
}

impl<M: Machine> Follower<M> {
    /// Seeks the daemon that is named there, hears what this machine is like, and tells of
    /// snapshots.
    pub(super) fn new(
        places: Places,
        pace: Pace,
        machine: Arc<M>,
        hear: Hear,
        standing: watch::Receiver<Option<Standing>>,
    ) -> Self {
        let (connection, is_led, address) = (0, false, None);
        let failing = Repeated::default();
        Self { places, pace, machine, hear, standing, connection, is_led, address, failing }
    }

    /// Does so for as long as somebody keeps the machine.
    pub(super) async fn follow(mut self) {
        let mut pause = self.pace.retry;
        loop {
            self.connection += 1;
            self.is_led = false;
            let why = match self.dial().await {
                Ok(dialled) => self.converse(dialled).await,
                Err(why) => why,
            };
            if self.is_led {
                pause = self.pace.retry;
            }
            match why {
                Why::Ends => return,
                Why::Refused(_) => pause = self.pace.retry_most,
                Why::Places(_)
                | Why::Unreached(_)
                | Why::Lost(_)
                | Why::Silent(_)
                | Why::Names(_)
                | Why::Older { .. } => {}
            }
            if self.is_led && matches!(why, Why::Lost(_)) {
                // The daemon ends each connection after a while, to look at the token anew.
                tracing::debug!(%why, "the daemon of this cluster is sought again");
            } else {
                let what = "the daemon of this cluster does not lead this node";
                warn_once!(self.failing, why; "{what}");
            }
            sleep(pause).await;
            pause = (pause * 2).min(self.pace.retry_most);
        }
    }

    /// Reaches the daemon at the first of its addresses that has it.
    async fn dial(&self) -> Result<Dialled, Why> {
        let places = self.places.clone();
        let reading = spawn_blocking(move || places.read());
        let Control { addresses, tls, token } = reading.await.map_err(io::Error::from)??;
        let mut failures = Vec::new();
        for address in addresses {
            let connecting = connect(address, TlsConnector::from(tls.clone()));
            match timeout(self.pace.connect, connecting).await {
                Ok(Ok(stream)) => return Ok(Dialled { stream, address, token }),
                Ok(Err(error)) => failures.push((address, reason(&error))),
                Err(_) => failures.push((address, "no answer".to_owned())),
            }
        }
        Err(Why::Unreached(Failures(failures)))
    }

    /// Speaks until one of both has had enough.
    async fn converse(&mut self, dialled: Dialled) -> Why {
        let Dialled { stream, address, token } = dialled;
        let (from, to) = tokio::io::split(stream);
        let saying = say(to, token, self.standing.clone(), self.connection, self.pace.state);
        tokio::select! {
            // What was said last is read before a failure to write counts.
            biased;
            why = self.listen(from, address) => why,
            why = saying => why,
        }
    }

    async fn listen(&mut self, mut from: impl AsyncRead + Unpin, address: SocketAddr) -> Why {
        let (mut last, mut names) = (0, names::Said::default());
        loop {
            let message = match timeout(self.pace.silence, wire::read(&mut from)).await {
                Ok(Ok(message)) => message,
                Ok(Err(error)) => return error.into(),
                Err(_) => return Why::Silent(self.pace.silence),
            };
            match message {
                ToNode::Snapshot(snapshot) => {
                    let next = snapshot.version;
                    if next <= last {
                        return Why::Older { last, next };
                    }
                    last = next;
                    names.retain(&self.hear.named, Some(&snapshot));
                    self.tell(Some(snapshot));
                }
                ToNode::Own => {
                    names.retain(&self.hear.named, None);
                    self.tell(None);
                }
                ToNode::Heard => {}
                ToNode::Names { number, names: said } => {
                    names.take(&self.hear.named, number, said);
                }
                ToNode::NamesChange(change) => {
                    if let Err(error) = names.change(&self.hear.named, &change) {
                        return Why::Names(error);
                    }
                }
                ToNode::Refused { text } => return Why::Refused(shown(&text).into_owned()),
            }
            if !self.is_led {
                self.is_led = true;
                if self.failing.is_over() || self.address != Some(address) {
                    tracing::info!(%address, "the daemon of this cluster leads this node");
                }
                self.address = Some(address);
            }
        }
    }

    fn tell(&self, snapshot: Option<Snapshot>) {
        let (connection, at_ms) = (self.connection, self.machine.now_ms());
        self.hear.heard.send_replace(Some(Heard { connection, at_ms, snapshot }));
    }
}

async fn connect(address: SocketAddr, tls: TlsConnector) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    tls.connect(pin::name(), stream).await
}

fn reason(error: &io::Error) -> String {
    if pin::is_another(error) {
        "it shows another certificate than this node was told: either another program has this \
         address, or the file is not replaced yet"
            .to_owned()
    } else {
        error.to_string()
    }
}

/// Says who this is, and how it is with it: at once, with each change, and now and then.
async fn say(
    mut to: impl AsyncWrite + Unpin,
    token: String,
    mut standing: watch::Receiver<Option<Standing>>,
    connection: u64,
    every: Duration,
) -> Why {
    // The machine is looked at first: else its address would not be known.
    let address = match standing.wait_for(Option::is_some).await {
        Ok(standing) => standing.as_ref().and_then(|standing| standing.set_up.address),
        Err(_) => return Why::Ends,
    };
    if let Err(error) = wire::write(&mut to, &FromNode::Hello { token, address }).await {
        return failed(error).await;
    }
    loop {
        let state = standing.borrow_and_update().clone().unwrap_or_default().state(connection);
        if let Err(error) = wire::write(&mut to, &state).await {
            return failed(error).await;
        }
        tokio::select! {
            changed = standing.changed() => if changed.is_err() { return Why::Ends },
            () = sleep(every) => {}
        }
    }
}

/// What cannot be said is a failure. Of a stream that ends the other half says why.
async fn failed(error: io::Error) -> Why {
    if error.kind() == io::ErrorKind::InvalidData {
        return error.into();
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_nobody_is_reached_is_said_for_each_address() {
        let failures = [("192.0.2.1:7478", "no answer"), ("192.0.2.2:7478", "refused")]
            .map(|(address, why)| (address.parse().unwrap(), why.to_owned()));
        let said = Why::Unreached(Failures(failures.to_vec())).to_string();
        let expected = "192.0.2.1:7478: no answer, 192.0.2.2:7478: refused; is the daemon";
        assert!(said.starts_with(expected), "{said}");
    }
}
