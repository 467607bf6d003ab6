//! Words of rules go to the kernel and come back as they were.

use super::*;
use mercato_machine::{Bound, Rewritten};

#[test]
fn each_word_is_read_as_it_was_written() {
    let words = [
        Expression::MetaIifname,
        Expression::MetaOifname,
        Expression::MetaMark,
        Expression::MetaL4Proto,
        Expression::MetaProtocol,
        Expression::PayloadLl { offset: 6, len: 6 },
        Expression::CtState,
        Expression::CtStatus,
        Expression::Dynset("connections".to_owned(), Bound::Connlimit(4_096)),
        Expression::Dynset("beginnings".to_owned(), Bound::Limit { rate: 256, burst: 4_096 }),
        Expression::CtDirection,
        Expression::CtReplyDst(Family::V4),
        Expression::CtReplyDst(Family::V6),
        Expression::FibSaddrIifPresent,
        Expression::PayloadNetwork { offset: 12, len: 4 },
        Expression::Immediate(vec![10, 200, 0, 1]),
        Expression::Bitwise(vec![255, 248, 0, 0]),
        Expression::CmpEq(vec![10, 200, 0, 0]),
        Expression::CmpNeq(vec![0; 16]),
        Expression::PayloadTransport { offset: 2, len: 2 },
        Expression::Lookup("pods".to_owned()),
        Expression::LookupInv("nodes".to_owned()),
        Expression::LookupDreg("here".to_owned()),
        Expression::Counter,
        Expression::Snat(Family::V6),
        Expression::Notrack,
        Expression::Masquerade,
        Expression::Verdict(Verdict::Accept),
        Expression::Verdict(Verdict::Drop),
        Expression::Verdict(Verdict::Goto("from_device".to_owned())),
        Expression::Limit { rate: 64, burst: 256 },
        Expression::Other("quota".to_owned()),
    ];
    for word in words.into_iter().chain(Rewritten::ALL.map(Expression::PayloadSet)) {
        let mut message = Message::new(0, 0, &[]);
        write(&mut message, &word);
        let bytes = message.numbered(1);
        assert_eq!(read(&bytes[super::super::message::HEADER_BYTES..]).unwrap(), word);
    }
}
