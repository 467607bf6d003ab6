//! Frames: a message and its body come together whole, or the stream is closed.

use mercato_protocol::codec::Message as _;
use mercato_protocol::frame::{Assembly, FrameError, HEAD_BYTES, Head, Kind, chunks, message};
use mercato_protocol::limits;
use mercato_protocol::workload::Message;

use crate::samples;

/// Everything that comes out of a stream of frames.
fn run(mut stream: &[u8]) -> Result<Vec<(Message, Vec<u8>)>, FrameError> {
    let mut assembly = Assembly::default();
    let mut whole = Vec::new();
    while let Some((head, rest)) = stream.split_first_chunk::<HEAD_BYTES>() {
        let head = Head::parse(*head, limits::WORKLOAD_BYTES)?;
        let (content, rest) = rest.split_at(head.length);
        whole.extend(assembly.on_frame(head.kind, content)?);
        stream = rest;
    }
    Ok(whole)
}

fn framed(header: &Message) -> Vec<u8> {
    message(&header.to_bytes().unwrap()).unwrap()
}

#[test]
fn bodies_follow_their_messages_in_chunks() {
    for length in [0, 1, limits::CHUNK_BYTES, limits::CHUNK_BYTES + 1, limits::OBJECT_BYTES] {
        let body = vec![b' '; length];
        let header = samples::desire(&body);
        let frames: Vec<Vec<u8>> = chunks(&body).collect();
        assert_eq!(frames.len(), length.div_ceil(limits::CHUNK_BYTES));
        let stream = [framed(&header), frames.concat(), framed(&Message::Synced)].concat();
        let expected = vec![(header, body), (Message::Synced, vec![])];
        assert_eq!(run(&stream).unwrap(), expected);
    }
}

#[test]
fn a_stream_out_of_order_is_closed() {
    let header = framed(&samples::desire(b"{}"));
    let chunk = |body: &[u8]| chunks(body).collect::<Vec<_>>().concat();
    let fails = |stream: &[&[u8]]| run(&stream.concat()).unwrap_err();
    assert_eq!(fails(&[&header, &header]), FrameError::OutOfOrder);
    assert_eq!(fails(&[&chunk(b"{}")]), FrameError::OutOfOrder);
    assert_eq!(fails(&[&header, &chunk(b"{}}")]), FrameError::OutOfOrder);
    assert_eq!(fails(&[&header, &chunk(b"[]")]), FrameError::OtherBody);
    assert!(matches!(fails(&[&message(b"\xff").unwrap()]), FrameError::Codec(_)));
}

#[test]
fn a_head_is_checked_before_its_frame_is_read() {
    let parse = |bytes| Head::parse(bytes, 1_000);
    assert_eq!(parse([0, 0, 3, 232]), Ok(Head { kind: Kind::Message, length: 1_000 }));
    assert_eq!(parse([0, 0, 3, 233]), Err(FrameError::TooLong(1_001)));
    assert_eq!(parse([1, 1, 0, 0]), Ok(Head { kind: Kind::Chunk, length: limits::CHUNK_BYTES }));
    assert_eq!(parse([1, 1, 0, 1]), Err(FrameError::TooLong(limits::CHUNK_BYTES + 1)));
    assert_eq!(parse([2, 0, 0, 1]), Err(FrameError::UnknownKind(2)));
    assert_eq!(parse([0, 0, 0, 0]), Err(FrameError::Empty));
    assert_eq!(message(&vec![0; 1 << 24]), Err(FrameError::TooLong(1 << 24)));
}
