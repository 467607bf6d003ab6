//! What becomes of each field of a pod, a config map and a secret: one row each. A field
//! without a row is refused, and a test demands a row for each field of the current
//! Kubernetes schema.

use super::check::{self, HOST};
use super::device_env;
use super::rule::Rule::{Baseline, Carry, Drop, Each, If, In, Refuse};
use super::rule::{Fields, fields};
use super::schema_container::{
    CLAIMS, CONTAINER, EPHEMERAL, FIELD_REF, RESOURCE_FIELD_REF, RESOURCES,
};

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
        "apiVersion": Carry, "kind": Carry, "binaryData": Carry,
        "data": If(device_env::no_keys), "immutable": Drop, "metadata": In(&METADATA),
    }
    /// A secret as a whole.
    SECRET = "Secret" {
        "apiVersion": Carry, "kind": Carry, "data": If(device_env::no_keys),
        "immutable": Drop, "metadata": In(&METADATA), "stringData": If(device_env::no_keys), "type": If(check::secret_type),
    }
}
