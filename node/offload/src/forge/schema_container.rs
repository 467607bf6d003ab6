//! The rows of containers: see [`super::schema`].

use super::check::{self, HOST};
use super::device_env;
use super::rule::Rule::{Baseline, Carry, Each, If, In, Refuse};
use super::rule::{Fields, fields};

pub(super) const CLAIMS: &str = "device claims cannot leave home yet";
const AIM: &str = "may only aim at the pod itself";
const BLOCK: &str = "is a block device, which the provider does not offer";

fields! {
    /// A container, initial ones and sidecars included.
    CONTAINER = "Container" {
        "args": Carry, "command": Carry, "env": Each(&ENV), "envFrom": Each(&ENV_FROM),
        "image": Carry, "imagePullPolicy": Carry, "lifecycle": In(&LIFECYCLE),
        "livenessProbe": In(&PROBE), "name": Carry, "ports": Each(&PORT),
        "readinessProbe": In(&PROBE), "resizePolicy": Each(&RESIZE), "resources": In(&RESOURCES),
        "restartPolicy": Carry, "restartPolicyRules": Each(&RESTART),
        "securityContext": In(&SECURITY), "startupProbe": In(&PROBE), "stdin": Carry,
        "stdinOnce": Carry, "terminationMessagePath": Carry, "terminationMessagePolicy": Carry,
        "tty": Carry, "volumeDevices": Refuse(BLOCK), "volumeMounts": Each(&MOUNT),
        "workingDir": Carry,
    }
    /// A container of `kubectl debug`. A pod cannot be made with one: whoever applies the
    /// pod puts it through the subresource.
    EPHEMERAL = "EphemeralContainer" {
        "args": Carry, "command": Carry, "env": Each(&ENV), "envFrom": Each(&ENV_FROM),
        "image": Carry, "imagePullPolicy": Carry, "lifecycle": In(&LIFECYCLE),
        "livenessProbe": In(&PROBE), "name": Carry, "ports": Each(&PORT),
        "readinessProbe": In(&PROBE), "resizePolicy": Each(&RESIZE), "resources": In(&RESOURCES),
        "restartPolicy": Carry, "restartPolicyRules": Each(&RESTART),
        "securityContext": In(&SECURITY), "startupProbe": In(&PROBE), "stdin": Carry,
        "stdinOnce": Carry, "targetContainerName": Carry, "terminationMessagePath": Carry,
        "terminationMessagePolicy": Carry, "tty": Carry, "volumeDevices": Refuse(BLOCK),
        "volumeMounts": Each(&MOUNT), "workingDir": Carry,
    }
    PORT = "ContainerPort" {
        "containerPort": Carry, "hostIP": Refuse(HOST), "hostPort": Refuse(HOST), "name": Carry,
        "protocol": Carry,
    }
    ENV = "EnvVar" { "name": Carry, "value": Carry, "valueFrom": In(&ENV_SOURCE), }
    ENV_SOURCE = "EnvVarSource" {
        "configMapKeyRef": In(&CONFIG_MAP_KEY), "fieldRef": In(&FIELD_REF),
        "fileKeyRef": In(&FILE_KEY), "resourceFieldRef": In(&RESOURCE_FIELD_REF),
        "secretKeyRef": In(&SECRET_KEY),
    }
    CONFIG_MAP_KEY = "ConfigMapKeySelector" { "key": Carry, "name": Carry, "optional": Carry, }
    SECRET_KEY = "SecretKeySelector" { "key": Carry, "name": Carry, "optional": Carry, }
    FILE_KEY = "FileKeySelector" {
        "key": Carry, "optional": Carry, "path": Carry, "volumeName": Carry,
    }
    ENV_FROM = "EnvFromSource" {
        "configMapRef": In(&CONFIG_MAP_ENV), "prefix": If(device_env::no_prefix), "secretRef": In(&SECRET_ENV),
    }
    CONFIG_MAP_ENV = "ConfigMapEnvSource" { "name": Carry, "optional": Carry, }
    SECRET_ENV = "SecretEnvSource" { "name": Carry, "optional": Carry, }
    RESOURCES = "ResourceRequirements" {
        "claims": Refuse(CLAIMS), "limits": Carry, "requests": Carry,
    }
    RESIZE = "ContainerResizePolicy" { "resourceName": Carry, "restartPolicy": Carry, }
    RESTART = "ContainerRestartRule" { "action": Carry, "exitCodes": In(&EXIT_CODES), }
    EXIT_CODES = "ContainerRestartRuleOnExitCodes" { "operator": Carry, "values": Carry, }
    LIFECYCLE = "Lifecycle" {
        "postStart": In(&HANDLER), "preStop": In(&HANDLER), "stopSignal": Carry,
    }
    HANDLER = "LifecycleHandler" {
        "exec": In(&EXEC), "httpGet": In(&HTTP_GET), "sleep": In(&SLEEP),
        "tcpSocket": In(&TCP_SOCKET),
    }
    PROBE = "Probe" {
        "exec": In(&EXEC), "failureThreshold": Carry, "grpc": In(&GRPC),
        "httpGet": In(&HTTP_GET), "initialDelaySeconds": Carry, "periodSeconds": Carry,
        "successThreshold": Carry, "tcpSocket": In(&TCP_SOCKET),
        "terminationGracePeriodSeconds": Carry, "timeoutSeconds": Carry,
    }
    EXEC = "ExecAction" { "command": Carry, }
    HTTP_GET = "HTTPGetAction" {
        "host": Refuse(AIM), "httpHeaders": Each(&HTTP_HEADER), "path": Carry, "port": Carry,
        "protocol": Carry, "scheme": Carry,
    }
    HTTP_HEADER = "HTTPHeader" { "name": Carry, "value": Carry, }
    TCP_SOCKET = "TCPSocketAction" { "host": Refuse(AIM), "port": Carry, }
    SLEEP = "SleepAction" { "seconds": Carry, }
    GRPC = "GRPCAction" { "mode": Carry, "port": Carry, "service": Carry, }
    SECURITY = "SecurityContext" {
        "allowPrivilegeEscalation": Carry, "appArmorProfile": Baseline(check::profile),
        "capabilities": Baseline(check::capabilities), "privileged": Baseline(check::nothing_of_the_node),
        "procMount": Baseline(check::proc_mount), "readOnlyRootFilesystem": Carry,
        "runAsGroup": Carry, "runAsNonRoot": Carry, "runAsUser": Carry,
        "seLinuxOptions": Baseline(check::se_linux), "seccompProfile": Baseline(check::profile),
        "windowsOptions": Refuse(HOST),
    }
    MOUNT = "VolumeMount" {
        "bindMountOptions": Carry,
        "mountPath": Carry, "mountPropagation": Baseline(check::propagation), "name": Carry,
        "readOnly": Carry, "recursiveReadOnly": Carry, "subPath": Carry, "subPathExpr": Carry,
    }
    FIELD_REF = "ObjectFieldSelector" { "apiVersion": Carry, "fieldPath": Carry, }
    RESOURCE_FIELD_REF = "ResourceFieldSelector" {
        "containerName": Carry, "divisor": Carry, "resource": Carry,
    }
}
