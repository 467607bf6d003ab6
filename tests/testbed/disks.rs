//! Volumes of a cluster of the bed: folders of the machine, which all of its nodes share.

/// The class of such volumes, the default one, in JSON. Its cluster needs [`controller_flags`].
pub const CLASS_OF_DISKS: &str = r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass",
    "metadata":{"name":"disks","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},
    "provisioner":"kubernetes.io/host-path","volumeBindingMode":"WaitForFirstConsumer"}"#;

/// What lets the controllers of a cluster make such volumes.
#[must_use]
pub fn controller_flags() -> Vec<String> {
    vec!["--enable-hostpath-provisioner=true".to_owned()]
}
