//! Locations of askers: a table of networks, a file of MaxMind's format, or both.

mod database;
mod table;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::location::Location;
use crate::number::NumberError;
pub use database::Database;
pub use table::Table;

/// Why places cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlacesError {
    /// A line of a table is not a network, a latitude and a longitude.
    #[error("line {line}: write NETWORK LATITUDE LONGITUDE, such as `192.0.2.0/24 41.9 12.5`")]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// A place of a table is not on the earth.
    #[error("line {line}: {source}")]
    Location {
        /// Its number, from 1.
        line: usize,
        /// The fault of the number.
        source: NumberError,
    },
    /// A table is too large.
    #[error("the table needs more than {limit} nodes: leave out small networks, or use a file of MaxMind's format")]
    TooLarge {
        /// Nodes at most.
        limit: usize,
    },
    /// A database cannot be read.
    #[error("cannot use {} as a database of places: {reason}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The fault of the line.
        reason: String,
    },
}

/// The location of an address, and the network for which it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    /// The place, if it is known.
    pub(crate) location: Option<Location>,
    /// All addresses with these first bits have the same place.
    pub(crate) prefix: u8,
}

/// Locations of askers. The table is asked first, so that it can correct the database.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Networks and their places.
    pub table: Table,
    /// A file of MaxMind's format, such as a city database.
    pub database: Option<Arc<Database>>,
}

impl Places {
    /// The location of the network of the first `bits` of an address.
    pub(crate) fn find(&self, address: IpAddr, bits: u8) -> Found {
        let in_table = self.table.find(address, bits);
        match &self.database {
            Some(database) if in_table.location.is_none() => {
                let found = database.find(address);
                Found { prefix: found.prefix.max(in_table.prefix).min(bits), ..found }
            }
            _ => in_table,
        }
    }
}
