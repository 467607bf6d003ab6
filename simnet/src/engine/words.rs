//! Words in negotiations on their way, as the daemon's network has it: each is a request, whose
//! answer says that all that comes of it is on disk. Who gets none says it again, as long as the
//! connection lasts; then the agent is told.

use mercato_agent::Input;
use mercato_protocol::envelope::Signed;
use mercato_protocol::negotiation::Message;

use crate::engine::event::Event;
use crate::engine::network::pair;
use crate::engine::packet::Packet;
use crate::engine::world::World;
use crate::verify::Violation;

/// A word that is not kept yet by whom it is said to.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) from: usize,
    to: usize,
    /// Of who says it: a later one knows nothing of it.
    process: u64,
    /// The connection that carries it.
    connection: Option<u64>,
    message: Signed<Message>,
    once: bool,
}

impl World {
    /// What a packet says in a negotiation, if anything.
    pub(crate) fn word(&self, (from, to): (usize, usize), packet: &Packet) -> Option<Box<Word>> {
        let Packet::Negotiation(message, once) = packet else { return None };
        let connection = self.connections.get(&pair(from, to)).copied();
        let (process, message) = (self.sites[from].process(), message.clone());
        Some(Box::new(Word { from, to, process, connection, message, once: *once }))
    }

    /// It has not arrived. The one fault of a run that has but one is that nobody notices.
    pub(crate) fn on_lost_word(&mut self, word: Option<Box<Word>>) -> Result<(), Violation> {
        match word.filter(|_| self.faults.strike.is_none()) {
            Some(word) => self.untaken(*word),
            None => Ok(()),
        }
    }

    /// It was heard in that run, if that has not ended by it; what comes of it may not be on disk.
    pub(crate) fn on_heard(
        &mut self,
        (to, run): (usize, u32),
        word: Option<Box<Word>>,
    ) -> Result<(), Violation> {
        let Some(word) = word else { return Ok(()) };
        let site = &mut self.sites[to];
        if site.run != run || site.agent.is_none() {
            return self.untaken(*word);
        }
        if !site.gate.is_idle() {
            site.heard.push(*word);
        }
        Ok(())
    }

    /// What was heard is forgotten, as far as it was not on disk.
    pub(crate) fn forget_words(&mut self, at: usize) -> Result<(), Violation> {
        let heard = std::mem::take(&mut self.sites[at].heard);
        heard.into_iter().try_for_each(|word| self.untaken(word))
    }

    fn untaken(&mut self, word: Word) -> Result<(), Violation> {
        let after_ms = self.dice.links.within(20..=500);
        self.plan_event(after_ms, Event::Untaken(Box::new(word)))
    }

    pub(crate) fn on_untaken(&mut self, word: Word) -> Result<(), Violation> {
        let Word { from, to, process, connection, message, once } = word;
        if self.sites[from].process() != process || self.sites[from].agent.is_none() {
            return Ok(());
        }
        let now = self.connections.get(&pair(from, to)).copied();
        if now.is_some() && now == connection {
            return self.send_to(from, to, Packet::Negotiation(message, once));
        }
        let peer = self.sites[to].key();
        if once { self.tell(from, Input::Unsaid { peer, message }) } else { Ok(()) }
    }
}
