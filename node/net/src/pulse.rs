//! Whether a partner is there: a byte goes out each [`limits::PULSE`] over a stream of its own, and
//! comes back. A ping of libp2p's says as much after half a minute; whoever has pods over there is
//! to know within ten seconds. What is to be done about silence is decided here, without a network.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, Stream};
use mercato_protocol::id::PublicKey;
use tokio::time::sleep;

use crate::command::Opener;
use crate::error::NetError;
use crate::limits;
use crate::protocols::Protocol;

/// When the partner was heard last over one connection.
#[derive(Clone, Debug)]
pub(crate) struct Heard(Arc<Mutex<Instant>>);

impl Heard {
    fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    fn set(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the partner as long as the stream lives. An error says why it does no more.
pub(crate) async fn ask(opener: Opener, peer: PublicKey, heard: Heard) -> Result<(), NetError> {
    let stream = opener.open(peer, Protocol::Pulse).await?;
    heard.set(Instant::now());
    ask_over(stream, &heard).await
}

/// Neither end takes more of the other than its pace: what comes beyond that waits in the stream's window.
async fn ask_over(stream: impl AsyncRead + AsyncWrite, heard: &Heard) -> Result<(), NetError> {
    let (mut reader, mut writer) = stream.split();
    let asks = async {
        loop {
            writer.write_all(&[0]).await?;
            writer.flush().await?;
            sleep(limits::PULSE).await;
        }
    };
    let hears = async {
        let mut bytes = [0; limits::PULSE_BYTES];
        while reader.read(&mut bytes).await? > 0 {
            heard.set(Instant::now());
            sleep(PACE).await;
        }
        Ok(())
    };
    futures::pin_mut!(asks, hears);
    match select(asks, hears).await {
        Either::Left((ended, _)) | Either::Right((ended, _)) => ended,
    }
}

/// Sends back what the partner asks with, no more often than that is worth.
pub(crate) async fn answer(stream: Stream) -> Result<(), NetError> {
    answer_over(stream).await
}

async fn answer_over(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), NetError> {
    let mut bytes = [0; limits::PULSE_BYTES];
    loop {
        let read = stream.read(&mut bytes).await?;
        if read == 0 {
            return Ok(stream.close().await?);
        }
        stream.write_all(&bytes[..read]).await?;
        stream.flush().await?;
        sleep(PACE).await;
    }
}

/// The least time between two readings of a stream.
const PACE: Duration = limits::PULSE.checked_div(4).expect("it is no zero");

/// What follows from how long partners have been silent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A stream to ask it by.
    Ask(PublicKey),
    /// It is silent, for so long.
    Silent(PublicKey, Duration),
    /// It has answered again, over the same connection.
    Heard(PublicKey),
    /// It may be there, though the connection is dead: it is dialled beside that.
    Renew(PublicKey, Multiaddr),
}

/// What is known of one partner.
#[derive(Debug)]
struct Pulse {
    /// Over which connection it is asked; none: it was silent when the last one ended.
    connection: Option<ConnectionId>,
    heard: Heard,
    /// Where it can be dialled.
    address: Option<Multiaddr>,
    /// There is a stream to ask by, or one is being opened.
    asks: bool,
    /// Its release does not answer.
    is_mute: bool,
    /// That it is silent was told.
    is_told: bool,
    /// When it was last dialled beside a connection.
    renewed: Option<Instant>,
}

/// The partners, and how each of them is. As many as are connected, and those that were silent when
/// their connection ended, for a while.
#[derive(Debug, Default)]
pub(crate) struct Pulses(BTreeMap<PublicKey, Pulse>);

impl Pulses {
    /// The partner is connected so, and can be dialled there.
    pub(crate) fn keep(
        &mut self,
        peer: PublicKey,
        connection: ConnectionId,
        address: Option<Multiaddr>,
        now: Instant,
    ) {
        let fresh = || Pulse {
            connection: Some(connection),
            heard: Heard::new(now),
            address: None,
            asks: false,
            is_mute: false,
            is_told: false,
            renewed: None,
        };
        let pulse = self.0.entry(peer).or_insert_with(fresh);
        if pulse.connection != Some(connection) {
            *pulse = Pulse { address: pulse.address.take(), ..fresh() };
        }
        pulse.address = address.or(pulse.address.take());
    }

