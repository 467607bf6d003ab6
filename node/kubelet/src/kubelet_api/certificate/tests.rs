//! What is asked of a cluster for a virtual node's certificate, and what is kept of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::testing::status;

fn subject() -> Subject {
    Subject { node: "mercato-turin".into(), addresses: vec!["10.0.0.1".parse().unwrap()] }
}

#[test]
fn the_request_is_what_the_signer_demands() {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer;
    let key = KeyPair::generate().unwrap();
    let request = params(&subject()).unwrap().serialize_request(&key).unwrap();
    let der = request.der().to_vec();
    let (_, read) = X509CertificationRequest::from_der(&der).unwrap();
    let info = &read.certification_request_info;
    assert_eq!(info.subject.to_string(), "O=system:nodes, CN=system:node:mercato-turin");
}

#[test]
fn names_are_valid_and_differ_by_request() {
    let (one, two) = (object("n", "a"), object("n", "b"));
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
    let name = one["metadata"]["name"].as_str().unwrap();
    assert!(crate::apiserver::kind::segment(name).is_ok());
}

#[test]
fn a_self_signed_one_serves_at_once() {
    let key = self_signed(&subject()).unwrap();
    assert!(Tls::new(key).is_ok());
}

/// A cluster that has the requests which were made, and signs what is approved.
#[derive(Default)]
struct Signer {
    requests: BTreeMap<String, Value>,
    /// Those are signed that come.
    approves: bool,
}

impl Signer {
    fn answer(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        if method == "POST" {
            let name = body["metadata"]["name"].as_str().unwrap().to_owned();
            if self.requests.contains_key(&name) {
                return status(409, "it is there");
            }
            self.requests.insert(name, body.clone());
            return (201, body);
        }
        assert_eq!(method, "GET", "{path}");
        let name = path.rsplit('/').next().unwrap().trim_end_matches('?');
        let Some(request) = self.requests.get(name) else { return status(404, "none") };
        let chain = self.approves.then(|| BASE64.encode(signed(request)));
        (200, json!({ "status": { "certificate": chain } }))
    }
}

fn signed(request: &Value) -> String {
    let mut of_ca = CertificateParams::default();
    of_ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = rcgen::CertifiedIssuer::self_signed(of_ca, KeyPair::generate().unwrap()).unwrap();
    let pem = BASE64.decode(request["spec"]["request"].as_str().unwrap()).unwrap();
    let pem = String::from_utf8(pem).unwrap();
    let request = rcgen::CertificateSigningRequestParams::from_pem(&pem).unwrap();
    request.signed_by(&ca).unwrap().pem()
}

#[derive(Default)]
struct Memory(Mutex<Option<Vec<u8>>>);

impl Keeps for Memory {
    fn read(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }

    fn write(&self, bytes: &[u8]) {
        *self.0.lock().unwrap() = Some(bytes.to_vec());
    }
}

/// A daemon's life: it keeps a certificate until it is dropped.
struct Life {
    serving: watch::Receiver<Serving>,
    tls: Arc<Tls>,
    keeping: tokio::task::JoinHandle<()>,
}

impl Life {
    fn begin(signer: &Arc<Mutex<Signer>>, keeps: &Arc<Memory>, subject: Subject) -> Self {
        let signer = signer.clone();
        let cluster = crate::testing::scripted(move |method, path, body| {
            signer.lock().unwrap().answer(method.as_str(), path, body)
        });
        let tls = Tls::new(self_signed(&subject).unwrap()).unwrap();
        let (tell, serving) = watch::channel(Serving::Waiting { request: String::new() });
        let source = Source { approve: false, keeps: keeps.clone() };
        let keeping = tokio::spawn(maintain(cluster, subject, source, tls.clone(), tell));
        Self { serving, tls, keeping }
    }

    /// Until it waits for this to be approved.
    async fn waits(&mut self) -> String {
        let waits = |serving: &Serving| match serving {
            Serving::Waiting { request } => !request.is_empty(),
            Serving::Issued { .. } => panic!("nobody has approved it"),
        };
        let Serving::Waiting { request } = self.serving.wait_for(waits).await.unwrap().clone()
        else {
            unreachable!()
        };
        request
    }

    async fn issued(&mut self) -> OffsetDateTime {
        let issued = |serving: &Serving| matches!(serving, Serving::Issued { .. });
        match self.serving.wait_for(issued).await.unwrap().clone() {
            Serving::Issued { not_after } => not_after,
            Serving::Waiting { .. } => unreachable!(),
        }
    }

    async fn end(self) {
        self.keeping.abort();
        self.keeping.await.unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn an_issued_certificate_takes_the_place_of_the_first() {
    let signer = Arc::new(Mutex::new(Signer { approves: true, ..Signer::default() }));
    let mut life = Life::begin(&signer, &Arc::default(), subject());
    let before = life.tls.config();
    life.issued().await;
    assert!(!Arc::ptr_eq(&before, &life.tls.config()));
    assert!(signer.lock().unwrap().requests.keys().all(|name| name.starts_with("mercato-turin-")));
}

#[tokio::test(start_paused = true)]
async fn a_restart_asks_for_nothing_that_was_asked_for() {
    let (signer, keeps) = (Arc::new(Mutex::new(Signer::default())), Arc::default());
    let mut names = BTreeSet::new();
    for _ in 0..3 {
        let mut life = Life::begin(&signer, &keeps, subject());
        names.insert(life.waits().await);
        life.end().await;
    }
    assert_eq!(names.len(), 1, "{names:?}");
    signer.lock().unwrap().approves = true;
    let mut ends = BTreeSet::new();
    for _ in 0..3 {
        let mut life = Life::begin(&signer, &keeps, subject());
        ends.insert(life.issued().await);
        life.end().await;
        // Once it is there, the request may go.
        signer.lock().unwrap().requests.clear();
    }
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(signer.lock().unwrap().requests.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_for_another_or_is_no_record_is_asked_for_again() {
    let signer = Arc::new(Mutex::new(Signer { approves: true, ..Signer::default() }));
    let keeps: Arc<Memory> = Arc::default();
    let moved = Subject { addresses: vec!["10.0.0.2".parse().unwrap()], ..subject() };
    let lives = [(subject(), 1), (subject(), 1), (moved.clone(), 2), (moved.clone(), 2)];
    for (subject, asked) in lives {
        let mut life = Life::begin(&signer, &keeps, subject);
        life.issued().await;
        life.end().await;
        assert_eq!(signer.lock().unwrap().requests.len(), asked);
    }
    keeps.write(b"{");
    let mut life = Life::begin(&signer, &keeps, moved);
    life.issued().await;
    life.end().await;
    assert_eq!(signer.lock().unwrap().requests.len(), 3);
}

#[test]
fn renewal_precedes_expiry_whenever_it_is_looked_at() {
    let hours = |hours: i64| OffsetDateTime::now_utc() + time::Duration::hours(hours);
    let within = |wait: Duration, hours: u64| {
        let (least, most) = ((hours - 1) * 3_600, hours * 3_600 + 1);
        assert!((least..=most).contains(&wait.as_secs()), "{wait:?} is not {hours} hours");
    };
    within(until_renewal(hours(0), hours(100)), 80);
    within(until_renewal(hours(-50), hours(50)), 30);
    assert_eq!(until_renewal(hours(-90), hours(10)), RETRY);
}
