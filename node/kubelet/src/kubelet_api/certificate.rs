//! A virtual node's serving certificate: asked of its cluster by a
//! CertificateSigningRequest for `kubernetes.io/kubelet-serving`, as a kubelet
//! does, replaced before it expires, without a restart, and kept over one. Until
//! it is issued a self-signed one serves, which is enough where the API server
//! does not verify its kubelets.

mod kept;
mod request;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::CSR;
use crate::kubelet_api::Tls;
use crate::names::{FIELD_MANAGER, MANAGED_BY};
use crate::pace::Backoff;
use crate::repeated::Repeated;
use crate::warn_once;

pub use kept::Keeps;
use kept::{Asked, Certified, Issued, Kept};
pub use request::{Subject, self_signed};
pub(crate) use request::{USAGES, params};

/// Which certificate serves, for `status` and `doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// A self-signed one, while this CertificateSigningRequest waits for an
    /// approval: `kubectl certificate approve NAME`.
    Waiting {
        /// The request's name; empty until it is made.
        request: String,
    },
    /// A certificate that the cluster's own signer has issued.
    Issued {
        /// When it expires; a new one is asked for in time.
        not_after: OffsetDateTime,
    },
}

/// How serving certificates are had.
#[derive(Clone)]
pub struct Source {
    /// Whether the daemon approves its own requests, for which it must have been given the right.
    pub approve: bool,
    /// Where the certificate is kept over a restart.
    pub keeps: Arc<dyn Keeps>,
}

/// Keeps `tls` in possession of an issued certificate, for ever, and tells
/// `serving` which one it has. One that is kept serves at once, and a request
/// that is not decided is waited for: a restart asks for nothing that was asked
/// for already.
pub fn maintain(
    cluster: Cluster,
    subject: Subject,
    source: Source,
    tls: Arc<Tls>,
    serving: watch::Sender<Serving>,
) -> BoxFuture<'static, ()> {
    let kept = Kept::read(&*source.keeps, &subject);
    let mut this = Maintained { cluster, subject, source, tls, serving, kept };
    async move {
        let mut wait = this.serve_kept();
        let mut repeated = Repeated::default();
        loop {
            tokio::time::sleep(wait).await;
            wait = match this.renew().await {
                Ok(wait) => {
                    repeated = Repeated::default();
                    wait
                }
                Err(failure) => {
                    let node = &this.subject.node;
                    warn_once!(repeated, failure; node, "no serving certificate yet");
                    if failure.is_transient() { RETRY } else { DENIED }
                }
            };
        }
    }
    .boxed()
}

/// The certificate of one virtual node.
struct Maintained {
    cluster: Cluster,
    subject: Subject,
    source: Source,
    tls: Arc<Tls>,
    serving: watch::Sender<Serving>,
    kept: Kept,
}

impl Maintained {
    /// Serves with the certificate that is kept, if there is one that is still valid; for how long
    /// nothing is to be asked for.
    fn serve_kept(&self) -> Duration {
        let certified = self.kept.issued.as_ref().and_then(|issued| issued.certified().ok());
        let valid = certified.filter(|one| one.not_after > OffsetDateTime::now_utc());
        let served = valid.and_then(|certified| self.serve(certified).ok());
        served.unwrap_or_default()
    }

    /// Serves with a certificate; for how long nothing is to be asked for.
    fn serve(&self, certified: Certified) -> Result<Duration, Failure> {
        let Certified { key, not_before, not_after } = certified;
        let served = self.tls.set_serving(key);
        served.map_err(|error| Failure::refused(error.to_string()))?;
        self.serving.send_replace(Serving::Issued { not_after });
        Ok(until_renewal(not_before, not_after))
    }

    /// Asks for a certificate, unless that was done, and serves with it once it is issued; for how
    /// long nothing is to be asked for then.
    async fn renew(&mut self) -> Result<Duration, Failure> {
        let asked = self.asked()?;
        let issued = Issued::new(&asked, self.decided(&asked).await?);
        let certified = issued.certified();
        self.kept.asked = None;
        if certified.is_ok() {
            self.kept.issued = Some(issued);
        }
        self.kept.write(&*self.source.keeps);
        let certified = certified?;
        let not_after = certified.not_after;
        let wait = self.serve(certified)?;
        tracing::info!(node = self.subject.node, %not_after, "serving certificate issued");
        Ok(wait)
    }

