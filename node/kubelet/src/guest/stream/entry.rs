//! What home may have of a guest that a gate holds back, judged by the guest pod as it is stored when
//! that is asked for.

use mercato_offload::forge::{Passage, gate, passage};
use mercato_protocol::kubelet_stream::{RefusedReason, What};
use serde_json::Value;

/// That home may have this of the guest: nothing of its gate, ever; and before that has let the guest
/// through, nobody gets into it or connects to it.
///
/// # Errors
/// It may not, or not yet: why, also for a person.
pub(super) fn check(guest: &Value, what: &What) -> Result<(), (RefusedReason, &'static str)> {
    let (container, enters) = match what {
        What::Logs(logs) => (logs.container.as_str(), false),
        What::Exec(exec) => (exec.attach.container.as_str(), true),
        What::Attach(attach) => (attach.container.as_str(), true),
        What::PortForward { .. } => ("", true),
    };
    if container == gate::CONTAINER {
        return Err((RefusedReason::NotFound, "no such container over there"));
    }
    match passage(guest) {
        Passage::Held if enters => Err((RefusedReason::Unavailable, NOT_CONFIRMED)),
        Passage::Held | Passage::Open | Passage::Ungated => Ok(()),
    }
}

const NOT_CONFIRMED: &str = "the guest is not confirmed yet: its provider has still to confirm that it \
    is isolated; try again in a moment";

#[cfg(test)]
mod tests {
    use mercato_protocol::kubelet_stream::{Attach, Exec, Logs};
    use serde_json::json;

    use super::*;

    #[test]
    fn nobody_enters_a_guest_before_its_gate_is_through() {
        let inside = |container: &str| {
            let attach = Attach { container: container.into(), ..Attach::default() };
            let exec = Exec { command: vec!["sh".into()], attach: attach.clone() };
            [What::Exec(exec), What::Attach(attach)]
        };
        let forward = What::PortForward { ports: vec![80] };
        let logs =
            |container: &str| What::Logs(Logs { container: container.into(), ..Logs::default() });
        let pod = |state: Value| {
            json!({ "spec": { "initContainers": [{ "name": "mercato-gate" }] },
                "status": { "initContainerStatuses": [{ "name": "mercato-gate", "state": state }] } })
        };
        let open = pod(json!({ "terminated": { "exitCode": 0 } }));
        let closed = [
            pod(json!({ "running": {} })),
            pod(json!({ "terminated": { "exitCode": 137 } })),
            pod(Value::Null),
        ];
        let ways = [inside("app").as_slice(), inside("").as_slice(), &[forward]].concat();
        for what in &ways {
            assert_eq!(check(&open, what), Ok(()), "{what:?}");
            assert_eq!(check(&json!({}), what), Ok(()), "it has no gate");
            for guest in &closed {
                let (reason, text) = check(guest, what).unwrap_err();
                assert_eq!(reason, RefusedReason::Unavailable, "{what:?}");
                assert!(text.contains("not confirmed yet"), "{text}");
                assert!(text.contains("try again"), "{text}");
            }
        }
        for guest in closed.iter().chain([&open]) {
            assert_eq!(check(guest, &logs("app")), Ok(()));
            let gates = inside("mercato-gate").into_iter().chain([logs("mercato-gate")]);
            for what in gates {
                assert_eq!(check(guest, &what).unwrap_err().0, RefusedReason::NotFound);
            }
        }
    }
}
