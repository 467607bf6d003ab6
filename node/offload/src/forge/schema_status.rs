//! The rows of a pod's status: what home takes over. A field without a row is left out:
//! a newer provider must not break an older home.

use super::rule::Rule::{Carry, Drop, Each, In};
use super::rule::{Fields, fields};

fields! {
    /// A guest's status. What is dropped is home's own to say.
    POD_STATUS = "PodStatus" {
        "allocatedResources": Carry, "conditions": Each(&CONDITION),
        "containerStatuses": Each(&CONTAINER_STATUS),
        "ephemeralContainerStatuses": Each(&CONTAINER_STATUS),
        "extendedResourceClaimStatus": Drop, "hostIP": Drop, "hostIPs": Drop,
        "initContainerStatuses": Each(&CONTAINER_STATUS), "message": Carry,
        "nodeAllocatableResourceClaimStatuses": Drop, "nominatedNodeName": Drop,
        "observedGeneration": Carry, "phase": Carry, "podIP": Drop, "podIPs": Drop,
        "qosClass": Drop, "reason": Carry, "resize": Drop, "resourceClaimStatuses": Drop,
        "resources": In(&RESOURCES), "startTime": Carry, "volumeHealth": Drop,
    }
    CONDITION = "PodCondition" {
        "lastProbeTime": Carry, "lastTransitionTime": Carry, "message": Carry,
        "observedGeneration": Carry, "reason": Carry, "status": Carry, "type": Carry,
    }
    CONTAINER_STATUS = "ContainerStatus" {
        "allocatedResources": Carry, "allocatedResourcesStatus": Drop, "containerID": Carry,
        "image": Carry, "imageID": Carry, "lastState": In(&STATE), "name": Carry,
        "ready": Carry, "resources": In(&RESOURCES), "restartCount": Carry,
        "started": Carry, "state": In(&STATE), "stopSignal": Carry, "user": In(&USER),
        "volumeMounts": Each(&MOUNT_STATUS),
    }
    RESOURCES = "ResourceRequirements" { "claims": Drop, "limits": Carry, "requests": Carry, }
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
        "volumeStatus": Drop,
    }
}
