//! Claims that nobody has, too many of them, and words of them that nobody has asked for.

use mercato_offload::guest::{self, Observed};
use mercato_offload::home::{self, Granted, Wish};
use mercato_offload::key::{Item, ObjectKey, ObjectKind, key};
use mercato_offload::limits;
use mercato_offload::message::{ToGuest, ToHome};
use mercato_protocol::id::Digest;
use mercato_protocol::time::Deadline;

use super::told::{Asked, Lied, NOW, put, refusal};

fn claim(uid: &str) -> ObjectKey {
    key(ObjectKind::Claim, "shop", uid)
}

fn have(key: ObjectKey, digest: Option<Digest>) -> ToHome {
    ToHome::Have { item: Item::Object(key), digest, report: None }
}

fn applies(effects: &[guest::Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, guest::Effect::Apply(..)))
}

/// A provider that a home tells things, and that hears each answer.
struct Heard(Asked);

impl Heard {
    /// What it wants done then, and what it says.
    fn does(&mut self, input: guest::Input) -> (Vec<guest::Effect>, Vec<ToHome>) {
        let (mut inputs, mut done, mut said) = (vec![input], Vec::new(), Vec::new());
        while let Some(input) = inputs.pop() {
            for effect in self.0.session.handle(NOW, input) {
                let guest::Effect::Send(frame) = effect else {
                    done.push(effect);
                    continue;
                };
                let mut answers = Vec::new();
                said.extend(self.0.home.receive(NOW.mono_ms, frame, &mut answers).statements);
                inputs.extend(answers.into_iter().map(guest::Input::Frame));
            }
        }
        (done, said)
    }

    fn is_told(&mut self, statement: ToGuest) -> Vec<guest::Effect> {
        let frame = self.0.home.send(NOW.mono_ms, vec![statement]);
        self.does(guest::Input::Frame(frame)).0
    }
}

/// One more than a lease may have is not made, and what else is wanted is.
#[test]
fn of_too_many_claims_the_last_is_not_made() {
    let mut asked = Heard(Asked::of_provider());
    let all: Vec<_> = (0..=limits::CLAIMS).map(|n| claim(&format!("u-{n}"))).collect();
    let (last, fit) = all.split_last().unwrap();
    for key in fit {
        assert!(applies(&asked.is_told(put(Item::Object(key.clone())))), "{key}");
        asked.does(guest::Input::Written(Item::Object(key.clone())));
    }
    assert_eq!(asked.is_told(put(Item::Object(last.clone()))), []);
    assert_eq!(asked.is_told(ToGuest::Discard(last.clone())), []);
    let keys = Item::Object(key(ObjectKind::Secret, "shop", "keys"));
    assert!(applies(&asked.is_told(put(keys))), "it takes no other object's place");
    // Once one has gone there is room.
    let first = Item::Object(fit[0].clone());
    let removes = [guest::Effect::Delete(first.clone(), None)];
    assert_eq!(asked.is_told(ToGuest::Discard(fit[0].clone())), removes);
    let (done, said) = asked.does(guest::Input::Written(first.clone()));
    assert_eq!((&done[..], &said[..]), (&[][..], &[][..]), "a pod may have it yet");
    let (_, said) = asked.does(guest::Input::Gone(first));
    assert_eq!(said, [have(fit[0].clone(), None)]);
    let done = asked.is_told(put(Item::Object(last.clone())));
    assert!(applies(&done), "{done:?}");
}

/// What a pod mounts stays until that has ended, which its home may never want: the API server is not asked
/// without end.
#[test]
fn a_claim_that_is_held_is_deleted_again_with_growing_waits() {
    let mut asked = Asked::of_provider();
    let item = Item::Object(claim("u-1"));
    asked.is_told(put(item.clone()));
    asked.does(guest::Input::Written(item.clone()));
    let removes = [guest::Effect::Delete(item.clone(), None)];
    assert_eq!(asked.is_told(ToGuest::Discard(claim("u-1"))), removes);
    let (mut now, mut often, mut is_asked) = (NOW, 0, true);
    while now.mono_ms < NOW.mono_ms + 60_000 {
        if is_asked {
            let done = asked.session.handle(now, guest::Input::Written(item.clone()));
            assert!(!done.contains(&removes[0]), "{done:?}");
        }
        let Some(Deadline::Mono(at_ms)) = asked.session.wakeup() else { panic!("it waits") };
        now.mono_ms = now.mono_ms.max(at_ms);
        is_asked = asked.session.handle(now, guest::Input::Wake).contains(&removes[0]);
        often += usize::from(is_asked);
    }
    assert!((2..12).contains(&often), "{often} times in a minute");
}

