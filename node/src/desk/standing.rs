//! How it is about the desk, for `mercato doctor`.

use std::sync::{Arc, Mutex, PoisonError};

use crate::doctor::Finding;

const CHECK: &str = "desk";

/// What the last try to serve people came to. Copies share it.
#[derive(Clone, Default)]
pub(crate) struct Standing(Arc<Mutex<Came>>);

#[derive(Clone, Default)]
enum Came {
    /// Nobody is to be served.
    #[default]
    Off,
    /// There is no listener, for this reason.
    Unheard(String),
    /// It listens at this port of the loopback; nobody can find it, for this reason.
    Untold(u16, String),
    /// It listens at this port of the loopback, and says how it is known.
    Served(u16),
}

impl Standing {
    pub(super) fn unheard(&self, why: &str) {
        self.set(Came::Unheard(why.to_owned()));
    }

    pub(super) fn untold(&self, port: u16, why: &str) {
        self.set(Came::Untold(port, why.to_owned()));
    }

    pub(super) fn served(&self, port: u16) {
        self.set(Came::Served(port));
    }

    /// None where nobody is to be served.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let came = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match came {
            Came::Off => None,
            Came::Unheard(why) => Some(
                Finding::fail(CHECK, format!("nobody is answered from a desk: {why}"))
                    .todo("if another program has the port: kubernetes.adminPort: PORT"),
            ),
            Came::Untold(port, why) => {
                let what = format!("nobody is told how port {port} is reached from a desk: {why}");
                let todo = "see what its account may: kubectl auth can-i --list -n mercato \
                    --as system:serviceaccount:mercato:mercato";
                Some(Finding::fail(CHECK, what).todo(todo))
            }
            Came::Served(port) => {
                let what = format!("people are answered by port-forward to 127.0.0.1:{port}");
                Some(Finding::ok(CHECK, what))
            }
        }
    }

    fn set(&self, came: Came) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = came;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_the_last_try_came_to_is_found() {
        let standing = Standing::default();
        assert!(standing.finding().is_none());
        let verdict = |what: &str| {
            let finding = standing.finding().unwrap();
            assert!(finding.what.contains(what), "{}", finding.what);
            (finding.verdict, finding.todo.is_empty())
        };
        standing.unheard("address in use");
        assert_eq!(verdict("address in use"), (Verdict::Fail, false));
        standing.untold(7_480, "403");
        assert_eq!(verdict("403"), (Verdict::Fail, false));
        standing.served(7_480);
        assert_eq!(verdict("7480"), (Verdict::Ok, true));
    }
}
