//! Which cluster's daemon a person means.

use std::path::PathBuf;

/// Which cluster: what a person names, or what their environment does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
}

impl Place {
    /// What a person calls it.
    pub(super) fn describe(&self) -> String {
        match (&self.context, &self.kubeconfig) {
            (Some(context), _) => format!("the cluster of the context {context}"),
            (None, Some(file)) => format!("the cluster of {}", file.display()),
            (None, None) => "the cluster of your kubeconfig".to_owned(),
        }
    }
}
