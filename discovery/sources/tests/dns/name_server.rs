//! A name server on loopback, with the zone that it is given.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_server::Server;
use hickory_server::net::runtime::TokioRuntimeProvider;
use hickory_server::proto::rr::Name;
use hickory_server::proto::serialize::txt::Parser;
use hickory_server::store::in_memory::InMemoryZoneHandler;
use hickory_server::zone_handler::{AxfrPolicy, Catalog, ZoneType};
use tokio::net::{TcpListener, UdpSocket};

/// Answers until it is dropped.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    _server: Server<Catalog>,
}

impl NameServer {
    /// Serves these lines of a zone file, under `example.`
    pub(crate) async fn start(lines: &str) -> Self {
        let soa = "example. 60 IN SOA ns.example. admin.example. 1 60 60 60 1\n";
        let origin = Name::from_ascii("example.").unwrap();
        let parser = Parser::new(format!("{lines}{soa}"), None, Some(origin.clone()));
        let (_, records) = parser.parse().unwrap();
        let zone = InMemoryZoneHandler::<TokioRuntimeProvider>::new(
            origin.clone(),
            records,
            ZoneType::Primary,
            AxfrPolicy::Deny,
        );
        let mut catalog = Catalog::new();
        catalog.upsert(origin.into(), vec![Arc::new(zone.unwrap())]);
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = udp.local_addr().unwrap();
        let mut server = Server::new(catalog);
        server.register_socket(udp);
        // What does not fit comes by TCP, at the same port; another program may have it.
        if let Ok(tcp) = TcpListener::bind(address).await {
            server.register_listener(tcp, Duration::from_secs(5), 4_096);
        }
        Self { address, _server: server }
    }
}
