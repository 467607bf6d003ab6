//! Two clusters with an exchange each, what is on the way between them, and what is on their
//! disks. Words arrive in any order, or not at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust, Verified};
use mercato_protocol::id::{ClusterId, Digest, FederationId, GatewayKey, PublicKey};
use mercato_protocol::time::Now;
use mercato_protocol::tunnel::{Answer, Ask, Gateway, Gateways, PairSecret};
use zeroize::Zeroizing;

use super::super::said::{Heard, Said};
use super::super::{Agreement, Effect, Exchange, Input, Off, Pair};

/// What is on the way to a side.
#[derive(Debug)]
enum Word {
    Ask {
        run: Run,
        number: u64,
        ask: Ask,
    },
    Answer {
        run: Run,
        number: u64,
        answer: Answer,
    },
    /// The stream ended without an answer.
    Nothing {
        run: Run,
        number: u64,
    },
}

/// Over which connection, and by which start of the asking side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    session: u64,
    start: u64,
}

pub(super) struct Side {
    key: KeyPair,
    pub(super) exchange: Exchange,
    pub(super) disk: Pair,
    starts: u64,
    /// How far its wall clock is behind, in ms.
    behind_ms: u64,
    in_force: bool,
    pub(super) has_gateway: bool,
    /// The next write to its disk fails.
    disk_fails: bool,
    pub(super) last: Option<Result<(Verified<Gateways>, Agreement), Off>>,
    pub(super) list: Option<Signed<Gateways>>,
}

impl Side {
    pub(super) fn sign(&self, list: &Gateways) -> Signed<Gateways> {
        self.key.sign(FederationId::NONE, list).unwrap()
    }
}

pub(super) struct Both {
    pub(super) sides: [Side; 2],
    pub(super) keys: BTreeMap<PublicKey, ClusterId>,
    /// Lists that were opened once: signatures are slow to check.
    opened: BTreeMap<Digest, Verified<Gateways>>,
    way: [VecDeque<Word>; 2],
    session: u64,
    connected: bool,
    mono_ms: u64,
    pub(super) drawn: u64,
}

pub(super) const IDS: [ClusterId; 2] = [ClusterId([1; 32]), ClusterId([2; 32])];

pub(super) fn secret(n: u64) -> PairSecret {
    let mut bytes = Zeroizing::new([7; 32]);
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    PairSecret::new(bytes)
}

impl Both {
    pub(super) fn new() -> Self {
        let side = |n: u8| Side {
            key: KeyPair::from_seed(&[n; 32]),
            exchange: exchange(usize::from(n), Pair::default()),
            disk: Pair::default(),
            starts: 0,
            behind_ms: 0,
            in_force: false,
            has_gateway: true,
            disk_fails: false,
            last: None,
            list: None,
        };
        let sides = [side(0), side(1)];
        let keys = sides.iter().zip(IDS).map(|(side, id)| (side.key.public(), id)).collect();
        let way = [VecDeque::new(), VecDeque::new()];
        let mut both = Self {
            sides,
            keys,
            opened: BTreeMap::new(),
            way,
            session: 0,
            connected: false,
            mono_ms: 0,
            drawn: 0,
        };
        (0..2).for_each(|at| both.issue(at, 0));
        both
    }

    /// The hash of the secret that a side has.
    pub(super) fn secret_hash(&self, at: usize) -> Option<Digest> {
        Some(self.sides[at].disk.current.as_ref()?.hash(IDS[0], IDS[1]))
    }

    pub(super) fn now(&self, at: usize) -> Now {
        let wall_ms = 1_800_000_000_000 + self.mono_ms - self.sides[at].behind_ms;
        Now { mono_ms: self.mono_ms, wall_ms }
    }

    pub(super) fn connect(&mut self) {
        self.disconnect();
        self.session += 1;
        self.connected = true;
        (0..2).for_each(|at| self.feed(at, Input::Connected));
    }

    pub(super) fn disconnect(&mut self) {
        if std::mem::take(&mut self.connected) {
            (0..2).for_each(|at| self.feed(at, Input::Disconnected));
        }
    }

    pub(super) fn lease(&mut self, at: usize, in_force: bool) {
        if std::mem::replace(&mut self.sides[at].in_force, in_force) != in_force {
            self.feed(at, if in_force { Input::LeaseBegan } else { Input::LeaseEnded });
        }
    }

