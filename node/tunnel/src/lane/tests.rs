//! One lane without a device or a gateway.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use super::*;
use crate::offloads::{OffloadState, Offloads};
use crate::order;

/// One of three lanes, and the mail of all.
fn lane() -> (Lane, Vec<LaneMail>) {
    let offloads = OffloadState::new(Offloads::NONE);
    let any = "127.0.0.1:0".parse().unwrap();
    let socket = DatagramSocket::bind(any, 1, &offloads).unwrap().remove(0);
    let (device, _) = UnixDatagram::pair().unwrap();
    device.set_nonblocking(true).unwrap();
    let device = Device::of_file(File::from(OwnedFd::from(device)));
    let (lanes, mut inboxes): (Vec<_>, Vec<_>) =
        (0..3).map(|_| order::lane_mail().unwrap()).unzip();
    let inbox = inboxes.swap_remove(0);
    let parts = LaneParts { number: 0, device, socket, inbox, lanes: lanes.clone() };
    (Lane::new(parts), lanes)
}

/// A sealed packet of no session, for this shard.
fn of_no_session(shard: u8) -> Vec<u8> {
    [&[4, 0, 0, 0, shard][..], &[7; 59]].concat()
}

#[test]
fn what_came_by_another_lane_is_opened_in_its_turn_alone() {
    let (mut lane, lanes) = lane();
    let via = Via::from(std::net::SocketAddr::from(([192, 0, 2, 1], 7475)));
    for _ in 0..limits::ORDERS {
        let astray = Astray { via, each: 64, datagrams: of_no_session(0) };
        // Of more than there is room for, some are lost.
        let _ = lanes[0].astray.try_send(astray);
    }
    assert!(
        lanes[0].orders.try_send(Order::Carry(mercato_session::Order::RemoveSession(16))).is_ok(),
        "orders have room"
    );
    // On a thread with the least stack that any has.
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let turned = small.spawn(move || {
        while lane.turn(0).unwrap() {}
        lane.inbox.astray.try_take().is_none()
    });
    assert!(turned.unwrap().join().unwrap(), "all were looked at");
}
