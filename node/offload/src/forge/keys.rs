//! Under which keys the labels and annotations of a home pod stand on its guest: the one
//! function that labels, annotations and selectors go through.
//!
//! A key can steer whoever looks for it: a container runtime (`io.katacontainers.*`,
//! `org.systemd.property.*`), a network plug-in, an injector (`sidecar.istio.io/inject`), an
//! autoscaler. Nobody knows all of them, so it is the other way round: plain words and
//! Kubernetes' own keys of workloads cross as they are, every other key under a name that
//! nobody looks for. Home never sees that name: what a pod reads about itself is home's
//! (see [`super::fields`]), and selectors are translated by the same function.

use std::borrow::Cow;

use super::labels::GROUP;

/// How the prefix of a changed key begins. It ends with our group, so that neither a look at
/// the beginning of a key nor one at the end of its prefix takes it for another's.
const HOME: &str = "home.";

/// Longest prefix of a key, as Kubernetes has it.
const PREFIX: usize = 253;

/// Kubernetes' own keys of workloads: its controllers write them, and none acts on those of
/// a pod that is not its own. Those of `topology.kubernetes.io` are not among them: the
/// provider's API server overwrites them.
const WORKLOADS: [&str; 4] =
    ["app.kubernetes.io", "apps.kubernetes.io", "batch.kubernetes.io", "statefulset.kubernetes.io"];

/// Plain words that something is known to act on: Azure's pod identity, and Istio.
const STEERING: [&str; 3] = ["aadpodidbinding", "istio-injection", "istio-locality"];

/// The guest's key of a home key. Injective; a key stays as valid as it was. None if it would
/// get too long: its prefix has more than [`LONGEST`] characters.
pub(super) fn guest_key(home: &str) -> Option<Cow<'_, str>> {
    match home.split_once('/') {
        // A point makes a domain of a word: `io.katacontainers.config`, `cpu-quota.crio.io`.
        None if !home.contains('.') && !STEERING.contains(&home) => Some(home.into()),
        None => Some(format!("{HOME}{GROUP}/{home}").into()),
        Some((prefix, _)) if WORKLOADS.contains(&prefix) => Some(home.into()),
        Some((prefix, _)) if prefix.len() > LONGEST => None,
        Some((prefix, name)) => Some(format!("{HOME}{prefix}.{GROUP}/{name}").into()),
    }
}

/// Whether a key of a guest is one that `guest_key` gives: whatever else stands on a guest is
/// ours, or the provider's own.
pub fn is_homes(guest: &str) -> bool {
    let changed = guest
        .split_once('/')
        .is_some_and(|(prefix, _)| prefix.starts_with(HOME) && prefix.ends_with(GROUP));
    changed || guest_key(guest).is_some_and(|key| key == guest)
}

