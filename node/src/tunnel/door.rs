//! How the other nodes of this cluster find the daemon: it listens for them, and says where.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::anyhow;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, block_in_place};

use super::event::Event;
use super::secrets::Secrets;
use crate::kubernetes::Kubernetes;
use crate::limits;
use crate::nodes::control::{Control, NodeEvent, Review};

/// Where the daemon listens for nodes, while there are some.
pub(super) struct Door {
    kubernetes: Arc<dyn Kubernetes>,
    secrets: Arc<Secrets>,
    tell: mpsc::Sender<Event>,
    tell_node: mpsc::Sender<NodeEvent>,
    open: Option<Open>,
    /// How many connections there were, of all times that it listened.
    connections: Arc<AtomicU64>,
    /// Why no node finds the daemon, if so.
    trouble: Option<String>,
}

struct Open {
    at: SocketAddr,
    control: Control,
    /// Says where, for as long.
    _says: JoinSet<()>,
}

impl Door {
    pub(super) fn new(
        kubernetes: Arc<dyn Kubernetes>,
        secrets: Arc<Secrets>,
        tell: mpsc::Sender<Event>,
        tell_node: mpsc::Sender<NodeEvent>,
    ) -> Self {
        Self {
            kubernetes,
            secrets,
            tell,
            tell_node,
            open: None,
            connections: Arc::default(),
            trouble: None,
        }
    }

    /// It is listened for nodes there from now on, or nowhere.
    pub(super) async fn stand(&mut self, at: Option<SocketAddr>) {
        let is_so = match &mut self.open {
            Some(open) => Some(open.at) == at && !open.control.has_ended(),
            None => at.is_none(),
        };
        if is_so {
            return;
        }
        self.open = None;
        let Some(at) = at else { return };
        match self.open(at).await {
            Ok(open) => self.open = Some(open),
            Err(error) => self.set(Some(format!("nodes cannot reach the daemon: {error:#}"))),
        }
    }

    async fn open(&self, at: SocketAddr) -> anyhow::Result<Open> {
        let certificate = block_in_place(|| self.secrets.certificate())?;
        let (kubernetes, tell) = (self.kubernetes.clone(), self.tell_node.clone());
        let connections = self.connections.clone();
        let review: Review = Arc::new(move |token| kubernetes.node_of(token));
        let started = Control::start(at, &certificate, review, tell, connections).await;
        let control = started.map_err(|error| {
            anyhow!(
                "TCP {at} cannot be had: {error}; end who has it (ss -ltnp sport = :{}), or set \
                 another port (gateway.nodes.port) and start the daemon again",
                at.port()
            )
        })?;
        let (kubernetes, tell) = (self.kubernetes.clone(), self.tell.clone());
        let mut says = JoinSet::new();
        says.spawn(async move {
            loop {
                let said = kubernetes.tell_nodes(at, certificate.pem.clone()).await;
                let pause = if said.is_ok() { limits::NODE_TELL } else { limits::TUNNEL_PROBE };
                if tell.send(Event::Told(said)).await.is_err() {
                    return;
                }
                tokio::time::sleep(pause).await;
            }
        });
        Ok(Open { at, control, _says: says })
    }

    /// Whether it is listened for nodes.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Nodes were told where it is, or could not be.
    pub(super) fn on_told(&mut self, told: Result<(), String>) {
        self.set(told.err().map(|why| format!("nodes are not told where the daemon is: {why}")));
    }

    /// Why no node finds the daemon, if so.
    pub(super) fn trouble(&self) -> Option<&String> {
        self.trouble.as_ref()
    }

    fn set(&mut self, trouble: Option<String>) {
        if let Some(why) = trouble.as_ref().filter(|_| self.trouble != trouble) {
            // Once for each reason.
            tracing::warn!("{why}");
        }
        self.trouble = trouble;
    }
}
