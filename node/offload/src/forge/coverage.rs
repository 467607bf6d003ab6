//! Each field of the current Kubernetes schema has a row, and no row is without a field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::*;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::schema::{CONFIG_MAP, POD, SECRET};
use super::schema_claim::CLAIM;
use super::schema_service::{ENDPOINT_SLICE, SERVICE};
use super::schema_status::POD_STATUS;

/// A deserializer that only listens: which struct is wanted, with which fields.
#[derive(Debug)]
struct Listener;

#[derive(Debug)]
struct Heard(&'static [&'static str]);

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Heard {}

impl Error for Heard {
    fn custom<T: fmt::Display>(message: T) -> Self {
        panic!("not a struct: {message}")
    }
}

impl<'de> Deserializer<'de> for Listener {
    type Error = Heard;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Heard> {
        Err(Heard(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Heard> {
        Err(Heard(fields))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields_of<T: for<'de> Deserialize<'de>>() -> BTreeSet<&'static str> {
    match T::deserialize(Listener) {
        Ok(_) => panic!("a listener gives nothing"),
        Err(Heard(fields)) => fields.iter().copied().collect(),
    }
}

macro_rules! schema {
    ($($name:ident),* $(,)?) => {
        BTreeMap::from([$((stringify!($name), fields_of::<$name>())),*])
    };
}

#[allow(clippy::too_many_lines, reason = "a list of types")]
fn kubernetes() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let pods = schema![
        Pod,
        ConfigMap,
        Secret,
        ObjectMeta,
        PodSpec,
        HostAlias,
        LocalObjectReference,
        PodOS,
        PodSecurityContext,
        Volume,
        ConfigMapVolumeSource,
        SecretVolumeSource,
        KeyToPath,
        DownwardAPIVolumeSource,
        DownwardAPIVolumeFile,
        ObjectFieldSelector,
        ResourceFieldSelector,
        EmptyDirVolumeSource,
        ImageVolumeSource,
        ProjectedVolumeSource,
        VolumeProjection,
        ConfigMapProjection,
        SecretProjection,
        DownwardAPIProjection,
        ServiceAccountTokenProjection,
        Container,
        EphemeralContainer,
        ContainerPort,
        EnvVar,
        EnvVarSource,
        ConfigMapKeySelector,
        SecretKeySelector,
        FileKeySelector,
        EnvFromSource,
        ConfigMapEnvSource,
        SecretEnvSource,
        ResourceRequirements,
        ContainerResizePolicy,
        ContainerRestartRule,
        ContainerRestartRuleOnExitCodes,
        Lifecycle,
        LifecycleHandler,
        Probe,
        ExecAction,
        HTTPGetAction,
        HTTPHeader,
        TCPSocketAction,
        SleepAction,
        GRPCAction,
        SecurityContext,
        VolumeMount,
        PodStatus,
        PodCondition,
        ContainerStatus,
        ContainerState,
        ContainerStateRunning,
        ContainerStateTerminated,
        ContainerStateWaiting,
        ContainerUser,
        LinuxContainerUser,
        VolumeMountStatus,
    ];
    let services = schema![
        Service,
        ServiceSpec,
        ServicePort,
        SessionAffinityConfig,
        ClientIPConfig,
        EndpointSlice,
        Endpoint,
        EndpointConditions,
        EndpointPort,
    ];
    let claims = schema![
        PersistentVolumeClaim,
        PersistentVolumeClaimSpec,
        VolumeResourceRequirements,
        PersistentVolumeClaimVolumeSource
    ];
    pods.into_iter().chain(services).chain(claims).collect()
}

#[test]
fn every_field_of_the_schema_is_decided() {
    let kubernetes = kubernetes();
    let mut wrong = Vec::new();
    for root in [&POD, &CONFIG_MAP, &SECRET, &POD_STATUS, &SERVICE, &ENDPOINT_SLICE, &CLAIM] {
        root.visit(&mut |table| {
            let rows: BTreeSet<&str> = table.rows.iter().map(|(name, _)| *name).collect();
            assert_eq!(rows.len(), table.rows.len(), "{}: a field has two rows", table.of);
            let real = &kubernetes[table.of];
            for field in real.symmetric_difference(&rows) {
                let what = if real.contains(field) { "has no row" } else { "is not in the schema" };
                wrong.push(format!("{}.{field} {what}", table.of));
            }
        });
    }
    assert!(wrong.is_empty(), "decide what becomes of:\n{}", wrong.join("\n"));
}