    /// All others are no partners any more, or not connected: a partner that was silent as its
    /// connection ended is dialled for some time.
    pub(crate) fn retain(
        &mut self,
        partner: impl Fn(&PublicKey) -> bool,
        connected: impl Fn(&PublicKey) -> bool,
        now: Instant,
    ) {
        self.0.retain(|peer, pulse| {
            let is_connected = connected(peer);
            if !is_connected {
                pulse.connection = None;
            }
            let silent = now.saturating_duration_since(pulse.heard.get());
            let is_missed = pulse.is_told && silent < limits::RENEW_FOR;
            partner(peer) && (is_connected || is_missed)
        });
    }

    /// What is to be done by now.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<Action> {
        self.0.iter_mut().flat_map(|(peer, pulse)| pulse.look(*peer, now)).collect()
    }

    /// By this its partner's stream says that it was heard.
    pub(crate) fn heard(&self, peer: &PublicKey) -> Option<Heard> {
        Some(self.0.get(peer)?.heard.clone())
    }

    /// The stream to ask by has ended, since its release does not answer perhaps.
    pub(crate) fn ended(&mut self, peer: &PublicKey, connection: ConnectionId, is_mute: bool) {
        let pulse = self.0.get_mut(peer);
        if let Some(pulse) = pulse.filter(|pulse| pulse.connection == Some(connection)) {
            (pulse.asks, pulse.is_mute) = (false, is_mute);
        }
    }

    /// Over which connection it has been silent, if it is.
    pub(crate) fn is_silent(&self, peer: &PublicKey, now: Instant) -> bool {
        self.0.get(peer).is_some_and(|pulse| {
            !pulse.is_mute && now.saturating_duration_since(pulse.heard.get()) >= limits::SILENT
        })
    }

