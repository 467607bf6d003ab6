//! A peer with the right keys that says in the handshake what it likes. A second reading of
//! docs/wire.md says what a gateway is to take.

use mercato_session::Suite;

use super::input::Input;
use super::noise::{self, NOW, RESPONSE_BYTES, SHARDS};

const OFFER_BYTES: usize = 14;
/// Between two initiations of one peer that are both answered.
const DISTANCE_MS: u64 = 50;

/// A peer that begins handshakes, or answers one.
pub(crate) fn liar(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.byte() & 1 == 0 { begins(&mut input) } else { answers(&mut input) }
}

fn begins(input: &mut Input<'_>) {
    let (mut gateway, _) = noise::gateway(0);
    let mut now = NOW;
    let mut newest = [0; 12];
    let mut answered_ms = None;
    for _ in 0..4 {
        let (index, offer) = (input.array::<4>(), input.array::<OFFER_BYTES>());
        let mut state = noise::initiator();
        let mut noise_message = [0; 110];
        assert_eq!(state.write_message(&offer, &mut noise_message), Ok(110));
        let message = noise::laid_out(1, &[index], &noise_message);
        let taken = gateway.handle_datagram(now, noise::peer_address(), &message);
        let (timestamp, suites, shards) = (&offer[..12], offer[12], offer[13]);
        let is_new = timestamp > &newest[..];
        let is_late = answered_ms.is_none_or(|at_ms| now.mono_ms >= at_ms + DISTANCE_MS);
        let is_admitted = index[0] & 15 == 0 && (1..=16).contains(&shards) && is_new && is_late;
        if is_admitted {
            newest.copy_from_slice(timestamp);
            answered_ms = Some(now.mono_ms);
        }
        // Everybody takes ChaCha20-Poly1305; who does not is of no version that there is.
        let is_answered = is_admitted && suites & 3 != 0;
        assert_eq!(taken.is_ok(), is_answered, "{offer:?}: {taken:?}");
        let wants = gateway.take_wants();
        assert_eq!(wants.is_empty(), !is_answered);
        if is_answered {
            let response = wants.sent().unwrap();
            assert_eq!((response.len(), &response[8..12]), (RESPONSE_BYTES, &index[..]));
            let mut choice = [0; 2];
            assert_eq!(state.read_message(&response[12..62], &mut choice), Ok(2));
            let expected = if suites & 1 != 0 { 1 } else { 2 };
            assert_eq!(choice, [expected, SHARDS]);
        }
        now.mono_ms += u64::from(input.byte());
        if input.is_empty() {
            return;
        }
    }
}

fn answers(input: &mut Input<'_>) {
    let (mut gateway, peer) = noise::gateway(0);
    gateway.connect(NOW, peer);
    let begun = gateway.take_wants();
    let initiation = begun.sent().unwrap();
    let mut state = noise::responder();
    let mut offer = [0; OFFER_BYTES];
    assert_eq!(state.read_message(&initiation[8..118], &mut offer), Ok(OFFER_BYTES));
    assert_eq!(offer[12..], [3, SHARDS]);
    let (index, choice) = (input.array::<4>(), input.array::<2>());
    let mut noise_message = [0; 50];
    assert_eq!(state.write_message(&choice, &mut noise_message), Ok(50));
    let receiver = [initiation[4], initiation[5], initiation[6], initiation[7]];
    let message = noise::laid_out(2, &[index, receiver], &noise_message);
    let taken = gateway.handle_datagram(NOW, noise::peer_address(), &message);
    let suite = match choice[0] {
        1 => Some(Suite::Aes256Gcm),
        2 => Some(Suite::ChaCha20Poly1305),
        _ => None,
    };
    let suite = suite.filter(|_| index[0] & 15 == 0 && (1..=16).contains(&choice[1]));
    assert_eq!(taken.is_ok(), suite.is_some(), "{choice:?}: {taken:?}");
    let installed = gateway.take_wants().installed();
    assert_eq!(installed.map(|(_, keys)| keys.suite()), suite);
    // The same once more is of no handshake under way.
    assert!(gateway.handle_datagram(NOW, noise::peer_address(), &message).is_err());
}
