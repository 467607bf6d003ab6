//! Who a person is by their kubeconfig: what is shown to the API server is shown to the daemon as
//! well. Where a program gives the credentials, it is asked once for both.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use kube::client::{Body, ConfigExt as _};
use mercato_config::settings;
use rustls::ClientConfig;
use tokio::runtime::Handle;
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

use super::place::Place;
use crate::admin::{Class, Problem};
use crate::kubernetes::real;

/// What a person shows, and the way to their API server.
pub(super) struct Credentials {
    pub(super) client: kube::Client,
    /// What is said in each request; none: a certificate says it.
    pub(super) authorization: Option<HeaderValue>,
    /// What shows the person's certificate, if they have one. Whom it believes is not settled.
    pub(super) tls: ClientConfig,
}

impl Credentials {
    /// As the kubeconfig says now. A program that it names may ask the person something.
    ///
    /// # Errors
    /// When the kubeconfig, or what it names, cannot be used.
    pub(super) async fn of(place: &Place) -> Result<Self, Problem> {
        let settings = settings::Kubernetes {
            kubeconfig: place.kubeconfig.clone(),
            context: place.context.clone(),
            ..settings::Kubernetes::default()
        };
        let config = real::config(&settings).await.map_err(|error| unread(place, error))?;
        if let Some(other) = impersonated(&config) {
            let what = format!("the kubeconfig acts as {other:?}, whom the daemon would not see");
            return Err(Problem::new(Class::Usage, what)
                .todo("use a context whose user is the one who asks: --context NAME"));
        }
        // What may run a program, and wait for it.
        let gathered = tokio::task::spawn_blocking(move || Self::gather(config)).await;
        let gathered = gathered.map_err(BoxError::from).and_then(|gathered| gathered);
        gathered.map_err(|error| unusable(place, &*error))
    }

    fn gather(mut config: kube::Config) -> Result<Self, BoxError> {
        let authorization = authorization(&config)?;
        if let Some(token) = authorization.as_ref().and_then(token) {
            let who = &mut config.auth_info;
            (who.exec, who.auth_provider, who.token_file) = (None, None, None);
            who.token = Some(token.into());
        }
        let tls = config.rustls_client_config()?;
        Ok(Self { client: kube::Client::try_from(config)?, authorization, tls })
    }
}

/// As whom the kubeconfig acts, in the place of its own user.
fn impersonated(config: &kube::Config) -> Option<String> {
    let who = &config.auth_info;
    let groups = who.impersonate_groups.iter().flatten().next();
    let other = who.impersonate.as_ref().or(who.impersonate_uid.as_ref()).or(groups)?;
    Some(other.clone())
}

/// What the client library would say to the API server in each request.
fn authorization(config: &kube::Config) -> Result<Option<HeaderValue>, BoxError> {
    let Some(layer) = config.auth_layer()? else { return Ok(None) };
    let said = service_fn(|request: Request<Body>| async move {
        Ok::<_, BoxError>(Response::new(request.headers().get(AUTHORIZATION).cloned()))
    });
    let said = layer.layer(said).oneshot(Request::new(Body::empty()));
    let said = Handle::current().block_on(said)?.into_body();
    // Not a password, which the API server does not take either, but a proxy before it may.
    Ok(said.filter(|said| token(said).is_some()))
}

fn token(said: &HeaderValue) -> Option<String> {
    let token = said.to_str().ok()?.strip_prefix("Bearer ")?;
    Some(token.to_owned())
}

fn unread(place: &Place, error: anyhow::Error) -> Problem {
    let causes = error.chain().map(ToString::to_string).collect();
    let what = format!("{} cannot be used: {error:#}", place.describe());
    Problem { causes, ..Problem::failed(what) }
        .todo("say which: --kubeconfig FILE, --context NAME")
        .todo("see what there is: kubectl config get-contexts")
}

