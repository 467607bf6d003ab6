//! Claims of this lease, by their uids: what home wishes for each, and what the provider holds. No
//! claim is removed but by [`Wish::Discard`], and none whose volume was made is made anew.

use std::collections::BTreeMap;

use mercato_protocol::id::Digest;

use super::{Config, Effect, Granted, Wish};
use crate::key::{Item, ObjectKey};
use crate::limits;
use crate::message::{Refusal, ToGuest};
use crate::output::Output;

/// All claims of one lease.
#[derive(Debug, Default)]
pub(super) struct Claims {
    all: BTreeMap<ObjectKey, Claim>,
    /// The provider has listed what it holds, on this link.
    listed: bool,
}

/// What the provider is to be told of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Have it, with this content.
    Put(Digest),
    /// Remove it, with what is stored.
    Discard,
}

/// A claim, as this side knows it.
#[derive(Debug, Default)]
struct Claim {
    /// None of one that the provider alone knows: it is kept there.
    wish: Option<Wish>,
    /// What its guest namespace is to be called; none: the provider's to name.
    place: Option<String>,
    /// What was said last, on this link, since home wished something.
    told: Option<Word>,
    /// It was told to be had, and not since to go: it may come to be there, whatever is held.
    is_put: bool,
    /// It was told to go, and the provider has not said since that it is not there.
    is_going: bool,
    /// What the provider holds, once it has said so on this link.
    held: Option<Option<Digest>>,
    /// The content that this provider is not sent.
    withheld: Option<Digest>,
    /// What was said when it was refused: once for each wish.
    refused: Option<Refusal>,
    /// Home was told what came of its wish.
    is_answered: bool,
}

impl Claims {
    /// What was told on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.listed = false;
        for claim in self.all.values_mut() {
            (claim.told, claim.held, claim.withheld, claim.refused) = (None, None, None, None);
            (claim.is_put, claim.is_going) = (false, false);
        }
    }

    /// Home wishes this; said again, it is told and answered again. Nothing that the provider says has it told
    /// more often.
    pub(super) fn on_wish(
        &mut self,
        key: ObjectKey,
        wish: Wish,
        place: Option<String>,
        out: &mut Output<Effect>,
    ) {
        let Some(claim) = self.admit(&key) else {
            let reason = format!("a lease has {} claims at most", limits::CLAIMS);
            out.push(Effect::ObjectRefused(key, Refusal { path: String::new(), reason }));
            return;
        };
        (claim.wish, claim.place) = (Some(wish), place);
        (claim.told, claim.refused, claim.is_answered) = (None, None, false);
        self.answer(key, out);
    }

    /// The provider holds it, with this content, or does not; whether that may be.
    pub(super) fn on_have(
        &mut self,
        key: &ObjectKey,
        digest: Option<Digest>,
        out: &mut Output<Effect>,
    ) -> bool {
        let Some(claim) = self.admit(key) else { return false };
        let had = claim.held.replace(digest);
        claim.is_going &= digest.is_some();
        claim.is_answered &= had == Some(digest);
        self.answer(key.clone(), out);
        true
    }

    /// The provider holds what it has listed, and nothing else.
    pub(super) fn on_have_end(&mut self, out: &mut Output<Effect>) {
        self.listed = true;
        for claim in self.all.values_mut() {
            if claim.held.is_none() {
                claim.held = Some(None);
                claim.is_answered = false;
            }
        }
        for key in self.all.keys().cloned().collect::<Vec<_>>() {
            self.answer(key, out);
        }
    }

    /// The provider asks for its content once more; whether it is one of home's.
    pub(super) fn on_missing(&mut self, key: &ObjectKey) -> bool {
        self.all.get_mut(key).map(|claim| claim.told = None).is_some()
    }

    /// This content of it was not sent.
    pub(super) fn on_withheld(&mut self, key: &ObjectKey, digest: Digest) {
        if let Some(claim) = self.all.get_mut(key) {
            claim.withheld = Some(digest);
        }
    }

    /// The provider refuses it so.
    pub(super) fn on_refused(
        &mut self,
        key: ObjectKey,
        refusal: Refusal,
        out: &mut Output<Effect>,
    ) {
        let is_wished = |claim: &&mut Claim| claim.wish.is_some() && claim.refused.is_none();
        let Some(claim) = self.all.get_mut(&key).filter(is_wished) else { return };
        claim.refused = Some(refusal.clone());
        out.push(Effect::ObjectRefused(key, refusal));
    }

    /// What the provider is to be told of it next.
    pub(super) fn statement(&mut self, key: &ObjectKey, config: &Config) -> Option<ToGuest> {
        let (word, place) = self.next(key)?;
        Some(match word {
            Word::Put(digest) => {
                let (item, route) = (Item::Object(key.clone()), config.route(None));
                ToGuest::Put { item, digest, route, place }
            }
            Word::Discard => ToGuest::Discard(key.clone()),
        })
    }

    /// The next thing to tell the provider of it, and what its namespace is to be called; it counts as told
    /// from then on.
    fn next(&mut self, key: &ObjectKey) -> Option<(Word, Option<String>)> {
        let claim = self.all.get_mut(key)?;
        let held = claim.held?;
        let word = match claim.wish? {
            Wish::Make(digest) => (held != Some(digest)).then_some(Word::Put(digest)),
            Wish::Keep(digest) => held.filter(|it| *it != digest).map(|_| Word::Put(digest)),
            Wish::Discard => {
                (held.is_some() || claim.is_put || claim.is_going).then_some(Word::Discard)
            }
        };
        let is_new = |word: &Word| {
            let is_withheld = matches!(word, Word::Put(digest) if claim.withheld == Some(*digest));
            claim.told != Some(*word) && !is_withheld
        };
        let word = word.filter(is_new)?;
        claim.told = Some(word);
        (claim.is_put, claim.is_going) = (word != Word::Discard, word == Word::Discard);
        Some((word, claim.place.clone()))
    }

    /// Tells home what came of its wish, once, and looks whether there is something to say.
    fn answer(&mut self, key: ObjectKey, out: &mut Output<Effect>) {
        let Some(claim) = self.all.get_mut(&key) else { return };
        out.changed(Item::Object(key.clone()));
        let (Some(held), false) = (claim.held, claim.is_answered) else { return };
        let is_there = held.is_some();
        let is_gone = !is_there && !claim.is_put && !claim.is_going;
        let granted = match claim.wish {
            Some(Wish::Make(_) | Wish::Keep(_)) if is_there => Some(Granted::Held),
            Some(Wish::Keep(_)) => Some(Granted::Lost),
            Some(Wish::Discard) if is_gone => Some(Granted::Discarded),
            None if is_there => Some(Granted::Stray),
            None => Some(Granted::Discarded),
            Some(Wish::Make(_) | Wish::Discard) => None,
        };
        claim.is_answered = granted.is_some();
        if is_gone && matches!(claim.wish, None | Some(Wish::Discard)) {
            self.all.remove(&key);
        }
        out.extend(granted.map(|granted| Effect::Claim(key, granted)));
    }

    /// The claim of that key; none, if that would be one too many.
    fn admit(&mut self, key: &ObjectKey) -> Option<&mut Claim> {
        if !self.all.contains_key(key) && self.all.len() >= limits::CLAIMS {
            return None;
        }
        let held = self.listed.then_some(None);
        Some(self.all.entry(key.clone()).or_insert_with(|| Claim { held, ..Claim::default() }))
    }
}

#[cfg(test)]
mod tests;
