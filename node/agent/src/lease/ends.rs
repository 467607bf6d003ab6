//! The end of a lease in the words of those who prepare for it.

use mercato_broker::LeaseSpec;
use mercato_offload::placement::spec::{Leaving, LeavingWhy};

/// When the broker lets the lease end, and from when on home prepares for that.
pub(super) fn ends(spec: &LeaseSpec) -> Leaving {
    let said = &spec.leaving;
    let why = said.reclaimed.clone().map_or(LeavingWhy::Expires, LeavingWhy::Reclaimed);
    Leaving { from_ms: said.from_ms, at_ms: said.at_ms, why }
}
