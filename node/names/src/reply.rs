//! What goes back to a guest: a whole message of DNS, within the size that it takes.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record};
use hickory_proto::serialize::binary::{BinEncodable as _, BinEncoder};

use crate::answer::soa;
use crate::limits;

/// A question that may be answered.
pub(crate) struct Question {
    pub(crate) message: Message,
}

/// What is read from a guest.
pub(crate) enum Read {
    /// One question, of the Internet.
    Question(Box<Question>),
    /// Something else, which is answered so.
    Wrong(Vec<u8>),
    /// Nothing that anybody is answered.
    Noise,
}

/// What is to be said of a question.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) code: ResponseCode,
    pub(crate) answers: Vec<Record>,
    pub(crate) authorities: Vec<Record>,
    pub(crate) is_own: bool,
}

/// Of a header, its length and where it stands what follows (RFC 1035, section 4.1.1).
const HEADER: usize = 12;
const IS_ANSWER: u8 = 0x80;

impl Said {
    pub(crate) fn failed() -> Self {
        Self::only(ResponseCode::ServFail)
    }

    pub(crate) fn only(code: ResponseCode) -> Self {
        Self { code, answers: Vec::new(), authorities: Vec::new(), is_own: false }
    }

    /// Of our own knowledge: nothing, in a domain.
    pub(crate) fn nothing(code: ResponseCode, origin: Option<Name>) -> Self {
        let record = origin.and_then(|origin| {
            let data = RData::SOA(soa(&origin)?);
            Some(Record::from_rdata(origin, limits::TTL_S, data))
        });
        let authorities = record.into_iter().collect();
        Self { code, answers: Vec::new(), authorities, is_own: true }
    }

    /// Of our own knowledge: these, of that name.
    pub(crate) fn records(name: &Name, data: Vec<RData>) -> Self {
        let record = |data| Record::from_rdata(name.clone(), limits::TTL_S, data);
        let answers = data.into_iter().map(record).collect();
        Self { code: ResponseCode::NoError, answers, authorities: Vec::new(), is_own: true }
    }

    /// With what comes before: names that stand for others.
    pub(crate) fn after(mut self, mut before: Vec<Record>) -> Self {
        before.append(&mut self.answers);
        self.answers = before;
        self
    }
}

impl Question {
    /// Reads what a guest has sent. Counts are looked at before anything is allocated for them.
    pub(crate) fn read(bytes: &[u8]) -> Read {
        let Some(header) = bytes.get(..HEADER) else { return Read::Noise };
        if header[2] & IS_ANSWER != 0 {
            return Read::Noise;
        }
        let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let is_plain = count(4) == 1 && count(6) == 0 && count(8) == 0 && count(10) <= 1;
        let wrong = |code| {
            let id = u16::from_be_bytes([header[0], header[1]]);
            let op_code = OpCode::from_u8(header[2] >> 3 & 0xf);
            Message::error_msg(id, op_code, code).to_vec().map_or(Read::Noise, Read::Wrong)
        };
        if header[2] >> 3 & 0xf != 0 {
            return wrong(ResponseCode::NotImp);
        }
        let parsed = is_plain.then(|| Message::from_vec(bytes).ok()).flatten();
        let Some(message) = parsed else { return wrong(ResponseCode::FormErr) };
        let is_of_internet = message.queries.iter().all(|it| it.query_class == DNSClass::IN);
        let known = message.edns.as_ref().is_none_or(|edns| edns.version() == 0);
        let question = Self { message };
        match (is_of_internet, known) {
            (true, true) => Read::Question(Box::new(question)),
            (true, false) => {
                question.refused(ResponseCode::BADVERS).map_or(Read::Noise, Read::Wrong)
            }
            (false, _) => question.refused(ResponseCode::Refused).map_or(Read::Noise, Read::Wrong),
        }
    }

    fn refused(&self, code: ResponseCode) -> Option<Vec<u8>> {
        self.reply(Said::only(code), limits::PLAIN_ANSWER_BYTES)
    }

    /// How large an answer by UDP may be.
    pub(crate) fn room(&self) -> u16 {
        let own = self.message.edns.as_ref().map(Edns::max_payload);
        own.map_or(limits::PLAIN_ANSWER_BYTES, |own| {
            own.clamp(limits::PLAIN_ANSWER_BYTES, limits::ANSWER_BYTES)
        })
    }

    /// The answer, of at most so many bytes: what does not fit is left out, and that is said.
    pub(crate) fn reply(&self, said: Said, room: u16) -> Option<Vec<u8>> {
        let asked = &self.message;
        let mut reply = Message::new(asked.metadata.id, MessageType::Response, OpCode::Query);
        let head = &mut reply.metadata;
        head.recursion_desired = asked.metadata.recursion_desired;
        head.recursion_available = true;
        head.checking_disabled = asked.metadata.checking_disabled;
        head.authoritative = said.is_own;
        head.response_code = said.code;
        reply.queries.clone_from(&asked.queries);
        (reply.answers, reply.authorities) = (said.answers, said.authorities);
        if asked.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(limits::ANSWER_BYTES);
            reply.set_edns(edns);
        }
        let mut bytes = Vec::with_capacity(limits::PLAIN_ANSWER_BYTES.into());
        let mut encoder = BinEncoder::new(&mut bytes);
        encoder.set_max_size(room);
        reply.emit(&mut encoder).ok()?;
        Some(bytes)
    }
}