fn unusable(place: &Place, error: &(dyn std::error::Error + 'static)) -> Problem {
    let what = format!("the credentials of {} cannot be had: {error}", place.describe());
    Problem::failed(what)
        .because(error)
        .todo("log in as for kubectl, and see that it works: kubectl auth whoami")
}

/// Whom it believes from now on: whoever has the key of this one certificate.
pub(super) fn pinned(
    mut tls: ClientConfig,
    verifier: Arc<dyn rustls::client::danger::ServerCertVerifier>,
) -> Arc<ClientConfig> {
    tls.dangerous().set_certificate_verifier(verifier);
    // Each connection shows the certificate anew.
    tls.resumption = rustls::client::Resumption::disabled();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(tls)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    /// A kubeconfig whose user is this, and what it shows.
    async fn of(dir: &Path, user: &str) -> Result<Credentials, Problem> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut text = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
            contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
            .to_owned();
        writeln!(text, "users: [{{name: u, user: {user}}}]").unwrap();
        let file = dir.join("kubeconfig");
        std::fs::write(&file, text).unwrap();
        Credentials::of(&Place { kubeconfig: Some(file), context: None }).await
    }

    fn said(credentials: &Credentials) -> Option<&str> {
        credentials.authorization.as_ref().map(|said| said.to_str().unwrap())
    }

    #[tokio::test]
    async fn a_token_is_said_wherever_it_stands() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "from-file").unwrap();
        let plain = of(dir.path(), "{token: plain}").await.unwrap();
        assert_eq!(said(&plain), Some("Bearer plain"));
        assert!(!plain.tls.client_auth_cert_resolver.has_certs());
        let read = of(dir.path(), &format!("{{tokenFile: {}}}", file.display())).await.unwrap();
        assert_eq!(said(&read), Some("Bearer from-file"));
    }

    #[tokio::test]
    async fn a_program_is_asked_once_for_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let (program, count) = (dir.path().join("plugin"), dir.path().join("count"));
        let answer = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
            "status":{"token":"of-plugin","expirationTimestamp":"2100-01-01T00:00:00Z"}}"#;
        let script = format!("#!/bin/sh\necho x >> {}\necho '{answer}'\n", count.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {}, \
             interactiveMode: Never}}}}",
            program.display()
        );
        let credentials = of(dir.path(), &user).await.unwrap();
        assert_eq!(said(&credentials), Some("Bearer of-plugin"));
        assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 1);
        std::fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
        let failed = of(dir.path(), &user).await.err().unwrap();
        assert!(failed.to_string().contains("kubectl auth whoami"), "{failed}");
    }

    #[tokio::test]
    async fn a_certificate_is_shown_and_nothing_said() {
        let dir = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        let (cert_file, key_file) = (dir.path().join("cert"), dir.path().join("key"));
        std::fs::write(&cert_file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let user = format!(
            "{{client-certificate: {}, client-key: {}}}",
            cert_file.display(),
            key_file.display()
        );
        let credentials = of(dir.path(), &user).await.unwrap();
        assert_eq!(said(&credentials), None);
        assert!(credentials.tls.client_auth_cert_resolver.has_certs());
    }

    #[tokio::test]
    async fn nobody_acts_as_another_and_a_kubeconfig_that_is_none_says_so() {
        let dir = tempfile::tempdir().unwrap();
        for acts in ["as: bert", "as-groups: ['system:masters']"] {
            let user = format!("{{token: t, {acts}}}");
            let refused = of(dir.path(), &user).await.err().unwrap();
            assert_eq!(refused.class, Class::Usage, "{refused}");
        }
        let place = Place { kubeconfig: Some("/nowhere/kubeconfig".into()), context: None };
        let unread = Credentials::of(&place).await.err().unwrap();
        assert!(unread.to_string().contains("/nowhere/kubeconfig"), "{unread}");
        let place = Place { context: Some("absent".to_owned()), ..place };
        assert!(Credentials::of(&place).await.is_err());
    }
}
