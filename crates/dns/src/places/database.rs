//! Places from a file of MaxMind's format (MaxMind DB specification 2.0).

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use maxminddb::{PathElement, Reader};

use super::{Found, PlacesError};
use crate::location::Location;

/// Longest file, bytes. It is held in memory; a city database of the world has some 60 MB.
const MAX_BYTES: u64 = 1 << 30;

/// A file of MaxMind's format with `location.latitude` and `location.longitude`, such as GeoLite2-City or DB-IP's.
pub struct Database {
    reader: Reader<Vec<u8>>,
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Database").field("type", &self.reader.metadata().database_type).finish()
    }
}

impl Database {
    /// Reads a file into memory.
    ///
    /// # Errors
    /// When it cannot be read, is larger than 1 GiB, or not of the format.
    pub fn open(path: &Path) -> Result<Self, PlacesError> {
        let wrong = |reason: String| PlacesError::Database { path: path.to_owned(), reason };
        let size = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if size > MAX_BYTES {
            return Err(wrong(format!("{size} bytes are more than {MAX_BYTES}")));
        }
        let bytes = tidegate_setting_file::read(path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
        let reader = Reader::from_source(bytes).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { reader })
    }

    /// The location of an address. An unreadable entry counts as absent.
    pub(super) fn find(&self, address: IpAddr) -> Found {
        let address = address.to_canonical();
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let Ok(entry) = self.reader.lookup(address) else { return Found { location: None, prefix: whole } };
        let prefix = entry.network().map_or(whole, |network| network.prefix()).min(whole);
        let degrees = |key| {
            let path = [PathElement::Key("location"), PathElement::Key(key)];
            entry.decode_path::<f64>(&path).ok().flatten()
        };
        let location = degrees("latitude").zip(degrees("longitude"));
        Found { location: location.and_then(|(north, east)| Location::new(north, east).ok()), prefix }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Places, Table};
    use super::*;

    /// A database of IPv4 with one entry for all addresses that begin with a bit, written by hand after the
    /// specification.
    fn file(first_bit: usize) -> Vec<u8> {
        let text = |text: &str| [&[0x40 | text.len() as u8], text.as_bytes()].concat();
        let double = |number: f64| [&[0x68], number.to_be_bytes().as_slice()].concat();
        let map = |pairs: u8| vec![0xe0 | pairs];
        // One node of two records of 24 bits: 1 is "not found", 17 is the first byte of the data section.
        let mut records = [[0, 0, 1], [0, 0, 1]];
        records[first_bit] = [0, 0, 17];
        let location = [map(2), text("latitude"), double(52.5), text("longitude"), double(13.4)].concat();
        let data = [map(1), text("location"), location].concat();
        let metadata = [
            map(9),
            [text("node_count"), vec![0xc1, 1]].concat(),
            [text("record_size"), vec![0xa1, 24]].concat(),
            [text("ip_version"), vec![0xa1, 4]].concat(),
            [text("database_type"), text("Test")].concat(),
            [text("languages"), vec![0x00, 0x04]].concat(),
            [text("binary_format_major_version"), vec![0xa1, 2]].concat(),
            [text("binary_format_minor_version"), vec![0xa1, 0]].concat(),
            [text("build_epoch"), vec![0x01, 0x02, 1]].concat(),
            [text("description"), map(0)].concat(),
        ];
        [records.concat(), vec![0; 16], data, b"\xab\xcd\xefMaxMind.com".to_vec(), metadata.concat()].concat()
    }

    fn database(first_bit: usize) -> Database {
        Database { reader: Reader::from_source(file(first_bit)).unwrap() }
    }

    fn find(database: &Database, address: &str) -> Found {
        database.find(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_found_with_its_network() {
        let database = database(1);
        let berlin = Location::new(52.5, 13.4).unwrap();
        assert_eq!(find(&database, "192.0.2.1"), Found { location: Some(berlin), prefix: 1 });
        assert_eq!(find(&database, "::ffff:192.0.2.1"), Found { location: Some(berlin), prefix: 1 });
        assert_eq!(find(&database, "10.0.0.1"), Found { location: None, prefix: 1 });
        assert_eq!(find(&database, "2001:db8::1").location, None);
    }

    #[test]
    fn a_table_corrects_a_database() {
        let table = Table::parse("192.0.2.0/24 1 2").unwrap();
        let places = Places { table, database: Some(Arc::new(database(1))) };
        let find = |address: &str, bits| places.find(address.parse().unwrap(), bits);
        assert_eq!(find("192.0.2.1", 32).location.map(Location::latitude), Some(1.0));
        let other = find("198.51.100.1", 32);
        assert_eq!((other.location.map(Location::latitude), other.prefix), (Some(52.5), 6));
        // The prefix is never longer than the query's.
        assert_eq!(find("198.0.0.0", 4).prefix, 4);
    }

    #[test]
    fn an_invalid_database_is_refused_with_its_name() {
        let path = std::env::temp_dir().join(format!("tidegate-dns-{}.mmdb", std::process::id()));
        std::fs::write(&path, b"nothing of the kind").unwrap();
        let refused = Database::open(&path).unwrap_err().to_string();
        assert!(refused.contains("tidegate-dns-"), "{refused}");
        std::fs::write(&path, file(1)).unwrap();
        assert!(find(&Database::open(&path).unwrap(), "192.0.2.1").location.is_some());
        std::fs::remove_file(&path).unwrap();
        assert!(Database::open(&path).is_err());
    }
}
