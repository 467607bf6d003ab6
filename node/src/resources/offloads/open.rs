//! Whether Services of a namespace are open to guests of others, to how many contracts, and why to none.

use mercato_kubelet::crd::Strategy;
use mercato_offload::limits::OPEN_NAMESPACES;

use super::told::Told;
use crate::admin::OwnGateway;

/// The condition that says so.
pub(super) const OPEN: &str = "Open";

/// Of a namespace that names Services, or does not, with what is known of this cluster's end of all tunnels; none:
/// nothing is to be said of it.
pub(super) fn of(
    strategy: Strategy,
    opens: bool,
    namespace: &str,
    gateway: &OwnGateway,
) -> Option<Told> {
    let told = |holds, reason: &str, message: String| {
        Some(Told { holds, reason: reason.to_owned(), message })
    };
    if !opens {
        if strategy != Strategy::Local {
            return None;
        }
        let message =
            "no Service of it is open to guests of other namespaces: name them in spec.services";
        return told(false, "NothingNamed", message.to_owned());
    }
    if !gateway.enabled {
        let why = gateway.reason.as_deref().unwrap_or("set gateway.enabled: on");
        let message = format!("guests elsewhere call nothing here: there is no gateway: {why}");
        return told(false, "NoGateway", message);
    }
    let found = gateway.opened.iter().find(|open| open.namespace == namespace);
    let (contracts, left_out) = found.map_or((0, 0), |open| (open.contracts.len(), open.left_out));
    let to = match contracts {
        0 => "no contract has guests that may call them".to_owned(),
        1 => "guests of one contract may call them".to_owned(),
        many => format!("guests of {many} contracts may call them"),
    };
    match left_out {
        0 => told(true, "Opened", to),
        some => {
            let message = format!(
                "{to}; {some} more have {OPEN_NAMESPACES} open namespaces already, the first by name: name \
                 fewer callers"
            );
            told(false, "TooMany", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;

    use super::*;
    use crate::admin::OpenNamespace;

    #[test]
    fn each_state_of_what_is_open_has_its_word() {
        let gateway = |contracts: usize, left_out| {
            let contracts = vec![ContractId([1; 16]); contracts];
            let namespace = "data".to_owned();
            let open = OpenNamespace { namespace, contracts, left_out, ..OpenNamespace::default() };
            OwnGateway { enabled: true, opened: vec![open], ..OwnGateway::default() }
        };
        let says = |opens, gateway: &OwnGateway| {
            of(Strategy::Local, opens, "data", gateway).map(|it| (it.holds, it.reason, it.message))
        };
        let is = |holds: bool, reason: &str, message: &str| {
            Some((holds, reason.to_owned(), message.to_owned()))
        };
        assert_eq!(of(Strategy::Both, false, "data", &gateway(0, 0)), None);
        let (holds, reason, message) = says(false, &gateway(0, 0)).unwrap();
        assert!(
            !holds && reason == "NothingNamed" && message.contains("spec.services"),
            "{message}"
        );
        let (holds, reason, _) = says(true, &OwnGateway::default()).unwrap();
        assert_eq!((holds, &*reason), (false, "NoGateway"));
        let none = is(true, "Opened", "no contract has guests that may call them");
        assert_eq!(says(true, &gateway(0, 0)), none);
        let two = is(true, "Opened", "guests of 2 contracts may call them");
        assert_eq!(says(true, &gateway(2, 0)), two);
        let (holds, reason, message) = says(true, &gateway(1, 3)).unwrap();
        assert_eq!((holds, &*reason), (false, "TooMany"));
        assert!(message.starts_with("guests of one contract may call them; 3 more"), "{message}");
    }
}