    /// Another list, later than this and than the clock.
    pub(super) fn issue(&mut self, at: usize, after_ms: u64) {
        let side = &self.sides[at];
        let key = GatewayKey([u8::try_from(side.starts % 200).unwrap(); 32]);
        let gateways = match side.has_gateway {
            true => vec![Gateway { key, addresses: vec![([192, 0, 2, 8], 7475).into()] }],
            false => Vec::new(),
        };
        let reason = gateways.is_empty().then(|| "no /dev/net/tun".to_owned());
        let issued_ms = self.now(at).wall_ms.max(after_ms + 1);
        let list = Gateways { cluster: IDS[at], issued_ms, gateways, ranges: vec![], reason };
        let list = side.sign(&list);
        let trust = Trust { federation: FederationId::NONE, signers: Signers::Known(&self.keys) };
        let opened = list.open(trust, Now { mono_ms: 0, wall_ms: u64::MAX / 2 }).unwrap();
        self.opened.insert(list.digest(), opened.clone());
        self.sides[at].list = Some(list);
        self.feed(at, Input::Own(opened));
    }

    /// Its program dies, and comes back with what is on its disk.
    pub(super) fn restart(&mut self, at: usize, loses_folder: bool, behind_ms: u64) {
        self.connected = false;
        if loses_folder {
            self.sides[at].disk = Pair::default();
        }
        self.sides[at].behind_ms = behind_ms;
        self.begin(at);
        self.feed(1 - at, Input::Disconnected);
    }

    fn begin(&mut self, at: usize) {
        let side = &mut self.sides[at];
        side.starts += 1;
        side.exchange = exchange(at, side.disk.clone());
        side.last = None;
        self.issue(at, 0);
        if self.sides[at].in_force {
            self.feed(at, Input::LeaseBegan);
        }
    }

    pub(super) fn fail_disk(&mut self, at: usize) {
        self.sides[at].disk_fails = true;
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.mono_ms += ms;
        (0..2).for_each(|at| self.feed(at, Input::Wake));
    }

    /// To the next moment that one of them waits for; none waits for any.
    pub(super) fn wake(&mut self) -> bool {
        let waits = |at: usize| Some(self.sides[at].exchange.wakeup()?.remaining_ms(self.now(at)));
        let next = [waits(0), waits(1)].into_iter().flatten().min();
        next.into_iter().for_each(|ms| self.pass(ms));
        next.is_some()
    }

    pub(super) fn is_silent(&self) -> bool {
        self.way.iter().all(VecDeque::is_empty)
    }

    /// One of the words on the way to a side arrives.
    pub(super) fn deliver(&mut self, at: usize, nth: usize) {
        let Some(word) = self.taken(at, nth) else { return };
        match word {
            Word::Ask { run, number, ask } => {
                let said = match ask {
                    Ask::Introduce { gateways, secret_hash } => {
                        Said::Introduce { gateways: self.open(&gateways), secret_hash }
                    }
                    Ask::Secret { secret, replaces } => Said::Secret { secret, replaces },
                };
                self.perform(at, Input::Asked(said), Some((run, number)));
            }
            Word::Answer { run, number, answer } if run == self.run(at) => {
                let answer = match Answer::from_bytes(&answer.to_bytes().unwrap()).unwrap() {
                    Answer::Introduced { gateways, secret_hash } => {
                        Heard::Introduced { gateways: self.open(&gateways), secret_hash }
                    }
                    Answer::Holds { secret_hash } => Heard::Holds { secret_hash },
                    Answer::Superseded { issued_ms } => Heard::Superseded { issued_ms },
                    Answer::Refused { text, .. } => Heard::Refused { text },
                };
                self.feed(at, Input::Answered { number, answer });
            }
            Word::Nothing { run, number } if run == self.run(at) => {
                self.feed(at, Input::Failed { number, reason: "no answer".into() });
            }
            Word::Answer { .. } | Word::Nothing { .. } => {}
        }
    }

    fn open(&self, list: &Signed<Gateways>) -> Verified<Gateways> {
        self.opened[&list.digest()].clone()
    }

