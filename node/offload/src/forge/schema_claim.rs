//! What becomes of each field of a PersistentVolumeClaim: see [`super::schema`].

use super::check;
use super::rule::Rule::{Amounts, Anew, Carry, Drop, If, In, Refuse};
use super::rule::{Fields, fields};
use super::schema::METADATA;

const OF_HOME: &str = "says where the claim is bound at home";
const COPY: &str = "would begin with data of another volume, which the provider has not";

fields! {
    /// A claim as a whole.
    CLAIM = "PersistentVolumeClaim" {
        "apiVersion": Carry, "kind": Carry, "metadata": In(&METADATA), "spec": In(&CLAIM_SPEC),
        "status": Drop(OF_HOME),
    }
    /// What a claim asks for.
    CLAIM_SPEC = "PersistentVolumeClaimSpec" {
        "accessModes": If(&check::ONE_NODE), "dataSource": Refuse(COPY), "dataSourceRef": Refuse(COPY),
        "resources": In(&CLAIM_RESOURCES), "selector": Refuse("would choose among the provider's volumes"),
        "storageClassName": Anew("the class that the provider sells"),
        "volumeAttributesClassName": Refuse("is a class of the home cluster"),
        "volumeMode": If(&check::FILES), "volumeName": Drop(OF_HOME),
    }
    CLAIM_RESOURCES = "VolumeResourceRequirements" {
        "limits": Drop("a claim has what it requests"), "requests": Amounts("storage alone"),
    }
}
