//! Clients whose node has no lease at the moment: they stay connected until their node is decided.
//!
//! Nothing that promises anything may be written meanwhile, since another node may have taken the place. So all output
//! is withheld but answers to pings, and clients' packets are kept as packets of waiting publishers are.

use crate::connection::table::Connections;
use crate::ids::ConnectionKey;

impl Connections {
    /// Drops the withheld output of a client: its connection ends.
    pub(crate) fn drop_withheld(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.get_mut(key).filter(|connection| connection.is_suspended())
            && let Some(output) = connection.output.as_mut()
        {
            output.reset();
        }
    }
}
