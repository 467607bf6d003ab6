//! Where a guest object is in this cluster.

use mercato_offload::key::{GuestKey, Item, ObjectKind};
use serde_json::Value;

use super::shared::Shared;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{CLAIM, CONFIG_MAP, ENDPOINT_SLICE, Kind, POD, SECRET, SERVICE};

/// Where a guest object is.
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) key: GuestKey,
}

impl Place {
    /// None if the home namespace is not part of the lease.
    pub(super) fn of(shared: &Shared, item: &Item) -> Option<Self> {
        let key = shared.context().guest_key(&item.key())?;
        let kind = match key.kind {
            ObjectKind::Pod => POD,
            ObjectKind::ConfigMap => CONFIG_MAP,
            ObjectKind::Secret => SECRET,
            ObjectKind::Service => SERVICE,
            ObjectKind::EndpointSlice => ENDPOINT_SLICE,
            ObjectKind::Claim => CLAIM,
            ObjectKind::Namespace | ObjectKind::ServiceAccountToken => return None,
        };
        Some(Self { kind, key })
    }

    pub(super) fn ns(&self) -> Option<&str> {
        Some(&self.key.namespace)
    }

    pub(super) async fn get(&self, shared: &Shared) -> Result<Option<Value>, Failure> {
        shared.cluster.get(self.kind, self.ns(), &self.key.name).await
    }
}
