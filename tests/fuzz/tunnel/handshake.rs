//! Datagrams of strangers: some know our public key, some have heard our index. None of them is
//! answered, and a handshake with the peer goes on as if they had not come.

use mercato_session::Ignored;

use super::input::Input;
use super::noise::{self, INITIATION_BYTES, NOW, RESPONSE_BYTES};

const COOKIE_BYTES: usize = 64;

/// Datagrams to a gateway, perhaps while it waits for an answer.
pub(crate) fn handshake(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (mut gateway, peer) = noise::gateway(0);
    let begun = (input.byte() & 1 != 0).then(|| {
        gateway.connect(NOW, peer);
        gateway.take_wants().sent().unwrap().to_vec()
    });
    let from = std::net::SocketAddr::from(([203, 0, 113, 9], 9));
    while !input.is_empty() {
        let datagram = datagram(&mut input, begun.as_deref());
        let taken = gateway.handle_datagram(NOW, from, &datagram);
        assert!(taken.is_err(), "a stranger is heard");
        assert_eq!(taken == Err(Ignored::Data), is_data(&datagram));
        assert!(gateway.take_wants().is_empty(), "a stranger is answered");
    }
    let Some(initiation) = begun else { return };
    let (mut other, _) = noise::gateway(1);
    other.handle_datagram(NOW, from, &initiation).unwrap();
    let answer = other.take_wants();
    gateway.handle_datagram(NOW, noise::peer_address(), answer.sent().unwrap()).unwrap();
    assert!(gateway.take_wants().installed().is_some());
}

/// A datagram with as much right in it as the input says.
fn datagram(input: &mut Input<'_>, begun: Option<&[u8]>) -> Vec<u8> {
    let choice = input.byte();
    let (kind, length) = match choice & 7 {
        1 => (1, INITIATION_BYTES),
        2 => (2, RESPONSE_BYTES),
        3 => (3, COOKIE_BYTES),
        kind => (kind, usize::from(input.byte())),
    };
    let length = if choice & 8 == 0 { length } else { usize::from(input.byte()) };
    let mut datagram = input.padded(length);
    datagram.iter_mut().zip([kind, 0, 0, 0]).for_each(|(byte, right)| *byte = right);
    if choice & 16 != 0 {
        // An index needs room for a shard.
        datagram.iter_mut().skip(4).take(1).for_each(|byte| *byte &= 0xf0);
    }
    let receiver = if kind == 2 { 8..12 } else { 4..8 };
    if let Some(begun) = begun.filter(|_| choice & 32 != 0)
        && let Some(at) = datagram.get_mut(receiver)
    {
        at.copy_from_slice(&begun[4..8]);
    }
    if choice & 64 != 0 {
        noise::stamp(&mut datagram);
    }
    datagram
}

fn is_data(datagram: &[u8]) -> bool {
    datagram.starts_with(&[4, 0, 0, 0]) && datagram.len() >= 32
}
