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
    asked: mpsc::Receiver<gate::Asked>,
    _rules: watch::Sender<Option<Arc<ClosingRules>>>,
    _tasks: JoinSet<()>,
}

impl Gates {
    fn of(fake: &Arc<Fake>) -> Self {
        let port = port();
        let (rules, ruled) = watch::channel(Some(Arc::new(rules(port, None, "10.201.3.0/25"))));
        let (ask, asked) = mpsc::channel(limits::GATE_ASKS);
        let mut tasks = JoinSet::new();
        tasks.spawn(gate::answer(fake.clone(), ruled, ask));
        Self { port, asked, _rules: rules, _tasks: tasks }
    }

    async fn asked(&mut self) -> gate::Asked {
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
