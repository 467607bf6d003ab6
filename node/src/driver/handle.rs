//! What the rest of the daemon holds of the driver.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_agent::{Answer, Ask, Config, Input};
use mercato_broker::{Command, Refusal, Reply};
use mercato_net::{Net, Session};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::limits::ADDRESSES;
use thiserror::Error;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::{Driver, Handle, Message, Us, clock};
use crate::admin::Event;
use crate::limits;
use crate::telemetry::Metrics;

/// The driver has stopped, or could not keep what it was asked to.
#[derive(Clone, Copy, Debug, Error)]
#[error("the daemon is stopping, or its records could not be written")]
pub(crate) struct Gone;

impl Handle {
    pub(super) fn new(
        messages: mpsc::Sender<Message>,
        net: Net,
        config: &Config,
        metrics: Metrics,
    ) -> Self {
        let (told, _) = broadcast::channel(limits::NOTICES);
        Self {
            messages,
            told,
            begun: watch::Sender::default(),
            net,
            metrics,
            us: Arc::new(Us { config: config.clone(), ahead: Mutex::default() }),
        }
    }

    /// The id of this cluster.
    pub(crate) fn cluster(&self) -> ClusterId {
        self.us.config.cluster()
    }

    /// The key that speaks for it.
    pub(crate) fn key(&self) -> PublicKey {
        self.us.config.key.public()
    }

    /// What is worth telling, from now on.
    pub(crate) fn told(&self) -> broadcast::Receiver<Event> {
        self.told.subscribe()
    }

    /// Tells an event to whoever listens.
    pub(crate) fn say(&self, event: Event) {
        // Perhaps nobody does.
        let _ = self.told.send(event);
    }

    /// The federation that is traded in.
    pub(crate) fn federation(&self) -> FederationId {
        self.us.config.federation
    }

    /// The metrics of this daemon.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Messages that wait for the driver.
    pub(super) fn backlog(&self) -> usize {
        self.messages.max_capacity() - self.messages.capacity()
    }

    /// What a peer's clock said as it connected; none: it has gone.
    pub(super) fn note_clock(&self, peer: PublicKey, time_ms: Option<u64>) {
        let mut ahead = self.us.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.remove(&peer);
        let ours = clock::wall_ms().cast_signed();
        ahead.extend(time_ms.map(|theirs| (peer, theirs.cast_signed().saturating_sub(ours))));
    }

    /// How far its clock was ahead of ours then.
    pub(super) fn ahead_ms(&self, peer: &PublicKey) -> Option<i64> {
        self.us.ahead.lock().unwrap_or_else(PoisonError::into_inner).get(peer).copied()
    }

    /// The network, to send and to look.
    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    /// The first message on a connection.
    pub(super) async fn hello(&self) -> Hello {
        let addresses = self.net.published_addresses();
        let certificates = self.look(|driver| driver.agent().certificates().to_vec()).await;
        Hello {
            identity: self.us.config.identity.clone(),
            federation: self.federation(),
            software: limits::SOFTWARE.to_owned(),
            addresses: addresses.iter().take(ADDRESSES).map(ToString::to_string).collect(),
            rotations: self.us.config.rotations.clone(),
            certificates: certificates.unwrap_or_default(),
            time_ms: Some(clock::wall_ms()),
        }
    }

    /// Tells the agent; waits while it is behind.
    pub(crate) fn tell(&self, input: Input) -> BoxFuture<'static, ()> {
        let messages = self.messages.clone();
        async move {
            // An error says that the daemon is stopping.
            let _ = messages.send(Message::Input(input)).await;
        }
        .boxed()
    }

    /// The network has met a peer, whose session this is until it is disconnected.
    pub(super) async fn meet(&self, peer: PublicKey, session: Session) {
        // An error says that the daemon is stopping.
        let _ = self.messages.send(Message::Met(peer, session)).await;
    }

    /// Tells the agent what holds as long as this session with the peer lasts.
    pub(super) async fn tell_in(&self, peer: PublicKey, session: Session, input: Input) {
        // An error says that the daemon is stopping.
        let _ = self.messages.send(Message::In(peer, session, input)).await;
    }

    /// Tells the agent what a peer said; whether all that comes of it is on disk.
    pub(super) async fn take(&self, word: Input) -> bool {
        let (taken, is_taken) = oneshot::channel();
        self.messages.send(Message::Word(word, taken)).await.is_ok() && is_taken.await.is_ok()
    }

    /// A peer has connected, or a lease has begun: who waits for it looks again.
    pub(super) fn begin(&self) {
        self.begun.send_replace(());
    }

    /// Asks for something on the owner's behalf.
    pub(crate) fn command(
        &self,
        command: Command,
    ) -> BoxFuture<'static, Result<Result<Reply, Refusal>, Gone>> {
        let messages = self.messages.clone();
        async move {
            let (reply, answer) = oneshot::channel();
            messages.send(Message::Command(command, reply)).await.map_err(|_| Gone)?;
            answer.await.map_err(|_| Gone)
        }
        .boxed()
    }

    /// Asks for something about the federation.
    pub(crate) fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Answer, Gone>> {
        let messages = self.messages.clone();
        async move {
            let (reply, answer) = oneshot::channel();
            messages.send(Message::Ask(ask, reply)).await.map_err(|_| Gone)?;
            answer.await.map_err(|_| Gone)
        }
        .boxed()
    }

    /// Looks at the driver's state, between two inputs.
    pub(crate) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Gone>> {
        let messages = self.messages.clone();
        async move {
            let (tell, told) = oneshot::channel();
            let look = Box::new(move |driver: &Driver| drop(tell.send(look(driver))));
            messages.send(Message::Look(look)).await.map_err(|_| Gone)?;
            told.await.map_err(|_| Gone)
        }
        .boxed()
    }

    /// What this finds, now or once a peer has connected or a lease has begun; nothing if it finds
    /// nothing for so long.
    pub(super) async fn look_until<T: Send + 'static>(
        &self,
        most: Duration,
        look: impl Fn(&Driver) -> Option<T> + Clone + Send + 'static,
    ) -> Option<T> {
        let mut begun = self.begun.subscribe();
        let looking = async {
            loop {
                begun.mark_unchanged();
                if let Some(found) = self.look(look.clone()).await.ok()? {
                    return Some(found);
                }
                begun.changed().await.ok()?;
            }
        };
        timeout(most, looking).await.ok().flatten()
    }

    /// Stops the driver in good order.
    pub(crate) fn stop(&self) -> BoxFuture<'static, ()> {
        let messages = self.messages.clone();
        async move {
            let (done, stopped) = oneshot::channel();
            if messages.send(Message::Stop(done)).await.is_ok() {
                // Either way it has stopped.
                let _ = stopped.await;
            }
        }
        .boxed()
    }
}
