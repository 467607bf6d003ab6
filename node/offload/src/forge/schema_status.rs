//! The rows of a pod's status: what home takes over. A field without a row is left out:
//! a newer provider must not break an older home.

use super::rule::Rule::{Anew, Carry, Drop, Each, In, Noted, Turned};
use super::rule::{Fields, fields};

const CLAIMS: &str = "devices of claims cannot leave home";
const ADDRESS: &str =
    "the address by which home knows the pod, once [the tunnel](#the-tunnel) is there";
const HOST: &str = "the virtual node's address";
const ASKED: &str = "of resources that home's pod asks for alone, and no more than it asks for now, or \
                     was said to have while it asked for that";

fields! {
    /// A guest's status. What is dropped is home's own to say.
    POD_STATUS = "PodStatus" {
        "allocatedResources": Turned(ASKED), "conditions": Each(&CONDITION),
        "containerStatuses": Each(&CONTAINER_STATUS),
        "ephemeralContainerStatuses": Each(&CONTAINER_STATUS),
        "extendedResourceClaimStatus": Drop(CLAIMS), "hostIP": Anew(HOST), "hostIPs": Anew(HOST),
        "initContainerStatuses": Each(&CONTAINER_STATUS), "message": Carry,
        "nodeAllocatableResourceClaimStatuses": Drop(CLAIMS),
        "nominatedNodeName": Anew("what home's scheduler has written"),
        "observedGeneration": Turned("home's generation that the guest was made of"),
        "phase": Noted("an end stays"), "podIP": Anew(ADDRESS), "podIPs": Anew(ADDRESS),
        "qosClass": Anew("what home's API server has written"), "reason": Carry,
        "resize": Drop("the conditions say it"), "resourceClaimStatuses": Drop(CLAIMS),
        "resources": In(&RESOURCES), "startTime": Noted("the first one stays"),
        "volumeHealth": Drop("guests have no volumes of storage"),
    }
    CONDITION = "PodCondition" {
        "lastProbeTime": Carry, "lastTransitionTime": Carry, "message": Carry,
        "observedGeneration": Carry, "reason": Carry, "status": Carry,
        "type": Turned("conditions that a kubelet owns; `Ready` is false as well where a readiness gate of home's or [the link](#services) says so. Other conditions are home's own"),
    }
    CONTAINER_STATUS = "ContainerStatus" {
        "allocatedResources": Turned(ASKED),
        "allocatedResourcesStatus": Drop("says how devices of the provider's are"), "containerID": Carry,
        "image": Carry, "imageID": Carry, "lastState": In(&STATE), "name": Carry,
        "ready": Carry, "resources": In(&RESOURCES), "restartCount": Noted("never falls, and is 1,048,576 at most"),
        "started": Carry, "state": In(&STATE), "stopSignal": Carry, "user": In(&USER),
        "volumeMounts": Each(&MOUNT_STATUS),
    }
    RESOURCES = "ResourceRequirements" {
        "claims": Drop(CLAIMS), "limits": Turned(ASKED), "requests": Turned(ASKED),
    }
    STATE = "ContainerState" {
        "running": In(&RUNNING), "terminated": In(&TERMINATED), "waiting": In(&WAITING),
    }
    RUNNING = "ContainerStateRunning" { "startedAt": Carry, }
    TERMINATED = "ContainerStateTerminated" {
        "containerID": Carry, "exitCode": Carry, "finishedAt": Carry, "message": Carry,
        "reason": Carry, "signal": Carry, "startedAt": Carry,
    }
    WAITING = "ContainerStateWaiting" { "message": Carry, "reason": Carry, }
    USER = "ContainerUser" { "linux": In(&LINUX_USER), }
    LINUX_USER = "LinuxContainerUser" { "gid": Carry, "supplementalGroups": Carry, "uid": Carry, }
    MOUNT_STATUS = "VolumeMountStatus" {
        "mountPath": Carry, "name": Carry, "readOnly": Carry, "recursiveReadOnly": Carry,
        "volumeStatus": Drop("is about images on the provider's node"),
    }
}
