//! The connection of pipelines to their broker.

use std::path::PathBuf;

use tidegate_hub::SessionFilters;
use tidegate_hub::net::{Address, SocketOptions, TlsConnector, TlsFileError, TlsOptions};

use super::PipelineError;
use crate::orchestrator::BrokerAddress;
use crate::sections::hub::Pipeline;

/// The connection of pipelines to their broker.
#[derive(Clone, Debug)]
pub struct Way {
    /// The address of the broker.
    pub address: Address,
    /// Options of the socket, with TLS where the address asks for it.
    pub socket: SocketOptions,
    /// User name of the sessions.
    pub user_name: Option<String>,
    /// Password of the sessions.
    pub password: Option<Vec<u8>>,
    /// Whether several processes share the work, by a shared subscription of the pipeline's name.
    pub shared: bool,
    /// Whether the broker names the publisher of a message: only within its own process.
    pub origins: bool,
    /// The text before the name of the pipeline in the client id of each session.
    pub prefix: String,
    /// The text behind it.
    pub suffix: String,
    /// The addresses for pipelines of tenants, by the name of the tenant. Elsewhere the user name leads to the tenant.
    pub tenants: Vec<(String, Address)>,
    /// Finds the filters of a session, where the broker is in this process.
    pub kept_filters: Option<SessionFilters>,
}

impl Way {
    /// How a hub in its own process connects to a broker. `member` is its name among the hubs that share the work.
    ///
    /// # Errors
    /// When the address is invalid or TLS cannot be set up.
    pub fn to(broker: &str, ca: Option<&str>, member: &str) -> Result<Self, PipelineError> {
        let place = BrokerAddress::of_parts(Some("broker"), broker)?;
        let (address, socket) = socket_of(&place, ca)?;
        Ok(Self {
            address,
            socket,
            user_name: place.user_name,
            password: place.password.map(String::into_bytes),
            shared: true,
            origins: false,
            prefix: "hub.".to_owned(),
            suffix: format!(".{member}"),
            tenants: Vec::new(),
            kept_filters: None,
        })
    }

    /// The way of a pipeline, into its tenant.
    pub(super) fn of(&self, pipeline: &Pipeline) -> Self {
        let found = self.tenants.iter().find(|(tenant, _)| *tenant == pipeline.tenant_name());
        let address = found.map_or(&self.address, |(_, address)| address);
        Self { address: address.clone(), ..self.clone() }
    }
}

/// How a broker is reached, with TLS where its address says so.
///
/// # Errors
/// When TLS cannot be set up.
pub(super) fn socket_of(place: &BrokerAddress, ca: Option<&str>) -> Result<(Address, SocketOptions), TlsFileError> {
    let (host, port) = (place.at.host.clone(), place.at.port);
    if !place.secure {
        return Ok((Address::Tcp { host, port }, SocketOptions::default()));
    }
    let options = TlsOptions { ca_file: ca.map(PathBuf::from), ..TlsOptions::default() };
    let tls = TlsConnector::new(&options)?;
    Ok((Address::Tls { host, port }, SocketOptions { tls: Some(tls), ..SocketOptions::default() }))
}
