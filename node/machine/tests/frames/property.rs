//! What holds of each frame, whatever was bought.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mercato_machine::interpreter::{
    BoundOf, Connection, ConnectionState, Conntrack, Facts, Frame, Guest, Outcome, Route,
    at_device, at_hook, from_guest,
};
use mercato_machine::{Hook, Side};

use crate::contract::{Place, Told};
use crate::dice::Dice;
use crate::draw;
use crate::wire::{Ip, Load, Part, Sent};
use crate::world::{DEVICE, END, Tables, World};

/// In each case.
pub(crate) const FRAMES: usize = 10;

/// Tables of one guest, and frames.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) world: World,
    frames: Vec<One>,
}

#[derive(Clone, Debug)]
struct One {
    sent: Sent,
    told: Told,
    /// The device that a route leads it to.
    device: &'static str,
}

impl Case {
    pub(crate) fn of(world: &[u8], frames: &[[u8; 24]]) -> Self {
        let world = World::of(world);
        let one = |(number, bytes): (usize, &[u8; 24])| {
            let (of_frame, rest) = bytes.split_at(18);
            let dice = &mut Dice::new(rest);
            let (is_established, is_related) =
                dice.pick(&[(false, false), (true, false), (false, true), (false, false)]);
            let told = Told {
                is_established,
                is_related,
                is_reply: dice.is(128),
                leads_back: !dice.is(40),
                is_used_up: dice.is(100),
            };
            let device = dice.pick(&[world.way(), world.way(), "out0", "mercato1", "other0"]);
            One { sent: draw::frame(&world, of_frame, number as u16), told, device }
        };
        let frames = frames.iter().enumerate().map(one).collect();
        Self { world, frames }
    }

    /// Says what does not hold.
    pub(crate) fn holds(&self, tables: &Tables) -> Result<(), String> {
        for one in &self.frames {
            one.holds(&self.world, tables).map_err(|why| format!("{why}: {one:#?}"))?;
        }
        Ok(())
    }
}

impl One {
    fn holds(&self, world: &World, tables: &Tables) -> Result<(), String> {
        let used_up = |_: &BoundOf<'_>| self.told.is_used_up;
        let facts = Facts {
            iifname: "",
            oifname: "",
            mark: 0,
            conntrack: self.conntrack(world),
            leads_back: self.told.leads_back,
            used_up: &used_up,
        };
        let bytes = self.sent.bytes();
        let frame = Frame::sent(bytes.clone(), self.sent.told());
        let own = at_device(&[&tables.own], DEVICE, Side::Out, frame.clone(), &facts);
        let may = |place| world.may_send(&self.sent, place, self.told.is_used_up);
        agrees("the guest's own rules", own, may(Place::Own))?;
        let came = || Frame::received(bytes.clone());
        let at_node = at_device(&[&tables.at_node], END, Side::In, came(), &facts);
        agrees("the rules at the node's end", at_node, may(Place::AtNode))?;
        let gets = at_device(&[&tables.own], DEVICE, Side::In, came(), &facts);
        agrees("the rules for what comes", gets, world.may_get(&self.sent))?;
        let Load::Ip(ip) = &self.sent.load else { return Ok(()) };
        self.node_holds(world, tables, ip, &facts)?;
        self.all_hold(world, tables, frame, ip, &facts)
    }

