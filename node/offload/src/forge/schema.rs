//! What becomes of each field of a pod, a config map and a secret: one row each. A field
//! without a row is refused, and a test demands a row for each field of the current
//! Kubernetes schema.

use mercato_protocol::terms::PodSecurity;
use serde_json::{Map, Value};

use super::check::{self, HOST};
use super::schema_container::{CONTAINER, EPHEMERAL, RESOURCES};
use crate::message::Refusal;

/// What becomes of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// It crosses as it is: a scalar, or a list or map of scalars.
    Carry,
    /// It stays behind, or is written anew.
    Drop,
    /// It must not be set; this is why.
    Refuse(&'static str),
    /// It crosses if this agrees, and says why not otherwise.
    If(fn(&Value) -> Result<(), &'static str>),
    /// The same, but that the pod-security level `privileged` lets all of it cross.
    Baseline(fn(&Value) -> Result<(), &'static str>),
    /// An object with rows of its own.
    In(&'static Fields),
    /// A list of such objects.
    Each(&'static Fields),
}

/// Where an object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To a guest namespace of that level: what is not allowed is refused.
    There(PodSecurity),
    /// Home again: what is not allowed is left out.
    Back,
}

/// The rows of one type.
#[derive(Debug)]
pub(super) struct Fields {
    /// The type's name in the Kubernetes schema.
    pub(super) of: &'static str,
    /// Field and rule, in the order of the schema.
    pub(super) rows: &'static [(&'static str, Rule)],
}

impl Fields {
    /// Filters an object by the rows, for a guest namespace of that level. The error names
    /// the field.
    pub(super) fn filter(&self, value: &Value, level: PodSecurity) -> Result<Value, Refusal> {
        self.walk(value, "", Way::There(level))
    }

    /// The same, for what flows back: what is not known or not allowed is left out.
    pub(super) fn select(&self, value: &Value) -> Value {
        self.walk(value, "", Way::Back).unwrap_or_default()
    }

    fn walk(&self, value: &Value, path: &str, way: Way) -> Result<Value, Refusal> {
        let object = value.as_object().ok_or_else(|| refusal(path, "is not an object"))?;
        let mut kept = Map::new();
        for (name, value) in object {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let rule = self.rows.iter().find(|(row, _)| row == name).map(|(_, rule)| *rule);
            match rule.unwrap_or(Refuse("is not known here")).apply(value, &path, way) {
                Ok(Some(value)) => drop(kept.insert(name.clone(), value)),
                Ok(None) => {}
                Err(refusal) if way != Way::Back => return Err(refusal),
                Err(_) => {}
            }
        }
        Ok(Value::Object(kept))
    }
}

impl Rule {
    fn apply(self, value: &Value, path: &str, way: Way) -> Result<Option<Value>, Refusal> {
        if is_unset(value) && !matches!(self, Self::Carry | Self::If(_) | Self::Baseline(_)) {
            return Ok(matches!(self, Self::In(_) | Self::Each(_)).then(|| value.clone()));
        }
        match self {
            Self::Carry if is_flat(value) => Ok(Some(value.clone())),
            Self::Carry => Err(refusal(path, "is not a plain value")),
            Self::Drop => Ok(None),
            Self::Refuse(reason) => Err(refusal(path, reason)),
            Self::Baseline(_) if way == Way::There(PodSecurity::Privileged) => {
                Ok(Some(value.clone()))
            }
            Self::If(agrees) | Self::Baseline(agrees) => match agrees(value) {
                Ok(()) => Ok(Some(value.clone())),
                Err(reason) => Err(refusal(path, reason)),
            },
            Self::In(fields) => fields.walk(value, path, way).map(Some),
            Self::Each(fields) => {
                let list = value.as_array().ok_or_else(|| refusal(path, "is not a list"))?;
                let walk = |(n, value)| fields.walk(value, &format!("{path}[{n}]"), way);
                let kept: Result<Vec<_>, _> = list.iter().enumerate().map(walk).collect();
                kept.map(|kept| Some(Value::Array(kept)))
            }
        }
    }
}

/// Absent in all but name: null, false, zero, empty.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn is_flat(value: &Value) -> bool {
    let scalar = |value: &Value| !value.is_array() && !value.is_object();
    match value {
        Value::Array(list) => list.iter().all(scalar),
        Value::Object(map) => map.values().all(scalar),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

pub(super) fn refusal(path: &str, reason: impl Into<String>) -> Refusal {
    Refusal { path: path.to_owned(), reason: reason.into() }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $of:literal { $($field:literal: $rule:expr,)* })*) => {
        $($(#[$doc])* pub(super) static $name: Fields =
            Fields { of: $of, rows: &[$(($field, $rule)),*] };)*
    };
}
pub(super) use fields;

use Rule::{Baseline, Carry, Drop, Each, If, In, Refuse};

pub(super) const CLAIMS: &str = "device claims cannot leave home yet";
pub(super) const AIM: &str = "may only aim at the pod itself";
const STORAGE: &str = "is storage that the provider does not offer";

fields! {
    /// A pod as a whole.
    POD = "Pod" {
        "apiVersion": Carry, "kind": Carry, "metadata": In(&METADATA), "spec": In(&POD_SPEC),
        "status": Drop,
    }
    /// Metadata of anything. Names are mapped; labels and annotations are chosen by
    /// [`super::metadata`].
    METADATA = "ObjectMeta" {
        "annotations": Carry, "creationTimestamp": Drop, "deletionGracePeriodSeconds": Drop,
        "deletionTimestamp": Drop, "finalizers": Drop, "generateName": Drop,
        "generation": Drop, "labels": Carry, "managedFields": Drop, "name": Carry,
        "namespace": Carry, "ownerReferences": Drop, "resourceVersion": Drop,
        "selfLink": Drop, "uid": Drop,
    }
    /// What a pod is to be. Where it runs is the provider's to say, hence all the drops.
    POD_SPEC = "PodSpec" {
        "activeDeadlineSeconds": Carry, "affinity": Drop,
        "automountServiceAccountToken": Drop, "containers": Each(&CONTAINER),
        "dnsConfig": Drop, "dnsPolicy": Drop, "enableServiceLinks": Drop,
        "ephemeralContainers": Each(&EPHEMERAL),
        "evictionResponders": Drop,
        "hostAliases": Each(&HOST_ALIAS), "hostIPC": Baseline(check::nothing_of_the_node), "hostNetwork": Refuse(HOST),
        "hostPID": Baseline(check::nothing_of_the_node), "hostUsers": Drop, "hostname": Carry,
        "hostnameOverride": Carry, "imagePullSecrets": Each(&LOCAL_OBJECT),
        "initContainers": Each(&CONTAINER), "nodeName": Drop, "nodeSelector": Drop,
        "os": In(&POD_OS), "overhead": Drop, "preemptionPolicy": Drop, "priority": Drop,
        "priorityClassName": Drop, "readinessGates": Drop, "resourceClaims": Refuse(CLAIMS),
        "resources": In(&RESOURCES), "restartPolicy": Carry, "runtimeClassName": Carry,
        "schedulerName": Drop, "schedulingGates": Drop, "schedulingGroup": Drop,
        "securityContext": In(&POD_SECURITY), "serviceAccount": Drop,
        "serviceAccountName": Drop, "setHostnameAsFQDN": Carry,
        "shareProcessNamespace": Carry, "subdomain": Carry,
        "terminationGracePeriodSeconds": Carry, "tolerations": Drop,
        "topologySpreadConstraints": Drop, "volumes": Each(&VOLUME),
    }
    HOST_ALIAS = "HostAlias" { "hostnames": Carry, "ip": Carry, }
    LOCAL_OBJECT = "LocalObjectReference" { "name": Carry, }
    POD_OS = "PodOS" { "name": Carry, }
    POD_SECURITY = "PodSecurityContext" {
        "appArmorProfile": Baseline(check::profile), "fsGroup": Carry, "fsGroupChangePolicy": Carry,
        "runAsGroup": Carry, "runAsNonRoot": Carry, "runAsUser": Carry,
        "seLinuxChangePolicy": Carry, "seLinuxOptions": Baseline(check::se_linux),
        "seccompProfile": Baseline(check::profile), "supplementalGroups": Carry,
        "supplementalGroupsPolicy": Carry, "sysctls": Baseline(check::sysctls),
        "windowsOptions": Refuse(HOST),
    }
    VOLUME = "Volume" {
        "awsElasticBlockStore": Refuse(STORAGE), "azureDisk": Refuse(STORAGE),
        "azureFile": Refuse(STORAGE), "cephfs": Refuse(STORAGE), "cinder": Refuse(STORAGE),
        "configMap": In(&CONFIG_MAP_VOLUME), "csi": Refuse(STORAGE),
        "downwardAPI": In(&DOWNWARD_VOLUME), "emptyDir": In(&EMPTY_DIR),
        "ephemeral": Refuse(STORAGE), "fc": Refuse(STORAGE), "flexVolume": Refuse(STORAGE),
        "flocker": Refuse(STORAGE), "gcePersistentDisk": Refuse(STORAGE),
        "gitRepo": Refuse(STORAGE), "glusterfs": Refuse(STORAGE), "hostPath": Baseline(check::nothing_of_the_node),
        "image": In(&IMAGE_VOLUME), "iscsi": Refuse(STORAGE), "name": Carry,
        "nfs": Refuse(STORAGE), "persistentVolumeClaim": Refuse(STORAGE),
        "photonPersistentDisk": Refuse(STORAGE), "portworxVolume": Refuse(STORAGE),
        "projected": In(&PROJECTED), "quobyte": Refuse(STORAGE), "rbd": Refuse(STORAGE),
        "scaleIO": Refuse(STORAGE), "secret": In(&SECRET_VOLUME), "storageos": Refuse(STORAGE),
        "vsphereVolume": Refuse(STORAGE),
    }
    CONFIG_MAP_VOLUME = "ConfigMapVolumeSource" {
        "defaultMode": Carry, "defaultUser": Carry, "items": Each(&KEY_TO_PATH), "name": Carry, "optional": Carry,
    }
    SECRET_VOLUME = "SecretVolumeSource" {
        "defaultMode": Carry, "defaultUser": Carry, "items": Each(&KEY_TO_PATH), "optional": Carry,
        "secretName": Carry,
    }
    KEY_TO_PATH = "KeyToPath" {
        "key": Carry, "mode": Carry, "path": Carry, "user": Carry,
    }
    DOWNWARD_VOLUME = "DownwardAPIVolumeSource" {
        "defaultMode": Carry, "defaultUser": Carry, "items": Each(&DOWNWARD_FILE),
    }
    DOWNWARD_FILE = "DownwardAPIVolumeFile" {
        "fieldRef": In(&FIELD_REF), "mode": Carry, "path": Carry,
        "resourceFieldRef": In(&RESOURCE_FIELD_REF), "user": Carry,
    }
    FIELD_REF = "ObjectFieldSelector" { "apiVersion": Carry, "fieldPath": Carry, }
    RESOURCE_FIELD_REF = "ResourceFieldSelector" {
        "containerName": Carry, "divisor": Carry, "resource": Carry,
    }
    EMPTY_DIR = "EmptyDirVolumeSource" { "medium": Carry, "mode": Carry, "sizeLimit": Carry, }
    IMAGE_VOLUME = "ImageVolumeSource" { "pullPolicy": Carry, "reference": Carry, }
    PROJECTED = "ProjectedVolumeSource" {
        "defaultMode": Carry, "defaultUser": Carry, "sources": Each(&PROJECTION),
    }
    PROJECTION = "VolumeProjection" {
        "clusterTrustBundle": Refuse("is a trust bundle of the home cluster"),
        "configMap": In(&CONFIG_MAP_PROJECTION), "downwardAPI": In(&DOWNWARD_PROJECTION),
        "podCertificate": Refuse("is a certificate of the home cluster"),
        "secret": In(&SECRET_PROJECTION), "serviceAccountToken": In(&TOKEN_PROJECTION),
    }
    CONFIG_MAP_PROJECTION = "ConfigMapProjection" {
        "items": Each(&KEY_TO_PATH), "name": Carry, "optional": Carry,
    }
    SECRET_PROJECTION = "SecretProjection" {
        "items": Each(&KEY_TO_PATH), "name": Carry, "optional": Carry,
    }
    DOWNWARD_PROJECTION = "DownwardAPIProjection" { "items": Each(&DOWNWARD_FILE), }
    /// Replaced by a secret that holds a token made at home.
    TOKEN_PROJECTION = "ServiceAccountTokenProjection" {
        "audience": Carry, "expirationSeconds": Carry, "path": Carry, "user": Carry,
    }
    /// A config map as a whole. What is immutable at home may be made again there.
    CONFIG_MAP = "ConfigMap" {
        "apiVersion": Carry, "kind": Carry, "binaryData": Carry, "data": Carry,
        "immutable": Drop, "metadata": In(&METADATA),
    }
    /// A secret as a whole.
    SECRET = "Secret" {
        "apiVersion": Carry, "kind": Carry, "data": Carry, "immutable": Drop,
        "metadata": In(&METADATA), "stringData": Carry, "type": If(check::secret_type),
    }
}
