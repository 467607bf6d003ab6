//! What a guest is answered: decided by what is known, without touching anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::{A, AAAA, CNAME, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, RecordType};
use mercato_protocol::id::ContractId;
use mercato_protocol::names::{PRIVATE, is_global};

use crate::knowledge::{Knowledge, before};
use crate::limits;
use crate::zone::{self, Found, SoughtService};

/// What is to be said to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// This is it: of the name that was asked for.
    Records(Vec<RData>),
    /// The name stands for another, which is to be looked up in its place.
    Alias(Name),
    /// There is such a name, but nothing of that type; of this domain.
    NoData(Option<Name>),
    /// There is no such name; in this domain, if it is one of home's.
    NoName(Option<Name>),
    /// That is not known yet: nothing else may be said.
    NotYet,
    /// Somebody else has to be asked.
    Elsewhere,
    /// Somebody else would have to be asked, and that is not allowed.
    Refused,
}

/// What an API server's certificate calls it in every cluster, without the cluster's domain.
const HOME_API: &str = "kubernetes.default.svc";

/// A guest that asks for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Its own address, from which it asks.
    pub guest: IpAddr,
    /// Of which lease it is.
    pub lease: ContractId,
}

/// How it is told what there is, where that is much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Another one of several is the first with each.
    pub turn: usize,
    /// The bytes of an answer: what certainly does not fit into it is left out, but for one record, which
    /// shows that there is more.
    pub room: u16,
}

/// What a guest is answered.
pub fn answer(
    known: &Knowledge,
    by: Asker,
    name: &Name,
    of: RecordType,
    telling: Telling,
) -> Answer {
    let Some(zone) = known.zones.get(&by.lease).filter(|zone| !zone.domains.is_empty()) else {
        return Answer::NotYet;
    };
    let is_srv = of == RecordType::SRV;
    let sought = if is_srv { zone::Sought::Targets } else { zone::Sought::Addresses };
    // What is no text is no name of anybody here.
    let Some(text) = lower(name) else { return Answer::NoName(None) };
    for domain in &zone.domains {
        if let Some(before) = before(&text, domain) {
            let found = zone.find(by.guest, &labels(before), sought);
            return of_home(found, domain, before, of, telling);
        }
    }
    // As who has no search list is told of it.
    if text == HOME_API {
        let found = zone.find(by.guest, &labels(HOME_API), sought);
        return of_home(found, &zone.domains[0], HOME_API, of, telling);
    }
    if let Some(address) = address_of(&text) {
        let names = zone.pointers(address);
        if !names.is_empty() {
            return pointers(names, &zone.domains[0], of, telling.room);
        }
        // Of others the provider's own servers may know names.
        if !is_global(address) {
            return Answer::NoName(None);
        }
    } else if text.ends_with(".in-addr.arpa") || text.ends_with(".ip6.arpa") {
        return Answer::NoName(None);
    }
    if text.is_empty() {
        return Answer::Refused;
    }
    // Whoever looks for an address means somebody near; a resolver asks more of the highest names.
    let is_near = !text.contains('.') && matches!(of, RecordType::A | RecordType::AAAA);
    let is_private = PRIVATE.iter().any(|domain| before(&text, domain).is_some());
    if is_private || is_near || known.is_of_this_cluster(&text) {
        return Answer::NoName(None);
    }
    // An answer to all types is long, and of no use to a guest.
    let is_forwarded = zone.forwards && of != RecordType::ANY;
    if is_forwarded { Answer::Elsewhere } else { Answer::Refused }
}

/// The Service that a name would be one of, if its namespace is not open to whoever asks.
pub(crate) fn unopened(known: &Knowledge, by: Asker, name: &Name) -> Option<SoughtService> {
    let zone = known.zones.get(&by.lease)?;
    let text = lower(name)?;
    let before = zone.domains.iter().find_map(|domain| before(&text, domain))?;
    let [service, namespace] = zone.unopened(&labels(before))?.map(str::to_owned);
    Some(SoughtService { service, namespace })
}

fn labels(before: &str) -> Vec<&str> {
    before.split('.').filter(|label| !label.is_empty()).collect()
}

