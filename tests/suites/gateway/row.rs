//! What a row of the table says.

/// A fault of the gateway, and how people get out of it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) at: At,
    pub(crate) fault: Fault,
    /// What people read of it first: what is wrong,
    pub(crate) cause: &'static str,
    /// and then what they are to do.
    pub(crate) cure: &'static str,
    /// How what they are to do is done.
    pub(crate) mend: Mend,
}

/// With whom something is wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Rome,
    Turin,
    Both,
}

/// What is done to a daemon, or to its machine. In configurations `OTHER` stands for the address of
/// the machine that is not the daemon's.
pub(crate) enum Fault {
    /// While the daemon is away, this script runs on its machine.
    Found(&'static str),
    /// While the daemon runs, this does.
    Comes(&'static str),
    /// The daemon is started with this configuration,
    Configured(&'static str),
    /// or it is started under this program.
    Under(&'static [&'static str]),
    /// While the daemon is away, another program takes its port.
    Squatter,
}

/// How what is wrong is mended.
pub(crate) enum Mend {
    /// This script alone mends it.
    Script(&'static str),
    /// The daemon is started again, with this configuration, after this script.
    Again { after: &'static str, config: &'static str },
    /// Whoever is found by this command is ended.
    End(&'static str),
    /// The daemon is started again with a configuration, and has lost the key of its gateway.
    AgainWithoutKey { config: &'static str },
}
