//! One lease's two streams, spoken on as the sessions do it: in order, acknowledged, and again
//! what was not. What is said is for others to think up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use mercato_net::WorkloadSender;
use mercato_offload::channel::Channel;
use mercato_offload::limits::WINDOW_FRAMES;
use mercato_protocol::codec::Message as _;
use mercato_protocol::id::{ContractId, Digest, PublicKey};
use mercato_protocol::workload::{BodyHead, Frame, Message, Open, ToGuest, ToHome};
use tokio::sync::mpsc;

use crate::impostor::Impostor;

pub(crate) const LOOK: Duration = Duration::from_millis(20);
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// What one side says, and what it hears.
pub(crate) trait Side: Clone + Send + 'static {
    type Heard: Send + 'static;
    fn message(frame: Frame<Self>, bodies: Vec<BodyHead>) -> Message;
    fn heard(message: Message) -> Option<Frame<Self::Heard>>;
}

impl Side for ToGuest {
    type Heard = ToHome;

    fn message(frame: Frame<Self>, bodies: Vec<BodyHead>) -> Message {
        Message::ToGuest { frame, bodies }
    }

    fn heard(message: Message) -> Option<Frame<ToHome>> {
        if let Message::ToHome { frame, .. } = message { Some(frame) } else { None }
    }
}

impl Side for ToHome {
    type Heard = ToGuest;

    fn message(frame: Frame<Self>, bodies: Vec<BodyHead>) -> Message {
        Message::ToHome { frame, bodies }
    }

    fn heard(message: Message) -> Option<Frame<ToGuest>> {
        if let Message::ToGuest { frame, .. } = message { Some(frame) } else { None }
    }
}

/// See the module.
pub(crate) struct Line<'a, S: Side> {
    impostor: &'a Impostor,
    victim: PublicKey,
    contract: ContractId,
    sender: WorkloadSender,
    frames: mpsc::Receiver<Message>,
    channel: Channel<S>,
    /// The channel's time starts here.
    start: Instant,
    /// The bodies that went with what may have to be said again, by sequence number.
    bodies: BTreeMap<u64, Vec<Bytes>>,
    /// What was heard while there was something to say.
    meanwhile: Vec<S::Heard>,
}

impl<'a, S: Side> Line<'a, S> {
    /// Opens our stream, and waits until both sides have found each other.
    pub(crate) async fn open(
        impostor: &'a Impostor,
        victim: PublicKey,
        contract: ContractId,
    ) -> Result<Self> {
        let sender = stream(impostor, victim, contract).await?;
        let (heard, frames) = mpsc::channel(16);
        impostor.forward(contract, heard);
        // Above whatever the honest program has used.
        let channel = Channel::new(u64::from(u32::MAX));
        let (start, bodies, meanwhile) = (Instant::now(), BTreeMap::new(), Vec::new());
        let mut this =
            Self { impostor, victim, contract, sender, frames, channel, start, bodies, meanwhile };
        let (_, greeting) = this.channel.link_up(0);
        this.frame(greeting, &[]).await?;
        this.room().await?;
        Ok(this)
    }

    /// Says this, with these bodies.
    pub(crate) async fn say(&mut self, statements: Vec<S>, bodies: &[Bytes]) -> Result<()> {
        self.room().await?;
        let frame = self.channel.send(self.now(), statements);
        self.bodies.insert(frame.seq, bodies.to_vec());
        while self.bodies.len() > WINDOW_FRAMES {
            self.bodies.pop_first();
        }
        // Over the next stream it is said again once it is asked what has arrived.
        if self.frame(frame, bodies).await.is_err() {
            self.reopen().await?;
        }
        Ok(())
    }

    async fn room(&mut self) -> Result<()> {
        while !self.channel.has_room() {
            let heard = self.next().await?;
            self.meanwhile.extend(heard);
        }
        Ok(())
    }

    /// Waits until all that was said has arrived; says it again where a stream was cut.
    pub(crate) async fn delivered(&mut self) -> Result<()> {
        while self.channel.deadline_ms().is_some() {
            let heard = self.next().await?;
            self.meanwhile.extend(heard);
        }
        Ok(())
    }

    /// The next statements, acknowledged.
    pub(crate) async fn hear(&mut self) -> Result<Vec<S::Heard>> {
        if !self.meanwhile.is_empty() {
            return Ok(std::mem::take(&mut self.meanwhile));
        }
        self.next().await
    }

    /// What has been said by now, acknowledged.
    pub(crate) async fn heard(&mut self) -> Result<Vec<S::Heard>> {
        let mut all = std::mem::take(&mut self.meanwhile);
        while let Ok(message) = self.frames.try_recv() {
            all.extend(self.take(message).await?);
        }
        Ok(all)
    }

    async fn next(&mut self) -> Result<Vec<S::Heard>> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let due = self.channel.deadline_ms().map(|at| at.saturating_sub(self.now()));
            let wait = due.map_or(PATIENCE, Duration::from_millis).min(PATIENCE);
            match tokio::time::timeout(wait, self.frames.recv()).await {
                Ok(message) => return self.take(message.context("the streams have ended")?).await,
                Err(_) => self.again().await?,
            }
        }
        bail!("nothing is said")
    }

    /// Says again what is not acknowledged, over another stream if this one is cut.
    async fn again(&mut self) -> Result<()> {
        let mut frames = Vec::new();
        self.channel.wake(self.now(), &mut frames);
        for frame in frames {
            let bodies = self.bodies_of(&frame);
            if self.frame(frame.clone(), &bodies).await.is_err() {
                self.reopen().await?;
                self.frame(frame, &bodies).await?;
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn take(&mut self, message: Message) -> Result<Vec<S::Heard>> {
        let Some(frame) = S::heard(message) else { bail!("the words of the wrong side") };
        let mut answers = Vec::new();
        let received = self.channel.receive(self.now(), frame, &mut answers);
        for answer in answers {
            let bodies = self.bodies_of(&answer);
            self.frame(answer, &bodies).await?;
        }
        Ok(received.statements)
    }

    /// Those that went with it when it was said first; none with a mere acknowledgement.
    fn bodies_of(&self, frame: &Frame<S>) -> Vec<Bytes> {
        let said = self.bodies.get(&frame.seq).filter(|_| !frame.statements.is_empty());
        said.cloned().unwrap_or_default()
    }

    /// Says it as it is, true or not.
    pub(crate) async fn frame(&mut self, frame: Frame<S>, bodies: &[Bytes]) -> Result<()> {
        let heads = bodies.iter().map(|body| BodyHead {
            digest: Digest::of(body),
            length: u32::try_from(body.len()).unwrap_or(u32::MAX),
            packed: None,
        });
        let message = S::message(frame, heads.collect());
        let header = Bytes::from(message.to_bytes()?);
        self.raw(mercato_net::Frame { header, body: bodies.concat().into() }).await
    }

    /// Bytes that may mean nothing.
    pub(crate) async fn raw(&mut self, frame: mercato_net::Frame) -> Result<()> {
        Ok(self.sender.send(frame).await?)
    }

    /// Another stream in the place of ours.
    pub(crate) async fn reopen(&mut self) -> Result<()> {
        self.sender = stream(self.impostor, self.victim, self.contract).await?;
        Ok(())
    }
}

/// A stream of our direction.
pub(crate) async fn stream(
    impostor: &Impostor,
    victim: PublicKey,
    contract: ContractId,
) -> Result<WorkloadSender> {
    let header = Bytes::from(Open { contract, acks: false, refuses_bodies: true }.to_bytes()?);
    Ok(impostor.net.open_workload(victim, header).await?)
}
