//! From a kubeconfig to a connection with the daemon in its pod; and why there is none, for a person.

use std::time::Duration;

use http::HeaderValue;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use mercato_kubelet::admin::{self, Forwarded, Notice, ReachError};
use tokio_rustls::TlsConnector;

use super::credentials::{Credentials, pinned};
use super::place::Place;
use crate::admin::{Class, Problem};
use crate::nodes::pin;

/// A connection with the daemon, and what is said in each request.
pub(super) struct Open {
    pub(super) sender: SendRequest<Full<Bytes>>,
    pub(super) authorization: Option<HeaderValue>,
}

/// Finds the daemon's pod, forwards its port, and makes sure that it is the daemon which answers
/// there before anything is said to it.
pub(super) async fn open(place: &Place) -> Result<Open, Problem> {
    let credentials = Credentials::of(place).await?;
    let client = &credentials.client;
    let found = tokio::join!(admin::pod(client), admin::notice(client));
    let explain = |error| explained(place, error);
    let (pod, notice) = (found.0.map_err(explain)?, found.1.map_err(explain)?);
    let forwarded = admin::forward(client, &pod, notice.port).await.map_err(explain)?;
    let Credentials { authorization, tls, .. } = credentials;
    let sender = greet(forwarded, tls, &pod, &notice).await?;
    Ok(Open { sender, authorization })
}

/// TLS, with the one certificate that the daemon has published, and HTTP in it.
pub(super) async fn greet(
    forwarded: Forwarded,
    tls: rustls::ClientConfig,
    pod: &str,
    notice: &Notice,
) -> Result<SendRequest<Full<Bytes>>, Problem> {
    let verifier = pin::verifier(&notice.certificate).map_err(|error| {
        let what = format!("what the daemon has published to be known by {error}");
        Problem::new(Class::Unreachable, what)
            .todo("see the daemon's log: kubectl -n mercato logs deploy/mercato")
    })?;
    let Forwarded { stream, refused } = forwarded;
    let connector = TlsConnector::from(pinned(tls, verifier));
    let stream = match connector.connect(pin::name(), stream).await {
        Ok(stream) => stream,
        Err(error) if pin::is_another(&error) => return Err(another(pod, notice.port)),
        Err(error) => {
            // The node says why on a way of its own, a moment later if at all.
            let why = tokio::time::timeout(REFUSAL, refused).await.ok().flatten();
            return Err(unforwarded(pod, notice.port, why, &error));
        }
    };
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| {
            Problem::new(Class::Unreachable, "the connection with the daemon broke").because(&error)
        })?;
    // Ends with the sender.
    tokio::spawn(connection);
    Ok(sender)
}

/// How long the reason is waited for why a port was not forwarded.
const REFUSAL: Duration = Duration::from_millis(500);

fn another(pod: &str, port: u16) -> Problem {
    let what = format!(
        "nothing was asked: whoever answers at port {port} of the daemon's pod {pod} shows another \
         certificate than the daemon has published"
    );
    Problem::new(Class::Unreachable, what)
        .todo("a daemon that has just started publishes its own: try again in a moment")
        .todo(
            "if it stays so, something else listens there on the daemon's node: ask whoever runs \
               the cluster, and do not go on",
        )
}

fn unforwarded(pod: &str, port: u16, why: Option<String>, error: &std::io::Error) -> Problem {
    let why = why.unwrap_or_else(|| error.to_string());
    let what =
        format!("the daemon does not answer at port {port} of its pod {pod}: {}", why.trim());
    Problem::new(Class::Unreachable, what)
        .todo("see whether it listens there: kubectl -n mercato logs deploy/mercato")
        .because(error)
}

/// What failed, and what to do about it.
fn explained(place: &Place, error: ReachError) -> Problem {
    let of = place.describe();
    let unreachable = |what: String| Problem::new(Class::Unreachable, what);
    match &error {
        ReachError::NoRight { right, message } => {
            let what = format!("you may not {right} in the namespace mercato of {of}");
            let mut problem = Problem::new(Class::Refused, what)
                .todo("an administrator gives that right by the role mercato-connect:")
                .todo(
                    "kubectl -n mercato create rolebinding NAME --role mercato-connect --user YOU",
                )
                .todo("see who you are there: kubectl auth whoami");
            problem.causes.push(message.clone());
            problem
        }
        ReachError::NotSaid(_) => unreachable(format!(
            "no daemon is to be reached in {of}: {error}"
        ))
        .todo("where it runs in a pod: install the chart of this release, and see docs/desk.md")
        .todo("where it runs beside the cluster: ask it on its own machine"),
        ReachError::NoPod => unreachable(format!("no daemon runs in {of}: {error}"))
            .todo("install it by its chart: docs/operations.md")
            .todo("or choose another cluster: --context NAME"),
        ReachError::NotReady(pod, _) => unreachable(format!("{error}"))
            .todo(format!("kubectl -n mercato describe pod {pod}"))
            .todo(format!("kubectl -n mercato logs {pod}")),
        ReachError::Unknown(_) => Problem::new(Class::Refused, format!("{of}: {error}"))
            .todo("log in as for kubectl, and see that it works: kubectl auth whoami"),
        ReachError::Failed(_) => unreachable(format!("{of} does not answer: {error}"))
            .todo("see that kubectl reaches it: kubectl version")
            .todo("or choose another cluster: --context NAME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_says_what_to_do() {
        let place = Place { kubeconfig: None, context: Some("rome".to_owned()) };
        let right = "create pods/portforward";
        let errors = [
            (ReachError::NoRight { right, message: "no".to_owned() }, Class::Refused, right),
            (ReachError::NotSaid("is not there"), Class::Unreachable, "mercato-admin"),
            (ReachError::NoPod, Class::Unreachable, "docs/operations.md"),
            (
                ReachError::NotReady("p".to_owned(), "Pending".to_owned()),
                Class::Unreachable,
                "describe pod p",
            ),
            (ReachError::Unknown("Unauthorized".to_owned()), Class::Refused, "whoami"),
            (ReachError::Failed("no route".to_owned()), Class::Unreachable, "no route"),
        ];
        for (error, class, part) in errors {
            let said = explained(&place, error);
            assert_eq!(said.class, class, "{said}");
            assert!(!said.todo.is_empty() && said.to_string().contains(part), "{said}");
        }
        let io = std::io::Error::other("tls handshake eof");
        let said = unforwarded("p", 7_480, Some("connection refused\n".to_owned()), &io);
        assert!(said.to_string().contains("7480 of its pod p: connection refused\n"), "{said}");
        assert!(unforwarded("p", 1, None, &io).to_string().contains("handshake eof"));
    }
}