fn of_home(
    found: Found<'_>,
    domain: &str,
    before: &str,
    of: RecordType,
    telling: Telling,
) -> Answer {
    let origin = || Name::from_ascii(format!("{domain}.")).ok();
    let full = |name: String| Name::from_ascii(format!("{name}.{domain}.")).ok();
    let records: Vec<RData> = match found {
        Found::Nothing => return Answer::NoName(origin()),
        Found::Unknown => return Answer::NotYet,
        Found::Alias(name) => {
            return Name::from_ascii(format!("{name}.")).map_or(Answer::NotYet, Answer::Alias);
        }
        Found::Empty if before.is_empty() && of == RecordType::SOA => {
            origin().and_then(|origin| soa(&origin)).map(RData::SOA).into_iter().collect()
        }
        Found::Empty => Vec::new(),
        Found::Text(text) if of == RecordType::TXT => {
            vec![RData::TXT(TXT::new(vec![text.to_owned()]))]
        }
        Found::Address(at) => address(at, of).into_iter().collect(),
        Found::Addresses(all) => addresses(all, of, telling),
        Found::Targets(targets) if of == RecordType::SRV => {
            let taken = targets.taken(telling.turn, telling.room);
            let weight = u16::try_from(100 / taken.of.max(1)).unwrap_or(1).max(1);
            let srv = |port, name| Some(RData::SRV(SRV::new(0, weight, port, full(name)?)));
            taken.all.iter().filter_map(|(port, name)| srv(*port, targets.full(name))).collect()
        }
        Found::Text(_) | Found::Targets(_) => Vec::new(),
    };
    if records.is_empty() { Answer::NoData(origin()) } else { Answer::Records(records) }
}

fn pointers(names: &[String], domain: &str, of: RecordType, room: u16) -> Answer {
    if of != RecordType::PTR {
        return Answer::NoData(None);
    }
    let most = usize::from(room) / limits::PTR_BYTES + 1;
    let full = names
        .iter()
        .take(most)
        .filter_map(|name| Name::from_ascii(format!("{name}.{domain}.")).ok());
    Answer::Records(full.map(|name| RData::PTR(PTR(name))).collect())
}

/// Those of the type, as many as there may be room for, in another order each time: many take the first one.
fn addresses(all: &[IpAddr], of: RecordType, telling: Telling) -> Vec<RData> {
    let those = || all.iter().filter_map(|at| address(*at, of));
    let Some(first) = telling.turn.checked_rem(those().count()) else { return Vec::new() };
    let most = usize::from(telling.room) / limits::ADDRESS_BYTES + 1;
    those().skip(first).chain(those().take(first)).take(most).collect()
}

fn address(address: IpAddr, of: RecordType) -> Option<RData> {
    match (address, of) {
        (IpAddr::V4(address), RecordType::A) => Some(RData::A(A(address))),
        (IpAddr::V6(address), RecordType::AAAA) => Some(RData::AAAA(AAAA(address))),
        (IpAddr::V4(_) | IpAddr::V6(_), _) => None,
    }
}

/// Says how long it may be kept that there is nothing.
pub(crate) fn soa(origin: &Name) -> Option<SOA> {
    let name = |text: &str| Name::from_ascii(text).ok()?.append_domain(origin).ok();
    let least = limits::TTL_S;
    Some(SOA::new(name("ns.dns")?, name("hostmaster")?, 1, 7_200, 1_800, 86_400, least))
}

/// That a name stands for another.
pub(crate) fn alias(name: Name) -> RData {
    RData::CNAME(CNAME(name))
}

/// A name without a dot at its end, lower case; none, where it has anything but letters, digits,
/// hyphens and underscores, as no name has that is looked up here.
fn lower(name: &Name) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    for label in name.iter() {
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                return None;
            }
            text.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    Some(text)
}

/// The address that a name of `in-addr.arpa` or `ip6.arpa` is about; none: it is about none.
fn address_of(name: &str) -> Option<IpAddr> {
    if let Some(labels) = name.strip_suffix(".in-addr.arpa") {
        let mut octets = labels.split('.').rev();
        let mut next = || {
            let label = octets.next()?;
            // One way to write each.
            let number: u8 = label.parse().ok()?;
            (number.to_string() == label).then_some(number)
        };
        let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
        return octets.next().is_none().then_some(address.into());
    }
    let labels = name.strip_suffix(".ip6.arpa")?;
    let (mut bits, mut count) = (0_u128, 0);
    for label in labels.split('.').rev() {
        let digit = label.chars().next().filter(|_| label.len() == 1)?.to_digit(16)?;
        (bits, count) = (bits << 4 | u128::from(digit), count + 1);
        if count > 32 {
            return None;
        }
    }
    (count == 32).then(|| Ipv6Addr::from_bits(bits).into())
}
