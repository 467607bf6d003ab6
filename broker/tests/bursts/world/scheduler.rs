//! The scheduler of home: pods are bound wherever there is room, and home is told of the others.

use std::collections::BTreeMap;

use mercato_broker::{BurstKey, Input, NodeChoice, NodeUse, PodDemand, Shape, WaitingPod};
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;

use super::{HOME, Pod, World, asked};
use crate::terms::platform;

impl World {
    fn is_open(&self) -> bool {
        self.closed_until_ms <= self.now_ms
    }

    /// The room that the virtual nodes have left.
    fn room(&self) -> BTreeMap<NegotiationId, Resources> {
        let home = &self.nodes[HOME].broker;
        let is_open = self.is_open();
        let runs = |id: &&NegotiationId| {
            is_open
                && home
                    .deal(id)
                    .is_some_and(|deal| matches!(deal.state(), State::Pending | State::Active))
        };
        let quantity = |id: &NegotiationId| home.deal(id).unwrap().terms().quantity.clone();
        let mut room: BTreeMap<_, _> =
            self.shown.iter().filter(runs).map(|id| (*id, quantity(id))).collect();
        for pod in self.pods.values() {
            if let Some(room) = pod.on.and_then(|on| room.get_mut(&on)) {
                *room = room.saturating_sub(&asked(pod.cpu_millis));
            }
        }
        room
    }

    /// Pods are bound wherever there is room, and home is told of the others.
    pub(super) fn schedule(&mut self) {
        let mut room = self.room();
        let mut shapes: BTreeMap<(String, u64, NodeChoice), Vec<WaitingPod>> = BTreeMap::new();
        for (uid, pod) in self.pods.iter_mut().filter(|(_, pod)| pod.on.is_none()) {
            let asks = asked(pod.cpu_millis);
            let found = room.iter_mut().find(|(_, room)| room.checked_sub(&asks).is_ok());
            let room_on = found.map(|(id, room)| {
                *room = room.saturating_sub(&asks);
                *id
            });
            let is_stuck = self.binds_none || self.stuck.contains(&pod.namespace);
            if !is_stuck && room_on.is_some() {
                pod.on = room_on;
                continue;
            }
            let key = (pod.namespace.clone(), pod.cpu_millis, pod.to.clone());
            shapes.entry(key).or_default().push(WaitingPod {
                since_ms: pod.since_ms,
                uid: uid.clone(),
                name: format!("pod-{uid}"),
                room_on: room_on.map(ContractId::from),
            });
        }
        let shape = |((namespace, cpu, to), pods): ((String, u64, NodeChoice), _)| Shape {
            key: BurstKey { namespace, platform: platform(), gpus_of: None },
            per_pod: asked(cpu),
            gpus: 0,
            to,
            pods,
        };
        let on = |id: &NegotiationId| self.pods.values().filter(|it| it.on == Some(*id)).count();
        let used = |id: &NegotiationId| {
            let pods = on(id) as u64;
            (ContractId::from(*id), NodeUse { open: self.is_open(), pods })
        };
        let nodes = self.shown.iter().map(used).collect();
        let shapes = shapes.into_iter().map(shape).collect();
        self.input(HOME, Input::Pending(Box::new(PodDemand { shapes, nodes })));
        self.bind_past_stuck();
    }

    /// What stuck pods seem to have others get.
    fn bind_past_stuck(&mut self) {
        let mut room = self.room();
        let stuck = if self.binds_none { return } else { &self.stuck };
        let may = |pod: &&mut Pod| pod.on.is_none() && !stuck.contains(&pod.namespace);
        for pod in self.pods.values_mut().filter(may) {
            let asks = asked(pod.cpu_millis);
            let found = room.iter_mut().find(|(_, room)| room.checked_sub(&asks).is_ok());
            pod.on = found.map(|(id, room)| {
                *room = room.saturating_sub(&asks);
                *id
            });
        }
    }
}
