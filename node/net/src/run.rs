//! Which run of its program a peer is, as it says when it identifies itself: a number that is
//! drawn anew at each start.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run(u64);

const SOFTWARE: &str = concat!("mercato/", env!("CARGO_PKG_VERSION"));

impl Run {
    pub(crate) fn new() -> Self {
        Self(rand::random())
    }

    /// As a peer is told: our software, and this run of it.
    pub(crate) fn agent(self) -> String {
        format!("{SOFTWARE} run/{:016x}", self.0)
    }

    /// What a peer tells; none if it does not.
    pub(crate) fn of_agent(agent: &str) -> Option<Self> {
        let (_, run) = agent.rsplit_once(" run/")?;
        let is_number = run.len() == 16 && run.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(run, 16).ok().filter(|_| is_number).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_as_it_is_told() {
        let run = Run::new();
        assert_eq!(Run::of_agent(&run.agent()), Some(run));
        for other in ["", "mercato/0.1.0", "x run/", "x run/12", "x run/+00000000000000f"] {
            assert_eq!(Run::of_agent(other), None, "{other}");
        }
    }
}