    /// What is asked for: it is kept before anybody hears of it.
    fn asked(&mut self) -> Result<Asked, Failure> {
        if let Some(asked) = &self.kept.asked {
            return Ok(asked.clone());
        }
        let asked = Asked::of(&self.subject)?;
        self.kept.asked = Some(asked.clone());
        self.kept.write(&*self.source.keeps);
        Ok(asked)
    }

    /// Makes the request, if it is not there, and waits for what comes of it: the chain (PEM).
    async fn decided(&self, asked: &Asked) -> Result<String, Failure> {
        let Self { cluster, subject, source, serving, .. } = self;
        let object = object(&subject.node, &asked.request);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match cluster.create(CSR, None, object).await {
            // By its name it is the same request.
            Err(failure) if failure.class == Class::Conflict => {}
            created => drop(created?),
        }
        serving.send_if_modified(|serving| match serving {
            Serving::Waiting { request } => {
                request.clone_from(&name);
                true
            }
            Serving::Issued { .. } => false,
        });
        if source.approve {
            let condition = json!([{ "type": "Approved", "status": "True",
                "reason": "MercatoApprove",
                "message": "approved by the daemon for its own virtual node" }]);
            let patch = json!({ "status": { "conditions": condition } });
            cluster.merge(CSR, None, &name, Some("approval"), patch).await?;
        }
        issued(cluster, &name).await
    }
}

/// Waits until the request is decided. It is looked at rather than watched: one
/// request for a node, seldom, for which no right to list all is needed.
async fn issued(cluster: &Cluster, name: &str) -> Result<String, Failure> {
    let mut looks = Backoff::new(LOOK, LOOK_MAX);
    loop {
        let request = match cluster.get(CSR, None, name).await {
            Ok(Some(request)) => request,
            Ok(None) => return Err(Failure::transient(format!("the request {name} is gone"))),
            Err(failure) if failure.is_transient() => Value::Null,
            Err(failure) => return Err(failure),
        };
        if let Some(chain) = request["status"]["certificate"].as_str() {
            let pem = BASE64.decode(chain).ok().and_then(|pem| String::from_utf8(pem).ok());
            return pem.ok_or_else(|| Failure::refused("the certificate is no PEM"));
        }
        let conditions = request["status"]["conditions"].as_array();
        let against = conditions
            .into_iter()
            .flatten()
            .find(|condition| matches!(condition["type"].as_str(), Some("Denied" | "Failed")));
        if let Some(condition) = against {
            return Err(Failure::refused(format!("{name}: {condition}")));
        }
        looks.wait().await;
    }
}

fn object(node: &str, pem: &str) -> Value {
    let digest = Sha256::digest(pem.as_bytes());
    let suffix: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    json!({
        "apiVersion": CSR.api_version(),
        "kind": CSR.kind,
        "metadata": {
            "name": format!("{node}-{suffix}"),
            "labels": { MANAGED_BY: FIELD_MANAGER },
        },
        "spec": {
            "request": BASE64.encode(pem),
            "signerName": "kubernetes.io/kubelet-serving",
            "usages": USAGES,
        },
    })
}

/// How long until a certificate is to be replaced: at four fifths of its life, as kubelets do
/// between 70 and 90 %. Counted from its beginning, so that restarts do not put it off.
fn until_renewal(not_before: OffsetDateTime, not_after: OffsetDateTime) -> Duration {
    let due = not_before + (not_after - not_before) * 0.8;
    Duration::try_from(due - OffsetDateTime::now_utc()).unwrap_or_default().max(RETRY)
}

/// How often an undecided request is looked at: at first, and, since a person may decide after
/// days, at last.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_MAX: Duration = Duration::from_secs(10);
/// After a failure, and the least between two renewals.
const RETRY: Duration = Duration::from_secs(60);
/// A request that was denied is asked anew only as often as this.
const DENIED: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
