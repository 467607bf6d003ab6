//! What becomes of each field of a pod, a config map and a secret: one row each. A field
//! without a row is refused, and a test demands a row for each field of the current
//! Kubernetes schema. The words of the rows are those of docs/virtual-node.md, which a test
//! compares.

use super::check::{self, HOST};
use super::device_env;
use super::rule::Rule::{Amount, Anew, Baseline, Carry, Drop, Each, If, In, Noted, Refuse, Turned};
use super::rule::{Fields, fields};
use super::schema_container::{
    CLAIMS, CONFIG_MAP_NAME, CONTAINER, EPHEMERAL, FIELD_REF, IMAGE, RESOURCE_FIELD_REF, RESOURCES,
    SECRET_NAME,
};

const STORAGE: &str = "is storage that the provider does not offer";
const BOOK_KEEPING: &str = "book-keeping of home's API server";
const OF_SCHEDULER: &str = "home's scheduler has followed it";
const ENDS: &str = "the guest is deleted, with as much time as the contract promises at most";
const ACCOUNT: &str = "the guest namespace's `default`, which has no rights and no token there. \
                       Tokens are made at home for home's account, which the pod reads";
const TOKEN: &str = "a secret with a token, which is made at home and kept fresh. One for home's API \
                     server stays at home without `apiAccess: home`, one for another audience \
                     unless home's owner lets it leave. Its file is root's: where all containers \
                     are of one user it has mode 0444, where there is an `fsGroup` 0640";
const MADE_ANEW: &str = "what was made again at home is a change over there";