/// Characters of the longest prefix that crosses.
pub(super) const LONGEST: usize = PREFIX - HOME.len() - 1 - GROUP.len();

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The way back.
    fn home_key(guest: &str) -> Option<String> {
        let changed = guest.split_once('/').and_then(|(prefix, name)| {
            let inner = prefix.strip_prefix(HOME)?.strip_suffix(GROUP)?;
            match inner.strip_suffix('.') {
                None if inner.is_empty() => Some(name.to_owned()),
                None => None,
                Some(prefix) => Some(format!("{prefix}/{name}")),
            }
        });
        changed.or_else(|| (guest_key(guest)? == guest).then(|| guest.to_owned()))
    }

    /// Each family that something in a provider's cluster is known to act on.
    const STEER: &[&str] = &[
        // Container runtimes: Kata, crun, CRI-O, containerd, gVisor, CDI, NRI.
        "io.katacontainers.config.hypervisor.default_vcpus",
        "io.katacontainers.config.runtime.sandbox_cgroup_only",
        "org.systemd.property.DefaultDependencies",
        "run.oci.keep_original_groups",
        "run.oci.handler",
        "module.wasm.image/variant",
        "io.kubernetes.cri-o.userns-mode",
        "io.kubernetes.cri-o.Devices",
        "io.kubernetes.cri.untrusted-workload",
        "io.containerd.runc.v2.group",
        "cpu-quota.crio.io",
        "cpu-load-balancing.crio.io",
        "irq-load-balancing.crio.io",
        "seccomp-profile.kubernetes.cri-o.io/app",
        "dev.gvisor.spec.mount.cache.type",
        "org.criu.config",
        "cdi.k8s.io/gpu",
        "blockio.resources.beta.kubernetes.io/pod",
        "rdt.resources.beta.kubernetes.io/pod",
        // Kubernetes' own.
        "container.apparmor.security.beta.kubernetes.io/app",
        "seccomp.security.alpha.kubernetes.io/pod",
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "kubernetes.io/ingress-bandwidth",
        "kubernetes.io/config.mirror",
        "scheduler.alpha.kubernetes.io/critical-pod",
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "topology.kubernetes.io/zone",
        "pod-security.kubernetes.io/enforce",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "kubectl.kubernetes.io/default-container",
        // Networks.
        "k8s.v1.cni.cncf.io/networks",
        "v1.multus-cni.io/default-network",
        "cni.projectcalico.org/ipAddrs",
        "io.cilium.proxy-visibility",
        "policy.cilium.io/proxy-visibility",
        "k8s.ovn.org/pod-networks",
        // Injectors and meshes.
        "sidecar.istio.io/inject",
        "istio.io/rev",
        "istio-injection",
        "istio-locality",
        "traffic.sidecar.istio.io/includeOutboundIPRanges",
        "linkerd.io/inject",
        "config.linkerd.io/proxy-cpu-request",
        "consul.hashicorp.com/connect-inject",
        "vault.hashicorp.com/agent-inject",
        "kuma.io/sidecar-injection",
        "openservicemesh.io/sidecar-injection",
        "instrumentation.opentelemetry.io/inject-java",
        "admission.datadoghq.com/enabled",
        "dapr.io/enabled",
        // Identities of clouds.
        "iam.amazonaws.com/role",
        "azure.workload.identity/use",
        "aadpodidbinding",
        "iam.gke.io/gcp-service-account",
        // Monitoring, back-ups, restarts, schedulers.
        "prometheus.io/scrape",
        "co.elastic.logs/enabled",
        "backup.velero.io/backup-volumes",
        "reloader.stakater.com/match",
        "karpenter.sh/do-not-disrupt",
        "descheduler.alpha.kubernetes.io/evict",
        "kueue.x-k8s.io/queue-name",
        "scheduling.volcano.sh/queue-name",
        // Ours.
        "mercato.dev/contract",
        "mercato.dev/home-uid",
        "field.mercato.dev/0123",
    ];

    #[test]
    fn what_steers_does_not_cross_as_it_is() {
        for key in STEER.iter().copied() {
            let guest = guest_key(key).unwrap();
            assert_ne!(guest, key);
            assert!(guest.starts_with("home."), "{guest}: something may look at the beginning");
            let (prefix, _) = guest.split_once('/').unwrap();
            assert!(prefix.ends_with(".mercato.dev"), "{guest}: or at the end of the prefix");
            assert_eq!(home_key(&guest).as_deref(), Some(key));
        }
    }

    #[test]
    fn kubernetes_own_keys_of_workloads_cross_as_they_are() {
        for key in [
            "app",
            "pod-template-hash",
            "controller-revision-hash",
            "job-name",
            "app.kubernetes.io/name",
            "apps.kubernetes.io/pod-index",
            "batch.kubernetes.io/job-completion-index",
            "statefulset.kubernetes.io/pod-name",
        ] {
            assert_eq!(guest_key(key).unwrap(), key);
            assert_eq!(home_key(key).as_deref(), Some(key));
        }
    }

    #[test]
    fn our_marks_and_the_providers_keys_are_not_homes() {
        for key in ["mercato.dev/contract", "field.mercato.dev/01", "cni.projectcalico.org/podIP"] {
            assert!(!is_homes(key), "{key}");
        }
    }

    #[test]
    fn a_prefix_that_would_get_too_long_does_not_cross() {
        let key = |length: usize| format!("{}/name", "a".repeat(length));
        assert_eq!(guest_key(&key(LONGEST)).unwrap().len(), PREFIX + "/name".len());
        assert_eq!(guest_key(&key(LONGEST + 1)), None);
    }

    /// Any key, and those that look like changed ones.
    fn key() -> impl Strategy<Value = String> {
        let word = "[a-z]{1,3}(\\.[a-z]{1,3})?";
        let prefix = prop_oneof![
            proptest::sample::select(WORKLOADS.to_vec()).prop_map(str::to_owned),
            Just("mercato.dev".to_owned()),
            Just("home.mercato.dev".to_owned()),
            "(home\\.)?[a-z]{1,2}(\\.[a-z]{1,2})?(\\.mercato\\.dev)?",
        ];
        prop_oneof![word, (prefix, word).prop_map(|(prefix, name)| format!("{prefix}/{name}"))]
    }

    proptest! {
        #[test]
        fn no_two_keys_become_one(keys in proptest::collection::btree_set(key(), 0..40)) {
            let mut seen = BTreeMap::new();
            for home in keys {
                let guest = guest_key(&home).unwrap().into_owned();
                prop_assert_eq!(home_key(&guest), Some(home.clone()));
                prop_assert!(is_homes(&guest));
                prop_assert_eq!(seen.insert(guest, home), None);
            }
        }
    }
}
