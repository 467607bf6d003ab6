//! What reads well on a kubelet stream and breaks a rule of its type.

use mercato_protocol::kubelet_stream::{Ask, Request, Usage, What};

use super::{Case, unchecked};
use crate::samples;

pub(super) fn cases() -> Vec<Case> {
    let request = |wanted: &str| {
        let mut requests = samples::stream_requests().into_iter();
        let Some((_, Ask::Open(request))) = requests.find(|(name, _)| *name == wanted) else {
            panic!("no request called {wanted}")
        };
        request
    };
    let port = stream(&request("logs"), What::PortForward { ports: vec![65_536] });
    let exec = request("exec");
    let What::Exec(mut no_words) = exec.what.clone() else { panic!() };
    no_words.command.clear();
    let words = stream(&exec, What::Exec(no_words));

    let usage = |change: fn(&mut Usage)| {
        let mut usage = samples::usage();
        change(&mut usage);
        unchecked(&usage)
    };
    let reversed = usage(|usage| usage.pods.reverse());
    let twice = usage(|usage| usage.pods[1].uid = usage.pods[0].uid.clone());
    let endless = usage(|usage| usage.pods.clear());
    let crowd = usage(|usage| usage.pods = vec![usage.pods[1].clone(); 1_025]);

    vec![
        ("stream-request", "no such port", port, "Invalid"),
        ("stream-request", "no command", words, "Invalid"),
        ("stream-usage", "pods out of order", reversed, "Invalid"),
        ("stream-usage", "a pod twice", twice, "Invalid"),
        ("stream-usage", "nothing, and more", endless, "Invalid"),
        ("stream-usage", "too many pods", crowd, "TooLong"),
    ]
}

fn stream(like: &Request, what: What) -> Vec<u8> {
    unchecked(&Ask::Open(Request { what, ..like.clone() }))
}