fields! {
    /// A pod as a whole.
    POD = "Pod" {
        "apiVersion": Carry, "kind": Carry, "metadata": In(&METADATA), "spec": In(&POD_SPEC),
        "status": Anew("home's is written from the guest's, as [PodStatus](#podstatus) says"),
    }
    /// Metadata of anything. Names are mapped; labels and annotations are chosen by
    /// [`super::metadata`].
    METADATA = "ObjectMeta" {
        "annotations": Turned("other [keys](#what-a-pod-is-at-the-provider), as far as there is room; the pod reads home's"),
        "creationTimestamp": Drop("the guest has its own"),
        "deletionGracePeriodSeconds": Anew(ENDS),
        "deletionTimestamp": Anew(ENDS),
        "finalizers": Anew("one of Mercato's, of a pod whose end somebody counts. Home's own hold the pod at home"),
        "generateName": Drop("the name that came of it passes"),
        "generation": Anew("an annotation, by which `observedGeneration` is home's"),
        "labels": Turned("other [keys](#what-a-pod-is-at-the-provider); the pod reads home's. One whose prefix has more than 236 characters is refused"),
        "managedFields": Drop(BOOK_KEEPING), "name": Carry,
        "namespace": Turned("the guest namespace; the pod reads home's"),
        "ownerReferences": Drop("owners are objects of home's, and act on the pod there"),
        "resourceVersion": Drop(BOOK_KEEPING), "selfLink": Drop(BOOK_KEEPING),
        "uid": Anew("a label. The guest has a uid of its own; the pod reads home's"),
    }
    /// What a pod is to be. Where it runs is the provider's to say.
    POD_SPEC = "PodSpec" {
        "activeDeadlineSeconds": Noted("the provider's kubelet counts from the guest's start"),
        "affinity": Anew("preferences among the contract's guests for affinity and anti-affinity of pods: sixteen terms of each, by host name, zone or region. A term with a `namespaceSelector` that names labels stays at home, and so does `nodeAffinity`, which home's scheduler has followed"),
        "automountServiceAccountToken": Anew("`false`. Home's API server has put the volume into the pod, which crosses"),
        "containers": Each(&CONTAINER),
        "dnsConfig": Anew("as [Names](#names) says"),
        "dnsPolicy": Anew("as [Names](#names) says"),
        "enableServiceLinks": Anew("`false`. A container has the variables of home's Services, as the explicit ones of its `env`, or by a config map before those of its `envFrom`; where home says `false`, those of the API server alone"),
        "ephemeralContainers": Each(&EPHEMERAL),
        "evictionResponders": Drop("evictions at the provider do not ask them"),
        "hostAliases": Each(&HOST_ALIAS), "hostIPC": Baseline(&check::NOTHING_OF_THE_NODE),
        "hostNetwork": Refuse(HOST), "hostPID": Baseline(&check::NOTHING_OF_THE_NODE),
        "hostUsers": Anew("`false` stays so; the provider's owner may set it for all guests that do not share the node's processes"),
        "hostname": Carry, "hostnameOverride": Carry, "imagePullSecrets": Each(&PULL_SECRET),
        "initContainers": Each(&CONTAINER),
        "nodeName": Anew("the node that the provider's scheduler chooses; the pod reads home's virtual node"),
        "nodeSelector": Anew("the labels of the nodes that were bought. Home's scheduler has followed home's"),
        "os": In(&POD_OS),
        "overhead": Drop("home's runtime class has written it; the provider's writes its own"),
        "preemptionPolicy": Drop(OF_SCHEDULER),
        "priority": Anew("what the priority class over there says"),
        "priorityClassName": Anew("the one that the provider's owner has for guests of the contract's class, or none. Home's scheduler has followed home's"),
        "readinessGates": Drop("home looks at them: `Ready` at home waits for them, the guest does not"),
        "resourceClaims": Refuse(CLAIMS),
        "resources": In(&RESOURCES), "restartPolicy": Carry,
        "runtimeClassName": Turned("the contract's, or for pods that ask for GPUs the provider's class for them. Refused where it names another: `is not what the contract says`"),
        "schedulerName": Drop("home's has chosen the virtual node; the node is chosen by the provider's usual one"),
        "schedulingGates": Drop("home's scheduler binds no pod that has one"),
        "schedulingGroup": Drop(OF_SCHEDULER),
        "securityContext": In(&POD_SECURITY), "serviceAccount": Anew(ACCOUNT),
        "serviceAccountName": Anew(ACCOUNT),
        "setHostnameAsFQDN": Turned("under a contract that requires isolation `hostnameOverride`, with home's full name, where that has 63 characters at most and the provider's API server is of Kubernetes 1.35 or later. Elsewhere it passes, and the full name has the guest namespace in it, and the provider's domain"),
        "shareProcessNamespace": Carry,
        "subdomain": Noted("[Names](#names) says where it is found"),
        "terminationGracePeriodSeconds": Turned("as much as the contract promises at most (event `GracePeriodShortened`)"),
        "tolerations": Anew("those for taints of the nodes that were bought and of the devices that the pod asks for. Home's hold for the virtual node's taints"),
        "topologySpreadConstraints": Anew("preferences (`ScheduleAnyway`), one for each of host name, zone and region. One by another key stays at home"),
        "volumes": Each(&VOLUME),
    }
    HOST_ALIAS = "HostAlias" { "hostnames": Carry, "ip": Carry, }
    PULL_SECRET = "LocalObjectReference" { "name": Noted(SECRET_NAME), }
    POD_OS = "PodOS" { "name": Carry, }
    POD_SECURITY = "PodSecurityContext" {
        "appArmorProfile": Baseline(&check::PROFILE), "fsGroup": Carry, "fsGroupChangePolicy": Carry,
        "runAsGroup": Carry, "runAsNonRoot": Carry, "runAsUser": Carry,
        "seLinuxChangePolicy": Carry, "seLinuxOptions": Baseline(&check::SE_LINUX),
        "seccompProfile": Baseline(&check::PROFILE), "supplementalGroups": Carry,
        "supplementalGroupsPolicy": Carry, "sysctls": Baseline(&check::SAFE_SYSCTLS),
        "windowsOptions": Refuse(HOST),
    }
    VOLUME = "Volume" {
        "awsElasticBlockStore": Refuse(STORAGE), "azureDisk": Refuse(STORAGE),
        "azureFile": Refuse(STORAGE), "cephfs": Refuse(STORAGE), "cinder": Refuse(STORAGE),
        "configMap": In(&CONFIG_MAP_VOLUME), "csi": Refuse(STORAGE),
        "downwardAPI": In(&DOWNWARD_VOLUME), "emptyDir": In(&EMPTY_DIR),
        "ephemeral": Refuse(STORAGE), "fc": Refuse(STORAGE), "flexVolume": Refuse(STORAGE),
        "flocker": Refuse(STORAGE), "gcePersistentDisk": Refuse(STORAGE),
        "gitRepo": Refuse(STORAGE), "glusterfs": Refuse(STORAGE),
        "hostPath": Baseline(&check::NOTHING_OF_THE_NODE),
        "image": In(&IMAGE_VOLUME), "iscsi": Refuse(STORAGE), "name": Carry,
        "nfs": Refuse(STORAGE), "persistentVolumeClaim": In(&CLAIM_VOLUME),
        "photonPersistentDisk": Refuse(STORAGE), "portworxVolume": Refuse(STORAGE),
        "projected": In(&PROJECTED), "quobyte": Refuse(STORAGE), "rbd": Refuse(STORAGE),
        "scaleIO": Refuse(STORAGE), "secret": In(&SECRET_VOLUME), "storageos": Refuse(STORAGE),
        "vsphereVolume": Refuse(STORAGE),
    }
    CLAIM_VOLUME = "PersistentVolumeClaimVolumeSource" {
        "claimName": If(&check::OWN_CLAIM), "readOnly": Carry,
    }
    CONFIG_MAP_VOLUME = "ConfigMapVolumeSource" {
        "defaultMode": Carry, "defaultUser": Carry, "items": Each(&KEY_TO_PATH),
        "name": Noted(CONFIG_MAP_NAME), "optional": Carry,
    }
    SECRET_VOLUME = "SecretVolumeSource" {
        "defaultMode": Carry, "defaultUser": Carry, "items": Each(&KEY_TO_PATH), "optional": Carry,
        "secretName": Noted(SECRET_NAME),
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
    EMPTY_DIR = "EmptyDirVolumeSource" { "medium": Carry, "mode": Carry, "sizeLimit": Amount, }
    IMAGE_VOLUME = "ImageVolumeSource" { "pullPolicy": Carry, "reference": Noted(IMAGE), }
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
        "items": Each(&KEY_TO_PATH), "name": Noted(CONFIG_MAP_NAME), "optional": Carry,
    }
    SECRET_PROJECTION = "SecretProjection" {
        "items": Each(&KEY_TO_PATH), "name": Noted(SECRET_NAME), "optional": Carry,
    }
    DOWNWARD_PROJECTION = "DownwardAPIProjection" { "items": Each(&DOWNWARD_FILE), }
    /// Replaced by a secret that holds a token made at home.
    TOKEN_PROJECTION = "ServiceAccountTokenProjection" {
        "audience": Turned(TOKEN), "expirationSeconds": Turned(TOKEN), "path": Carry, "user": Carry,
    }
    /// A config map as a whole. What is immutable at home may be made again there.
    CONFIG_MAP = "ConfigMap" {
        "apiVersion": Carry, "kind": Carry, "binaryData": Carry,
        "data": If(&device_env::NO_KEYS), "immutable": Drop(MADE_ANEW), "metadata": In(&METADATA),
    }
    /// A secret as a whole.
    SECRET = "Secret" {
        "apiVersion": Carry, "kind": Carry, "data": If(&device_env::NO_KEYS),
        "immutable": Drop(MADE_ANEW), "metadata": In(&METADATA),
        "stringData": If(&device_env::NO_KEYS), "type": If(&check::SECRET_TYPE),
    }
}