/// Nor does the end of a link, a list that is empty, or the end of all pods: its discard alone.
#[test]
fn a_claim_goes_by_no_word_of_anything_else() {
    let mut asked = Asked::of_provider();
    let (data, item) = (claim("u-1"), Item::Object(claim("u-1")));
    asked.is_told(put(item.clone()));
    asked.does(guest::Input::Written(item.clone()));
    let digest = Digest::of(b"web");
    let seen = Observed { item: item.clone(), digest, pod: None };
    asked.does(guest::Input::Observed(seen.clone()));
    let web = super::pod("u1", "web");
    for statement in [
        put(Item::Pod(web.clone())),
        ToGuest::Delete { pod: web.clone(), grace_s: 0 },
        ToGuest::Forget(web),
        ToGuest::Drop(key(ObjectKind::ConfigMap, "shop", "u-1")),
    ] {
        let done = asked.is_told(statement);
        let is_it =
            |effect: &guest::Effect| matches!(effect, guest::Effect::Delete(of, _) if *of == item);
        assert!(!done.iter().any(is_it), "{done:?}");
    }
    for input in [guest::Input::LinkDown, guest::Input::LinkUp, guest::Input::Synced(vec![seen])] {
        let done = asked.does(input);
        let removes =
            |effect: &guest::Effect| matches!(effect, guest::Effect::Delete(of, _) if *of == item);
        assert!(!done.iter().any(removes), "{done:?}");
    }
    assert!(format!("{:?}", asked.session).contains(&data.name));
}

/// Whatever a provider says that it holds, home makes nothing of it, sends nothing for it, and has nothing
/// removed.
#[test]
fn claims_that_home_never_sent_bring_a_provider_nothing() {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    lied.told.clear();
    lied.effects.clear();
    let claims: Vec<_> = (0..2 * limits::CLAIMS).map(|n| claim(&format!("theirs-{n}"))).collect();
    for some in claims.chunks(32) {
        lied.says(some.iter().map(|key| have(key.clone(), Some(Digest::of(b"data")))).collect());
    }
    assert_eq!(lied.told, []);
    let is_stray = |effect: &home::Effect| matches!(effect, home::Effect::Claim(_, Granted::Stray));
    assert!(lied.effects.iter().all(is_stray), "{:?}", lied.effects);
    assert!((1..=limits::CLAIMS).contains(&lied.effects.len()), "{}", lied.effects.len());
    lied.effects.clear();
    for key in claims.iter().take(3).chain([&claim("of-nobody")]) {
        let item = Item::Object(key.clone());
        lied.says(vec![ToHome::Refused { item: item.clone(), refusal: refusal() }]);
        lied.says(vec![ToHome::Missing(item)]);
    }
    assert_eq!((&lied.told[..], &lied.effects[..]), (&[][..], &[][..]));
}

/// One that takes back what it has said it holds is told that it is lost, and asked for no empty one.
#[test]
fn what_a_provider_says_it_has_lost_is_not_made_anew() {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    let (data, digest) = (claim("u-1"), Digest::of(b"data"));
    let wish = |wish| home::Input::Claim { key: claim("u-1"), wish, place: None };
    lied.takes(wish(Wish::Make(digest)));
    lied.says(vec![have(data.clone(), Some(digest))]);
    lied.takes(wish(Wish::Keep(digest)));
    lied.told.clear();
    lied.effects.clear();
    for held in [None, Some(digest), None] {
        lied.says(vec![have(data.clone(), held)]);
    }
    assert_eq!(lied.told, []);
    let lost = home::Effect::Claim(data.clone(), Granted::Lost);
    assert!(lied.effects.contains(&lost), "{:?}", lied.effects);
    // What it goes on holding is not removed for that.
    let discarded = home::Effect::Claim(data, Granted::Discarded);
    assert!(!lied.effects.contains(&discarded));
}
