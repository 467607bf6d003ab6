//! Who asks: a client certificate of the cluster's client CA, or a bearer token
//! that a TokenReview vouches for.

use serde_json::{Value, json};
use time::OffsetDateTime;
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

/// The holder of a client certificate that TLS has verified, for as long as it lasts.
pub(crate) struct Certified {
    user: User,
    not_after: OffsetDateTime,
}

impl Certified {
    /// Common name and organisations, as the API server reads them.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
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
        let not_after = certificate.validity().not_after.to_datetime();
        let user = User { name, groups, ..User::default() };
        (!user.name.is_empty()).then_some(Self { user, not_after })
    }

    /// Who asks, unless the certificate has ended: a connection may last for longer.
    pub(crate) fn user(&self, now: OffsetDateTime) -> Option<User> {
        (now <= self.not_after).then(|| self.user.clone())
    }
}

impl User {
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use time::Duration;

    use super::*;

    fn certificate(names: &[&str], not_after: OffsetDateTime) -> Option<Certified> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.distinguished_name.push(DnType::OrganizationName, "traders");
        params.not_after = not_after;
        let key = KeyPair::generate().unwrap();
        Certified::read(params.self_signed(&key).unwrap().der())
    }

    #[test]
    fn a_certificate_counts_until_it_ends() {
        // Certificates have whole seconds.
        let end = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let anna = certificate(&["anna"], end).unwrap();
        let user = anna.user(end).unwrap();
        assert_eq!((user.name.as_str(), user.groups.len()), ("anna", 2));
        assert_eq!(anna.user(end + Duration::SECOND), None);
        assert!(certificate(&[""], end).is_none());
        assert!(certificate(&[], end).is_none());
    }
}
