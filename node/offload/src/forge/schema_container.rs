//! The rows of containers: see [`super::schema`].

use super::check::{self, HOST};
use super::device_env;
use super::rule::Rule::{Amount, Amounts, Baseline, Carry, Each, If, In, Noted, Refuse, Turned};
use super::rule::{Fields, fields};

pub(super) const CLAIMS: &str = "device claims cannot leave home yet";
const AIM: &str = "may only aim at the pod itself";
const BLOCK: &str = "is a block device, which the provider does not offer";
pub(super) const CONFIG_MAP_NAME: &str =
    "`kube-root-ca.crt` is `mercato-home-root-ca.crt` over there";
pub(super) const SECRET_NAME: &str = "`mercato-gate` is `mercato-home-gate` over there";
pub(super) const IMAGE: &str = "refused where it is of the repository for which the provider's nodes \
                                need a login of the provider's own";
const CONTAINER_NAME: &str = "refused where it is `mercato-gate`";
const GRACE: &str = "as much as the contract promises at most";

fields! {
    /// A container, initial ones and sidecars included.
    CONTAINER = "Container" {
        "args": Carry, "command": Carry, "env": Each(&ENV), "envFrom": Each(&ENV_FROM),
        "image": Noted(IMAGE), "imagePullPolicy": Carry, "lifecycle": In(&LIFECYCLE),
        "livenessProbe": In(&PROBE), "name": Noted(CONTAINER_NAME), "ports": Each(&PORT),
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
        "image": Noted(IMAGE), "imagePullPolicy": Carry, "lifecycle": In(&LIFECYCLE),
        "livenessProbe": In(&PROBE), "name": Noted(CONTAINER_NAME), "ports": Each(&PORT),
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
    ENV = "EnvVar" {
        "name": Noted("refused where it names devices of the node, as `NVIDIA_VISIBLE_DEVICES` does, with another value than `void` or `none`; `all` is what the container asks for"),
        "value": Carry, "valueFrom": In(&ENV_SOURCE),
    }
    ENV_SOURCE = "EnvVarSource" {
        "configMapKeyRef": In(&CONFIG_MAP_KEY), "fieldRef": In(&FIELD_REF),
        "fileKeyRef": In(&FILE_KEY), "resourceFieldRef": In(&RESOURCE_FIELD_REF),
        "secretKeyRef": In(&SECRET_KEY),
    }
    CONFIG_MAP_KEY = "ConfigMapKeySelector" {
        "key": Carry, "name": Noted(CONFIG_MAP_NAME), "optional": Carry,
    }
    SECRET_KEY = "SecretKeySelector" {
        "key": Carry, "name": Noted(SECRET_NAME), "optional": Carry,
    }
    FILE_KEY = "FileKeySelector" {
        "key": Carry, "optional": Carry, "path": Carry, "volumeName": Carry,
    }
    ENV_FROM = "EnvFromSource" {
        "configMapRef": In(&CONFIG_MAP_ENV), "prefix": If(&device_env::NO_PREFIX), "secretRef": In(&SECRET_ENV),
    }
    CONFIG_MAP_ENV = "ConfigMapEnvSource" { "name": Noted(CONFIG_MAP_NAME), "optional": Carry, }
    SECRET_ENV = "SecretEnvSource" { "name": Noted(SECRET_NAME), "optional": Carry, }
    RESOURCES = "ResourceRequirements" {
        "claims": Refuse(CLAIMS),
        "limits": Amounts("what neither a container nor its pod limits is limited by what was bought"),
        "requests": Amounts("a container without asks for as much as its limit, or for nothing"),
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
        "terminationGracePeriodSeconds": Turned(GRACE), "timeoutSeconds": Carry,
    }
    EXEC = "ExecAction" { "command": Carry, }
    HTTP_GET = "HTTPGetAction" {
        "host": Refuse(AIM), "httpHeaders": Each(&HTTP_HEADER), "path": Carry, "port": Carry,
        "protocol": Carry, "scheme": Carry,
    }
    HTTP_HEADER = "HTTPHeader" { "name": Carry, "value": Carry, }
    TCP_SOCKET = "TCPSocketAction" { "host": Refuse(AIM), "port": Carry, }
    SLEEP = "SleepAction" { "seconds": Turned("as much as the guest's grace period at most"), }
    GRPC = "GRPCAction" { "mode": Carry, "port": Carry, "service": Carry, }
    SECURITY = "SecurityContext" {
        "allowPrivilegeEscalation": Carry, "appArmorProfile": Baseline(&check::PROFILE),
        "capabilities": Baseline(&check::ADDED_CAPABILITIES), "privileged": Baseline(&check::NOTHING_OF_THE_NODE),
        "procMount": Baseline(&check::PROC_MOUNT), "readOnlyRootFilesystem": Carry,
        "runAsGroup": Carry, "runAsNonRoot": Carry, "runAsUser": Carry,
        "seLinuxOptions": Baseline(&check::SE_LINUX), "seccompProfile": Baseline(&check::PROFILE),
        "windowsOptions": Refuse(HOST),
    }
    MOUNT = "VolumeMount" {
        "bindMountOptions": Carry,
        "mountPath": Carry, "mountPropagation": Baseline(&check::PROPAGATION), "name": Carry,
        "readOnly": Carry, "recursiveReadOnly": Carry, "subPath": Carry, "subPathExpr": Carry,
    }
    FIELD_REF = "ObjectFieldSelector" {
        "apiVersion": Carry,
        "fieldPath": Turned("what differs over there is read from an annotation that has home's value; `status.hostIP` and `hostIPs` are the virtual node's address. `status.podIP` and `podIPs` are home's under a contract that requires isolation, and the provider's otherwise"),
    }
    RESOURCE_FIELD_REF = "ResourceFieldSelector" {
        "containerName": Carry, "divisor": Amount,
        "resource": Noted("a limit that is not set is what the virtual node has; in a variable, the limit of the whole pod if that has one"),
    }
}
