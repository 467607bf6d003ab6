//! Two ends of a channel, and what gets lost between them.

use super::*;

fn pair() -> (Channel<u32>, Channel<u32>) {
    let (mut a, mut b) = (Channel::new(0), Channel::new(0));
    let (_, hello) = a.link_up(0);
    b.link_up(0);
    let mut out = Vec::new();
    assert!(!b.receive(0, hello, &mut out).established, "a does not know b yet");
    assert!(a.receive(0, out.remove(0), &mut Vec::new()).established);
    b.wake(limits::RESEND_MS, &mut out);
    let mut back = Vec::new();
    a.receive(0, out.remove(0), &mut back);
    assert!(b.receive(0, back.remove(0), &mut out).established);
    assert!(out.is_empty());
    (a, b)
}

#[test]
fn doubles_and_late_frames_are_taken_once_and_in_order() {
    let (mut a, mut b) = pair();
    let (one, two) = (a.send(0, vec![1]), a.send(0, vec![2]));
    let mut out = Vec::new();
    assert!(b.receive(0, two.clone(), &mut out).statements.is_empty(), "out of order");
    assert_eq!(b.receive(0, one.clone(), &mut out).statements, [1]);
    assert!(b.receive(0, one, &mut out).statements.is_empty(), "a double");
    assert_eq!(b.receive(0, two, &mut out).statements, [2]);
    a.receive(0, out.pop().unwrap(), &mut Vec::new());
    assert_eq!(a.deadline_ms(), None, "all is acknowledged");
}

/// What the one answers to these frames of the other, in order.
fn answers(to: &mut Channel<u32>, frames: Vec<Frame<u32>>) -> Vec<Frame<u32>> {
    let mut answers = Vec::new();
    for frame in frames {
        to.receive(0, frame, &mut answers);
    }
    answers
}

#[test]
fn what_is_lost_is_said_again_once_a_probe_has_shown_it() {
    let (mut a, mut b) = pair();
    let _lost = a.send(0, vec![1]);
    let after = a.send(0, vec![2]);
    let mut out = Vec::new();
    a.wake(limits::RESEND_MS - 1, &mut out);
    assert!(out.is_empty());
    a.wake(limits::RESEND_MS, &mut out);
    assert!(out.len() == 1 && out[0].statements.is_empty(), "a question, no more");
    assert_eq!(a.deadline_ms(), Some(3 * limits::RESEND_MS), "and then later");
    out.insert(0, after);
    let again = answers(&mut a, answers(&mut b, out));
    let said: Vec<_> = again.iter().map(|frame| frame.statements.clone()).collect();
    assert_eq!(said, [[1], [2]]);
    let mut heard = Vec::new();
    let mut acks = Vec::new();
    for frame in again {
        heard.extend(b.receive(0, frame, &mut acks).statements);
    }
    assert_eq!(heard, [1, 2]);
    assert!(answers(&mut a, acks).is_empty() && a.deadline_ms().is_none());
}

#[test]
fn what_the_peer_never_takes_is_known_as_long_as_that_is_so() {
    let (mut a, mut b) = pair();
    let taken = a.send(0, vec![1]);
    for repeats in 1..=limits::STUCK_REPEATS {
        let mut probe = Vec::new();
        a.wake(a.deadline_ms().unwrap(), &mut probe);
        assert!(!a.is_stuck(), "a stream may break off once");
        // What is said again ends its stream once more.
        let again = answers(&mut a, answers(&mut b, probe));
        assert_eq!((again.len(), again[0].seq), (1, taken.seq), "{repeats}");
    }
    assert!(a.is_stuck());
    assert!(answers(&mut b, vec![taken]).into_iter().all(|ack| {
        a.receive(0, ack, &mut Vec::new());
        !a.is_stuck()
    }));
}

