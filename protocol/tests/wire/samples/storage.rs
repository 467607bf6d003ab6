//! Examples with storage.

use mercato_protocol::ad::AdBody;
use mercato_protocol::contract::Terms;
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};

use super::{resources, small_body, terms};

/// The same with room for volumes.
pub(crate) fn with_storage(resources: Resources) -> Resources {
    Resources { storage_bytes: 20 << 30, ..resources }
}

/// A body of a cluster that sells storage.
pub(crate) fn storage_body() -> AdBody {
    let mut body = small_body();
    body.storage_classes = vec!["ssd".into()];
    body.pools[0].total = with_storage(resources(64, 0));
    body
}

/// Terms with storage, which has a price.
pub(crate) fn storage_terms() -> Terms {
    let mut terms = terms();
    terms.quantity = with_storage(terms.quantity);
    if let Price::Posted { units, .. } = &mut terms.price {
        units.insert(Resource::Storage, UnitPrice { micros: 100, period_s: 3_600 });
    }
    terms
}