    /// By the node's own rules alone, whatever the others have let through.
    fn node_holds(
        &self,
        world: &World,
        tables: &Tables,
        ip: &Ip,
        facts: &Facts<'_>,
    ) -> Result<(), String> {
        // Conntrack puts parts together before any of these rules is asked.
        if ip.part != Part::Whole {
            return Ok(());
        }
        let [four, six] = &tables.node;
        let all = [four, six];
        let mut facts = Facts { iifname: END, ..*facts };
        let packet = Frame::packet(ip.bytes());
        let at = |hook, packet, facts: &Facts<'_>| {
            at_hook(&all, hook, packet, facts).map_err(|error| error.to_string())
        };
        if !world.own().contains(&ip.from) {
            return self.others_hold(
                world,
                ip,
                |hook, facts| at(hook, packet.clone(), facts),
                facts,
            );
        }
        let arrives = at(Hook::Prerouting, packet.clone(), &facts)?;
        if arrives.notrack {
            facts.conntrack = Conntrack::Untracked;
        }
        let arrived = arrives.has_passed();
        let comes_in = arrived && at(Hook::Input, packet.clone(), &facts)?.has_passed();
        only("the node takes it", comes_in, world.may_come_in(ip, self.told))?;
        // What is for the node itself is not sent on, whatever is said of it.
        if world.node.contains(&ip.to) {
            return Ok(());
        }
        facts.oifname = self.device;
        let goes_on = arrived
            && at(Hook::Forward, packet.clone(), &facts)?.has_passed()
            && at(Hook::Postrouting, packet.clone(), &facts)?.has_passed();
        only("the node sends it on", goes_on, world.may_go_on(ip, self.told, self.device))
    }

    /// Others call a guest by the device to other clusters alone.
    fn others_hold<'a>(
        &self,
        world: &World,
        ip: &Ip,
        at: impl Fn(Hook, &Facts<'_>) -> Result<Outcome<'a>, String>,
        facts: Facts<'_>,
    ) -> Result<(), String> {
        if !world.own().contains(&ip.to) {
            return Ok(());
        }
        for iifname in ["other0", "out0", "mercato0", "mercato1"] {
            let facts = Facts { iifname, oifname: END, ..facts };
            let passes = at(Hook::Prerouting, &facts)?.has_passed()
                && at(Hook::Forward, &facts)?.has_passed();
            let begins = !self.told.is_established && !self.told.is_related;
            let is_bounded = begins && self.told.is_used_up;
            let is_ours = iifname.starts_with("mercato");
            let may = iifname == world.way() && world.is_mapped && !is_bounded
                || !is_ours && world.may_come_back(ip, self.told);
            only(&format!("others call it by {iifname}"), passes, may)?;
        }
        Ok(())
    }

    /// By all rules together, nothing gets to where its lease does not name.
    fn all_hold(
        &self,
        world: &World,
        tables: &Tables,
        frame: Frame,
        ip: &Ip,
        facts: &Facts<'_>,
    ) -> Result<(), String> {
        // No router sends on what is from nobody, or from an address of the link.
        if ip.from.is_unspecified() || world.of_link().contains(&ip.from) {
            return Ok(());
        }
        let [four, six] = &tables.node;
        let guest = Guest {
            own: &[&tables.own],
            device: DEVICE,
            at_node: &[&tables.at_node],
            end: END,
            node: &[four, six],
        };
        let route = Route::Forward(self.device);
        let leaves = from_guest(&guest, frame, route, facts).map_err(|error| error.to_string())?;
        let may = world.may_send(&self.sent, Place::Own, self.told.is_used_up);
        let goes_out = !self.device.starts_with("mercato") && world.may_go_out(ip);
        let by_device = self.device == world.way() || goes_out;
        only("it leaves the node", leaves.has_passed(), may && by_device)?;
        let begins = !self.told.is_established && !self.told.is_related && ip.from.is_ipv4();
        let has_nodes = leaves.masquerades || !begins || !goes_out;
        only("it goes out as itself", leaves.has_passed() && !has_nodes, false)?;
        only("it has the node's address", leaves.has_passed() && leaves.masquerades, goes_out)?;
        let is_own = leaves.snat.is_none_or(|source| world.own().contains(&source));
        only("it has another source", leaves.has_passed() && !is_own, false)
    }

    fn conntrack(&self, world: &World) -> Conntrack {
        let state = match (self.told.is_established, self.told.is_related) {
            (true, _) => ConnectionState::Established,
            (false, true) => ConnectionState::Related,
            (false, false) => ConnectionState::New,
        };
        let is_four = match &self.sent.load {
            Load::Ip(ip) => ip.from.is_ipv4(),
            Load::Arp(_) | Load::Other(_) => true,
        };
        let unknown: IpAddr = match is_four {
            true => Ipv4Addr::new(198, 51, 100, 77).into(),
            false => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77).into(),
        };
        let reply_dst = world.own().into_iter().find(|own| own.is_ipv4() == is_four);
        let begins = state == ConnectionState::New;
        Conntrack::Connection(Connection {
            state,
            status: if begins { 0 } else { Connection::IPS_CONFIRMED },
            is_reply: self.told.is_reply && !begins,
            reply_dst: reply_dst.unwrap_or(unknown),
        })
    }
}

type Answer<'a> = Result<Outcome<'a>, mercato_machine::interpreter::InterpretError>;

/// Passes if and only if it may.
fn agrees(who: &str, outcome: Answer<'_>, may: bool) -> Result<(), String> {
    let outcome = outcome.map_err(|error| error.to_string())?;
    if outcome.has_passed() == may {
        return Ok(());
    }
    let may = if may { "it may pass" } else { "it may not pass" };
    Err(format!("{who}: {may}, and {:?}", outcome.reason()))
}

/// Passes only if it may.
fn only(what: &str, passes: bool, may: bool) -> Result<(), String> {
    if passes && !may { Err(format!("{what}, and may not")) } else { Ok(()) }
}