    /// One of the words on the way to a side is lost: whoever asked learns that, at some time.
    pub(super) fn lose(&mut self, at: usize, nth: usize) {
        match self.taken(at, nth) {
            Some(Word::Ask { run, number, .. }) => {
                self.way[1 - at].push_back(Word::Nothing { run, number });
            }
            Some(Word::Answer { run, number, .. } | Word::Nothing { run, number }) => {
                self.way[at].push_back(Word::Nothing { run, number });
            }
            None => {}
        }
    }

    fn taken(&mut self, at: usize, nth: usize) -> Option<Word> {
        let count = self.way[at].len();
        self.way[at].remove(nth % count.max(1))
    }

    fn run(&self, at: usize) -> Run {
        Run { session: self.session, start: self.sides[at].starts }
    }

    pub(super) fn feed(&mut self, at: usize, input: Input) {
        self.perform(at, input, None);
    }

    fn perform(&mut self, at: usize, input: Input, asked: Option<(Run, u64)>) {
        let now = self.now(at);
        let drawn = &mut self.drawn;
        let effects = self.sides[at].exchange.handle(now, input, || {
            *drawn += 1;
            secret(*drawn)
        });
        let mut answers = 0;
        for effect in effects {
            match effect {
                Effect::Keep(pair) if !self.sides[at].disk_fails => self.sides[at].disk = pair,
                Effect::Keep(_) => {
                    // What follows is dropped, and the exchange begins anew.
                    self.sides[at].disk_fails = false;
                    self.begin(at);
                    if let Some((run, number)) = asked {
                        self.way[1 - at].push_back(Word::Nothing { run, number });
                    }
                    if self.connected {
                        self.feed(at, Input::Connected);
                    }
                    return;
                }
                Effect::Forget => self.sides[at].disk = Pair::default(),
                Effect::Ask { number, ask } => {
                    assert!(self.connected && self.sides[at].in_force);
                    let ask = Ask::from_bytes(&ask.to_frame().unwrap()).unwrap();
                    self.way[1 - at].push_back(Word::Ask { run: self.run(at), number, ask });
                }
                Effect::Answer(answer) => {
                    answers += 1;
                    let (run, number) = asked.unwrap();
                    self.way[1 - at].push_back(Word::Answer { run, number, answer });
                }
                Effect::Reissue { after_ms } => self.issue(at, after_ms),
                Effect::Agreed { gateways, secrets } => {
                    self.sides[at].last = Some(Ok((gateways, secrets)));
                }
                Effect::Off(off) => self.sides[at].last = Some(Err(off)),
            }
        }
        assert_eq!(answers, usize::from(asked.is_some()), "one answer to each question");
        self.check(at);
    }

    /// What is agreed is on the disk, of the pair, and only while a lease is in force.
    fn check(&self, at: usize) {
        let side = &self.sides[at];
        let Some(Ok((gateways, secrets))) = &side.last else { return };
        assert!(side.in_force && gateways.cluster == IDS[1 - at]);
        let kept = [&side.disk.current, &side.disk.previous];
        let is_kept = |secret: &Arc<PairSecret>| kept.contains(&&Some(Arc::clone(secret)));
        assert!(is_kept(&secrets.begin));
    }

    /// From now on nothing is lost; until nobody has anything to say any more.
    pub(super) fn heal(&mut self) {
        for at in 0..2 {
            self.sides[at].disk_fails = false;
            self.lease(at, true);
        }
        self.connect();
        for _ in 0..1_000 {
            if self.is_silent() && !self.wake() {
                return;
            }
            (0..2).for_each(|at| self.deliver(at, 0));
        }
        panic!("they do not come to an end");
    }

    /// Both have the latest list of the other, and begin with the same secret.
    pub(super) fn assert_agreed(&self) {
        let hash = |secret: &Arc<PairSecret>| secret.hash(IDS[0], IDS[1]);
        let mut begins: Vec<Digest> = Vec::new();
        for at in 0..2 {
            let Some(Ok((gateways, secrets))) = &self.sides[at].last else {
                panic!("side {at}: {:?}", self.sides[at].last)
            };
            assert_eq!(Some(gateways.signed()), self.sides[1 - at].list.as_ref());
            let current = self.sides[at].disk.current.as_ref().unwrap();
            assert_eq!(hash(current), hash(&secrets.begin));
            begins.push(hash(&secrets.begin));
        }
        assert_eq!(begins[0], begins[1]);
    }
}

fn exchange(at: usize, pair: Pair) -> Exchange {
    Exchange::new(IDS[at], IDS[1 - at], pair)
}
