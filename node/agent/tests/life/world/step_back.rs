//! An agent that gives way to its records, since something cannot be kept.

use std::collections::BTreeSet;

use mercato_agent::{Effect, Input};
use mercato_broker::Deal;
use mercato_gossip::Interner;
use mercato_protocol::id::ContractId;

use super::{World, at};

impl World {
    /// The agent gives way to one of the records, with its leases if the input that was refused was about
    /// them, and beside all of them otherwise.
    pub(super) fn step_back(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        let (_, of_leases) = this.refuse_at.take().unwrap_or_default();
        let leased = this.agent.broker().deals().filter(|deal| of_leases && deal.is_leased());
        let mut begin: BTreeSet<ContractId> = leased.map(Deal::id).map(ContractId::from).collect();
        let begins = !begin.is_empty();
        // Nobody has such a lease.
        begin.insert(ContractId([9; 16]));
        this.agent.step_back([201; 32], Interner::new(1), this.gate.records(), &begin);
        let answer = this.agent.handle(at(self.now_ms), Input::Tick);
        if begins {
            let is_said = answer.iter().any(|effect| matches!(effect, Effect::Lease(_)));
            assert!(is_said, "it does not begin anew: {answer:?}");
            this.cluster.unfollow();
        } else {
            assert!(!answer.iter().any(Effect::is_of_leases), "leases begin anew: {answer:?}");
        }
        this.gate.pass(answer).unwrap();
        self.begin(node);
    }
}
