//! What of the guests on a node is not closed as it should be, and since when. Pods come and go while they
//! are looked at, so that much fails once, and is over with the next look: that is no alarm.

use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;
use std::time::Duration;

use mercato_host::HostError;
use mercato_kubelet::{Repeated, warn_once};
use tokio::time::Instant;

use crate::limits;

/// What fails since when, of whom: of the guest at that address, or of all. As many as are looked at.
#[derive(Default)]
pub(super) struct Unkept {
    /// In this look, so far.
    failed: BTreeMap<Option<IpAddr>, HostError>,
    failing: BTreeMap<Option<IpAddr>, Instant>,
    lasting: Option<String>,
    said: Repeated,
}

impl Unkept {
    /// Something of one guest has failed in this look.
    pub(super) fn fails(&mut self, pod: IpAddr, error: HostError) {
        self.failed.insert(Some(pod), error);
    }

    /// Nothing of any guest has failed in this look so far.
    pub(super) fn is_well(&self) -> bool {
        self.failed.is_empty()
    }

    /// A look has ended so, which is of all guests: what has not failed in it is over. Whether all went well.
    pub(super) fn ends(&mut self, done: Result<(), HostError>) -> bool {
        self.failed.extend(done.err().map(|error| (None, error)));
        let (failed, now) = (mem::take(&mut self.failed), Instant::now());
        let is_well = failed.is_empty();
        self.failing.retain(|of, _| failed.contains_key(of));
        for of in failed.keys() {
            self.failing.entry(*of).or_insert(now);
        }
        let lasts = |of: &Option<IpAddr>| {
            self.failing.get(of).is_some_and(|since| now.duration_since(*since) >= LASTS)
        };
        let lasting = failed.into_iter().find(|(of, _)| lasts(of));
        if lasting.is_none() {
            self.said.is_over();
        }
        self.lasting = lasting.map(|(of, error)| {
            let guest = of.map_or_else(|| "all".to_owned(), |pod| pod.to_string());
            let said = &mut self.said;
            warn_once!(said, error; guest, "guests on this node are not closed as they should be");
            error.to_string()
        });
        is_well
    }

    /// Why guests are not closed as they should be, if that is more than a moment.
    pub(super) fn lasting(&self) -> Option<&String> {
        self.lasting.as_ref()
    }
}

/// What has failed in each look for so long: two, if nothing changes between them.
const LASTS: Duration = limits::CLOSE_LOOK.saturating_sub(Duration::from_millis(1));

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn at(pod: u8) -> Option<IpAddr> {
        Some(Ipv4Addr::new(10, 244, 0, pod).into())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_with_the_next_look_is_not_said() {
        let mut unkept = Unkept::default();
        let mut look = async |of: &[Option<IpAddr>]| {
            of.iter().flatten().for_each(|pod| unkept.fails(*pod, HostError::NotClosed));
            let all = if of.contains(&None) { Err(HostError::NotClosed) } else { Ok(()) };
            assert_eq!(unkept.ends(all), of.is_empty());
            tokio::time::sleep(limits::CLOSE_LOOK).await;
            unkept.lasting().is_some()
        };
        // Each time another pod that comes or goes.
        for pod in 0..10 {
            assert!(!look(&[at(pod)]).await, "{pod}");
        }
        assert!(!look(&[]).await);
        assert!(!look(&[at(1), None]).await, "each for the first time");
        assert!(look(&[at(2), None]).await, "of all guests it lasts");
        assert!(look(&[at(2)]).await, "of one it lasts");
        assert!(!look(&[at(3)]).await);
    }
}