#[test]
fn over_an_ordered_link_nothing_is_said_twice_however_slow_it_is() {
    let (mut a, mut b) = pair();
    let mut under_way: Vec<_> = (0..5).map(|n| a.send(0, vec![n])).collect();
    // Minutes pass: nothing has arrived yet, or no answer has.
    for _ in 0..10 {
        let at_ms = a.deadline_ms().unwrap();
        a.wake(at_ms, &mut under_way);
    }
    let said = under_way.iter().filter(|frame| !frame.statements.is_empty()).count();
    assert_eq!(said, 5);
    // The same when the answers come one by one, and more is said meanwhile.
    for frame in under_way {
        for answer in answers(&mut b, vec![frame]) {
            let mut out = Vec::new();
            a.receive(0, answer, &mut out);
            assert!(out.is_empty(), "{out:?}");
        }
    }
    assert_eq!(a.deadline_ms(), None, "all is acknowledged");
}

#[test]
fn an_answer_to_an_earlier_probe_or_to_the_greeting_proves_nothing() {
    let (mut a, mut b) = pair();
    let said = a.send(0, vec![1]);
    let mut probes = Vec::new();
    a.wake(limits::RESEND_MS, &mut probes);
    a.wake(a.deadline_ms().unwrap(), &mut probes);
    // As if it overtook what it follows: the later one is still to come.
    let early = answers(&mut b, vec![probes.remove(0)]);
    assert!(answers(&mut a, early).is_empty());
    let greeting = Frame { from: 1, to: 1, seq: 0, ack: 0, answer: false, statements: vec![] };
    assert!(answers(&mut a, vec![greeting]).is_empty());
    let all = answers(&mut b, vec![said, probes.remove(0)]);
    assert!(answers(&mut a, all).is_empty() && a.deadline_ms().is_none());
}

#[test]
fn a_copy_rises_above_what_its_original_has_said() {
    let (_, mut b) = pair();
    let (_, later) = Channel::<u32>::new(6).link_up(0);
    b.receive(0, later, &mut Vec::new());
    let mut copy = Channel::new(2);
    let (epoch, hello) = copy.link_up(0);
    let mut out = Vec::new();
    assert!(!b.receive(0, hello, &mut out).established);
    assert!(epoch == 3 && out.is_empty(), "b knows of 7");
    let (_, hello) = b.link_up(0);
    let received = copy.receive(0, hello, &mut out);
    assert_eq!((received.risen, received.established), (Some(8), false));
    let mut back = Vec::new();
    b.receive(0, out.remove(0), &mut back);
    assert!(copy.receive(0, back.remove(0), &mut out).established);
}

#[test]
fn the_window_is_bounded() {
    let (mut a, _) = pair();
    for n in 0..limits::WINDOW_FRAMES {
        assert!(a.has_room());
        a.send(0, vec![n as u32]);
    }
    assert!(!a.has_room());
}

#[test]
fn a_frame_of_an_earlier_epoch_is_dropped() {
    let (mut a, mut b) = pair();
    let late = a.send(0, vec![1]);
    let (epoch, hello) = a.link_up(0);
    assert_eq!(epoch, 2);
    let mut out = Vec::new();
    b.receive(0, hello, &mut out);
    assert!(b.receive(0, late, &mut out).statements.is_empty());
    assert_eq!(out.len(), 1, "and is not answered");
}

#[test]
#[should_panic(expected = "comes after")]
fn a_number_is_never_used_twice() {
    let (mut a, _) = pair();
    a.send(0, vec![1]);
    a.next_out = 1;
    a.send(0, vec![2]);
}

#[test]
fn a_peer_that_knows_of_the_last_epoch_brings_nothing_down() {
    let mut a = Channel::<u32>::new(0);
    a.link_up(0);
    let lie = |from| Frame { from, to: u64::MAX, seq: 0, ack: 0, answer: true, statements: vec![] };
    let mut out = Vec::new();
    assert_eq!(a.receive::<u32>(0, lie(1), &mut out).risen, Some(u64::MAX));
    for _ in 0..2 {
        assert_eq!(a.link_up(0).0, u64::MAX);
        assert!(a.receive::<u32>(0, lie(1), &mut out).established);
        assert_eq!(a.send(0, vec![1]).seq, 1);
    }
}

#[test]
fn an_oversized_frame_is_dropped() {
    let (mut a, mut b) = pair();
    let mut frame = a.send(0, vec![1]);
    frame.statements = vec![1; limits::FRAME_STATEMENTS + 1];
    assert!(b.receive(0, frame, &mut Vec::new()).statements.is_empty());
}
