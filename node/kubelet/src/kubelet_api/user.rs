//! Who asks: a client certificate of the cluster's client CA, or a bearer token
//! that a TokenReview vouches for.

use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::TOKEN_REVIEW;

/// An authenticated user, as Kubernetes describes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct User {
    /// The user's name, such as `system:serviceaccount:shop:reader`.
    pub name: String,
    /// The groups that the user is in, sorted.
    pub groups: Vec<String>,
    /// Empty where the authenticator knows none.
    pub uid: String,
    /// What else the authenticator says, as JSON, for the authorizer alone.
    pub extra: String,
}

impl User {
    /// The holder of a client certificate that TLS has verified: common name
    /// and organisations, as the API server reads them.
    pub fn from_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let mut names = subject.iter_common_name();
        let name = names.next()?.as_str().ok()?.to_owned();
        // Of several the API server takes another one than others do.
        if names.next().is_some() {
            return None;
        }
        let organisations = subject.iter_organization().filter_map(|o| o.as_str().ok());
        let mut groups: Vec<_> = organisations.map(str::to_owned).collect();
        groups.push("system:authenticated".into());
        groups.sort();
        (!name.is_empty()).then_some(Self { name, groups, ..Self::default() })
    }

    /// The holder of a bearer token, or none if the cluster does not know it.
    pub(crate) async fn from_token(
        cluster: &Cluster,
        token: &str,
    ) -> Result<Option<Self>, Failure> {
        let review = json!({
            "apiVersion": TOKEN_REVIEW.api_version(),
            "kind": TOKEN_REVIEW.kind,
            "spec": { "token": token },
        });
        let answer = cluster.create(TOKEN_REVIEW, None, review).await?;
        let status = &answer["status"];
        if status["authenticated"] != true {
            return Ok(None);
        }
        let user = &status["user"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let groups = user["groups"].as_array().into_iter().flatten().map(text);
        let mut groups: Vec<_> = groups.collect();
        groups.sort();
        let extra = user.get("extra").map(Value::to_string).unwrap_or_default();
        Ok(Some(Self { name: text(&user["username"]), groups, uid: text(&user["uid"]), extra }))
    }
}
