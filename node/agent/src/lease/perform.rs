//! What a lease's session wants done, as effects of the agent.

use mercato_offload::{guest, home};

use super::Lease;
use crate::effect::{Effect, Frame, GuestWork, HomeWork, Work};
use crate::record::{Change, Record, RecordKey};

impl Lease {
    pub(super) fn at_home(&mut self, effect: home::Effect) -> Effect {
        let contract = self.id();
        let work = |work| Effect::Work(contract, Work::Home(work));
        match effect {
            home::Effect::Persist(record) => self.keep(Record::Home(contract, record)),
            home::Effect::Erase(key) => self.drop(RecordKey::Home(contract, key)),
            home::Effect::Send(frame) => self.send(Frame::ToGuest(frame)),
            home::Effect::Watch(key) => work(HomeWork::Watch(key)),
            home::Effect::Unwatch(key) => work(HomeWork::Unwatch(key)),
            home::Effect::Confirm(pod) => work(HomeWork::Confirm(pod)),
            home::Effect::Write(pod, write) => work(HomeWork::Write(pod, write)),
            home::Effect::ObjectRefused(key, refusal) => {
                work(HomeWork::ObjectRefused(key, refusal))
            }
            home::Effect::Claim(key, granted) => work(HomeWork::Claim(key, granted)),
            home::Effect::Event(pod, event) => work(HomeWork::Event(pod, event)),
            home::Effect::Carry(pod, address) => Effect::Carry(contract, pod, address),
            home::Effect::CarrySecond(pod, address, there) => {
                Effect::CarrySecond(contract, pod, address, there)
            }
            home::Effect::Uncarry(pod) => Effect::Unmap(contract, pod),
        }
    }

    pub(super) fn at_provider(&mut self, effect: guest::Effect) -> Effect {
        let contract = self.id();
        let work = |work| Effect::Work(contract, Work::Guest(work));
        match effect {
            guest::Effect::Persist(record) => self.keep(Record::Guest(contract, record)),
            guest::Effect::Erase(key) => self.drop(RecordKey::Guest(contract, key)),
            guest::Effect::Send(frame) => self.send(Frame::ToHome(frame)),
            guest::Effect::Apply(item, content) => work(GuestWork::Apply(item, content)),
            guest::Effect::Make(pod, content) => work(GuestWork::Make(pod, content)),
            guest::Effect::Update(pod, content) => work(GuestWork::Update(pod, content)),
            guest::Effect::Delete(item, grace_s) => work(GuestWork::Delete(item, grace_s)),
            guest::Effect::Release(pod) => work(GuestWork::Release(pod)),
            guest::Effect::Confirm(item, uid) => work(GuestWork::Confirm(item, uid)),
            guest::Effect::Map(of) => Effect::Map(contract, of),
            guest::Effect::Unmap(pod) => Effect::Unmap(contract, pod),
        }
    }

    fn send(&self, frame: Frame) -> Effect {
        Effect::Workload { peer: self.key, contract: self.id(), frame }
    }

    pub(super) fn keep(&mut self, record: Record) -> Effect {
        self.kept.insert(record.key());
        Effect::Persist(Change::Put(record))
    }

    pub(super) fn drop(&mut self, key: RecordKey) -> Effect {
        self.kept.remove(&key);
        Effect::Persist(Change::Erase(key))
    }
}
