//! Whose question is heard, and what of it gets as far as the task that closes guests.

use futures::future::join_all;
use mercato_protocol::gate::Answer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::super::pods::Pods;
use super::*;

/// Gates that ask, and the test in the place of the task that closes guests.
struct Gates {
    port: u16,
    asked: mpsc::Receiver<gate::FromGate>,
    _rules: watch::Sender<Option<Arc<ClosingRules>>>,
    _tasks: JoinSet<()>,
}

impl Gates {
    fn of(fake: &Arc<Fake>) -> Self {
        let port = port();
        Self::with(fake, rules(port, None, "10.201.3.0/25"))
    }

    fn with(fake: &Arc<Fake>, rules: ClosingRules) -> Self {
        let port = rules.port;
        let (rules, ruled) = watch::channel(Some(Arc::new(rules)));
        let (ask, asked) = mpsc::channel(limits::GATE_ASKS);
        let mut tasks = JoinSet::new();
        tasks.spawn(gate::answer(fake.clone(), ruled, ask));
        Self { port, asked, _rules: rules, _tasks: tasks }
    }

    async fn asked(&mut self) -> gate::Asked {
        match self.said().await {
            gate::FromGate::Asked(asked) => asked,
            gate::FromGate::Heard(_) => panic!("nobody has asked"),
        }
    }

    async fn said(&mut self) -> gate::FromGate {
        tokio::time::timeout(limits::CLOSE_LOOK * 4, self.asked.recv()).await.unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_pod_of_this_machine_is_not_heard() {
    let fake = Arc::new(Fake::default());
    let mut gates = Gates::of(&fake);
    assert_eq!(ask(gates.port, "one-guest\n").await, "", "it is hung up on");
    assert!(gates.asked.try_recv().is_err() && fake.now().looks > 0);
    fake.now().is_there = true;
    let gate = tokio::spawn(ask(gates.port, "one-guest\n"));
    let asked = gates.asked().await;
    assert_eq!((asked.uid, asked.from), (uid(), POD));
    asked.answer.send(Answer::Open).unwrap();
    assert_eq!(gate.await.unwrap(), "open\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_nobody_known_takes_nothing_of_the_task_that_closes_guests() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let mut gates = Gates::of(&fake);
    assert_eq!(ask(gates.port, "another\n").await, "wait\n");
    assert!(gates.asked.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_pod_one_question_is_heard_at_a_time() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let mut gates = Gates::of(&fake);
    let (port, mut asking) = (gates.port, JoinSet::new());
    let gate = tokio::spawn(ask(port, "one-guest\n"));
    let first = gates.asked().await;
    for _ in 1..limits::GATE_ASKS_OF_POD + 6 {
        asking.spawn(async move {
            let pod = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
            let (mut pod, mut said) = (pod.unwrap(), String::new());
            // Whoever is hung up on has heard nothing.
            let _ = pod.write_all(b"one-guest\n").await;
            let _ = pod.read_to_string(&mut said).await;
            said
        });
    }
    for _ in 0..6 {
        assert_eq!(asking.join_next().await.unwrap().unwrap(), "");
    }
    assert!(gates.asked.try_recv().is_err(), "the others wait for it, or are hung up on");
    first.answer.send(Answer::Wait).unwrap();
    gates.asked().await.answer.send(Answer::Open).unwrap();
    assert_eq!(
        (gate.await.unwrap(), asking.join_all().await),
        ("wait\n".into(), vec!["open\n".into()])
    );
}

#[tokio::test(start_paused = true)]
async fn strangers_cost_no_more_looks_however_many_they_are() {
    let fake = Arc::new(Fake::default());
    let (pods, begun) = (Pods::new(fake.clone()), Instant::now());
    let passes = || tokio::time::sleep(std::time::Duration::from_millis(1));
    let stranger = |n: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + n));
    for _ in 0..20 {
        let all = join_all((0..100).map(|n| pods.has(stranger(n)))).await;
        assert!(!all.contains(&true));
        passes().await;
    }
    let most = begun.elapsed().as_millis() / limits::GATE_LOOK.as_millis() + 1;
    assert!((2..=most).contains(&fake.now().looks.into()), "in {:?}", begun.elapsed());
    fake.now().is_there = true;
    assert!(!pods.knows(POD) && pods.has(POD).await && pods.knows(POD));
    // Whoever closes them says why nobody can.
    fake.now().unseen = true;
    passes().await;
    assert!(pods.has(stranger(1)).await);
}

/// Whoever is to have another address is spoken of once its gate has hung up, or does not; and is not heard
/// again before that is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_has_heard_to_wait_is_spoken_of() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let mut gates = Gates::with(&fake, called::rules(port(), None, called::OWN));
    for hangs_up in [true, false] {
        let until = Instant::now() + limits::CLOSE_LOOK * 4;
        let mut gate = loop {
            let gate = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, gates.port)).await;
            assert!(Instant::now() < until, "nobody is at the port");
            if let Ok(gate) = gate {
                break gate;
            }
        };
        let mut said = String::new();
        gate.write_all(b"one-guest\n").await.unwrap();
        gates.asked().await.answer.send(Answer::Wait).unwrap();
        gate.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "wait\n");
        let kept = Some(gate).filter(|_| !hangs_up);
        let gate::FromGate::Heard(heard) = gates.said().await else { panic!("it asks again") };
        assert_eq!((&heard.uid, heard.from), (&uid(), POD));
        let next = tokio::spawn(ask(gates.port, "one-guest\n"));
        tokio::task::yield_now().await;
        assert!(gates.asked.try_recv().is_err(), "it is heard before that is done");
        drop((heard, kept));
        gates.asked().await.answer.send(Answer::Open).unwrap();
        assert_eq!(next.await.unwrap(), "open\n");
        assert!(gates.asked.try_recv().is_err(), "a gate that is open is no more spoken of");
    }
}
