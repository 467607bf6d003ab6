//! Bodies behind a workload message: what is packed is unpacked by a second reader too, written
//! here after LZ4's description of its block format, as far as the message says and no further.

use mercato_protocol::codec::Message as _;
use mercato_protocol::id::Digest;
use mercato_protocol::workload::{BodyHead, Frame, Message};

/// A message and what follows it, with the length of the message before both.
pub(super) fn joined(bytes: &[u8]) {
    let Some((length, rest)) = said_length(bytes) else { return };
    let Some((message, joined)) = rest.split_at_checked(length as usize) else { return };
    let Ok(message) = Message::from_bytes(message) else { return };
    if let Ok(bodies) = message.split_bodies(joined) {
        for head in message.bodies() {
            let body = &bodies[&head.digest];
            assert_eq!(body.len(), head.length as usize);
            assert_eq!(Digest::of(body), head.digest);
        }
        let sent: usize = message.bodies().iter().map(|head| head.sent() as usize).sum();
        assert_eq!(sent, joined.len());
    }
}

/// A packed body, with the length that the message says before it.
pub(super) fn packed(bytes: &[u8]) {
    let Some((length, sent)) = said_length(bytes) else { return };
    let body = unpack(sent, length as usize);
    let digest = Digest::of(body.as_deref().unwrap_or_default());
    let head = BodyHead { digest, length, packed: u32::try_from(sent.len()).ok() };
    let Some(message) = sendable(head) else { return };
    match (message.split_bodies(sent), body) {
        (Ok(ours), Some(theirs)) => assert_eq!(*ours[&digest], theirs),
        (Err(_), None) => {}
        (Ok(_), None) => panic!("only the second reader refuses it"),
        (Err(ours), Some(_)) => panic!("only ours refuses it: {ours}"),
    }
}

/// A body to send.
pub(super) fn to_pack(body: &[u8]) {
    let (head, sent) = BodyHead::pack(body);
    assert!(sent.len() <= body.len());
    if head.packed.is_some() {
        assert_eq!(unpack(&sent, body.len()).as_deref(), Some(body));
    }
    let Some(message) = sendable(head) else { return assert!(body.is_empty()) };
    assert_eq!(*message.split_bodies(&sent).unwrap()[&head.digest], *body);
    assert!(message.split_bodies(&sent[1..]).is_err());
}

/// A message with one body, as a peer would read it; none if it would not.
fn sendable(head: BodyHead) -> Option<Message> {
    let frame = Frame { from: 1, to: 1, seq: 0, ack: 0, answer: false, statements: Vec::new() };
    let message = Message::ToGuest { frame, bodies: vec![head] };
    let bytes = message.to_bytes().ok()?;
    assert_eq!(Message::from_bytes(&bytes).as_ref(), Ok(&message));
    Some(message)
}

fn said_length(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*length).into(), rest))
}

/// One block of LZ4 that comes to `length` bytes.
fn unpack(mut sent: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let token = next(&mut sent)?;
        let literals = count(token >> 4, &mut sent)?;
        let literals = sent.split_off(..literals)?;
        body.extend_from_slice(literals);
        if body.len() > length {
            return None;
        }
        if sent.is_empty() {
            return (body.len() == length).then_some(body);
        }
        let back = usize::from(u16::from_le_bytes([next(&mut sent)?, next(&mut sent)?]));
        let again = count(token & 15, &mut sent)? + 4;
        if back == 0 || back > body.len() || body.len() + again > length {
            return None;
        }
        for _ in 0..again {
            body.push(body[body.len() - back]);
        }
    }
}

/// Fifteen is followed by bytes to add, the last of which is not 255.
fn count(nibble: u8, sent: &mut &[u8]) -> Option<usize> {
    let mut count = usize::from(nibble);
    let mut more = nibble == 15;
    while more {
        let byte = next(sent)?;
        count += usize::from(byte);
        more = byte == 255;
    }
    Some(count)
}

fn next(sent: &mut &[u8]) -> Option<u8> {
    sent.split_off_first().copied()
}