    /// Whether there is nobody to be asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Pulse {
    fn look(&mut self, peer: PublicKey, now: Instant) -> Vec<Action> {
        let mut out = Vec::new();
        if self.is_mute {
            return out;
        }
        if self.connection.is_some() && !std::mem::replace(&mut self.asks, true) {
            out.push(Action::Ask(peer));
        }
        let silent = now.saturating_duration_since(self.heard.get());
        if silent < limits::SILENT {
            if std::mem::take(&mut self.is_told) {
                out.push(Action::Heard(peer));
            }
            self.renewed = None;
            return out;
        }
        if !std::mem::replace(&mut self.is_told, true) {
            out.push(Action::Silent(peer, silent));
        }
        let each = if silent < limits::RENEW_SOON { limits::RENEW } else { limits::RENEW_LATER };
        let is_due = self.renewed.is_none_or(|at| now.saturating_duration_since(at) >= each);
        if let Some(address) = self.address.clone().filter(|_| is_due) {
            self.renewed = Some(now);
            out.push(Action::Renew(peer, address));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::timeout;
    use tokio_util::compat::TokioAsyncReadCompatExt as _;

    use super::*;

    const PEER: PublicKey = PublicKey([7; 32]);

    fn at() -> Multiaddr {
        "/ip4/192.0.2.7/tcp/7474".parse().unwrap()
    }

    fn pulses(now: Instant) -> Pulses {
        let mut pulses = Pulses::default();
        pulses.keep(PEER, ConnectionId::new_unchecked(1), Some(at()), now);
        assert_eq!(pulses.look(now), [Action::Ask(PEER)]);
        pulses
    }

    #[test]
    fn silence_is_told_once_and_dialled_beside() {
        let began = Instant::now();
        let mut pulses = pulses(began);
        assert_eq!(pulses.look(began + limits::SILENT / 2), []);
        let silent = began + limits::SILENT;
        let told = [Action::Silent(PEER, limits::SILENT), Action::Renew(PEER, at())];
        assert_eq!(pulses.look(silent), told);
        assert_eq!(pulses.look(silent + limits::RENEW / 2), []);
        assert_eq!(pulses.look(silent + limits::RENEW), [Action::Renew(PEER, at())]);
        pulses.heard(&PEER).unwrap().set(silent + limits::RENEW);
        assert_eq!(pulses.look(silent + limits::RENEW), [Action::Heard(PEER)]);
        assert_eq!(pulses.look(silent + limits::RENEW), []);
    }

    #[test]
    fn who_was_silent_as_its_connection_ended_is_dialled_for_some_time() {
        let began = Instant::now();
        let mut pulses = pulses(began);
        pulses.look(began + limits::SILENT);
        let later = began + limits::RENEW_SOON;
        pulses.retain(|_| true, |_| false, later);
        assert_eq!(pulses.look(later), [Action::Renew(PEER, at())]);
        assert_eq!(pulses.look(later + limits::RENEW), []);
        assert_eq!(pulses.look(later + limits::RENEW_LATER), [Action::Renew(PEER, at())]);
        pulses.retain(|_| true, |_| false, began + limits::RENEW_FOR);
        assert!(pulses.is_empty());
    }

    #[test]
    fn who_is_no_partner_any_more_is_not_dialled() {
        let began = Instant::now();
        let mut pulses = pulses(began);
        pulses.look(began + limits::SILENT);
        pulses.retain(|_| false, |_| true, began + limits::SILENT);
        assert!(pulses.is_empty());
    }

    #[test]
    fn who_ends_a_connection_in_order_is_not_dialled() {
        let began = Instant::now();
        let mut pulses = pulses(began);
        pulses.retain(|_| true, |_| false, began);
        assert!(pulses.is_empty());
    }

    #[test]
    fn another_connection_is_another_beginning() {
        let began = Instant::now();
        let mut pulses = pulses(began);
        let silent = began + limits::SILENT;
        pulses.look(silent);
        pulses.keep(PEER, ConnectionId::new_unchecked(2), None, silent);
        assert!(!pulses.is_silent(&PEER, silent));
        assert_eq!(pulses.look(silent), [Action::Ask(PEER)]);
        pulses.ended(&PEER, ConnectionId::new_unchecked(1), true);
        let later = silent + limits::SILENT;
        assert_eq!(pulses.look(later).len(), 2, "it is dialled where it was before");
    }

    #[test]
    fn of_an_earlier_release_nothing_is_said() {
        let began = Instant::now();
        let mut pulses = pulses(began);
        pulses.ended(&PEER, ConnectionId::new_unchecked(1), true);
        assert_eq!(pulses.look(began + limits::RENEW_FOR), []);
        assert!(!pulses.is_silent(&PEER, began + limits::RENEW_FOR));
    }

    /// A partner that says as much as it can, for a minute: how many bytes each end takes of it.
    #[tokio::test(start_paused = true)]
    async fn a_flood_costs_no_more_than_its_pace() {
        const MINUTE: Duration = Duration::from_secs(60);
        let paces = MINUTE.div_duration_f64(PACE).ceil() as usize + 1;
        let most = (paces + 1) * limits::PULSE_BYTES;
        for asks in [true, false] {
            // As much as a stream takes before anybody reads.
            let (ours, theirs) = tokio::io::duplex(limits::PULSE_BYTES);
            let (mut hears, mut says) = tokio::io::split(theirs);
            let flood = async {
                let mut taken = 0;
                // Whoever takes more is not given all: no time would pass.
                while taken <= most {
                    match says.write(&[0; 4_096]).await {
                        Ok(more @ 1..) => taken += more,
                        Ok(0) | Err(_) => break,
                    }
                }
                taken
            };
            let heard = Heard::new(Instant::now());
            let ours = async {
                match asks {
                    true => ask_over(ours.compat(), &heard).await,
                    false => answer_over(ours.compat()).await,
                }
            };
            let drain = async { tokio::io::copy(&mut hears, &mut tokio::io::sink()).await };
            let ended = timeout(MINUTE, async {
                tokio::select! {
                    ended = ours => ended.is_err(),
                    _ = drain => true,
                }
            });
            let (ended, taken) = tokio::join!(ended, flood);
            assert!(ended.is_err(), "it goes on all the time");
            assert!((1..=most).contains(&taken), "asks: {asks}: {taken} bytes, {most} at most");
        }
    }
}
