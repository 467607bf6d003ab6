//! How long a guest may take to end. The provider's scheduler, drains and evictions wait for
//! it, whoever deletes the guest, so that it is bounded where the guest is made.

use mercato_protocol::terms::Class;
use serde_json::{Value, json};

use super::refs::{visit_containers, within};
use crate::limits;

/// Where a pod and a probe say it.
const GRACE: &str = "terminationGracePeriodSeconds";

/// What a pod has that does not say it.
const USUAL_S: u64 = 30;

/// How long guests of a contract may take at most, in seconds: as long as its notice, since
/// nobody has been promised more; and those of a spot contract, which may be displaced at
/// once, as long as any pod that says nothing.
pub fn longest_grace_s(class: Class, notice_s: u64) -> u64 {
    match class {
        Class::Spot => USUAL_S,
        Class::Reserved => notice_s.clamp(1, limits::GRACE_S),
    }
}

/// That a guest has less time than its pod asks for, and what changes it, in words for its owner; none
/// if it has what it asks for.
pub(super) fn shortened(home: &Value, longest_s: u64) -> Option<(String, String)> {
    let asked = home["spec"][GRACE].as_u64().filter(|asked| *asked > longest_s)?;
    let cause = format!("is {longest_s} here, not {asked}: the contract promises no more");
    // Of a spot contract no notice counts.
    let line = match asked <= limits::GRACE_S {
        true => format!(
            "set it to {longest_s}, or buy with the selector class=reserved, reclaim>={asked}s"
        ),
        false => format!("set it to {longest_s}"),
    };
    Some((cause, line))
}

/// Bounds the grace of a pod, of its probes, and what its hooks may sleep of it.
pub(super) fn shorten(spec: &mut Value, longest_s: u64) {
    let own = spec[GRACE].as_u64().unwrap_or(USUAL_S).min(longest_s);
    spec[GRACE] = json!(own);
    visit_containers(spec, &mut |container| {
        for probe in ["livenessProbe", "startupProbe"] {
            within(container, probe, &mut |probe| at_most(probe, GRACE, longest_s));
        }
        for hook in ["preStop", "postStart"] {
            within(container, "lifecycle", &mut |lifecycle| {
                within(lifecycle, hook, &mut |hook| {
                    within(hook, "sleep", &mut |sleep| at_most(sleep, "seconds", own));
                });
            });
        }
    });
}

fn at_most(object: &mut Value, field: &str, most: u64) {
    if object[field].as_u64().is_some_and(|asked| asked > most) {
        object[field] = json!(most);
    }
}
