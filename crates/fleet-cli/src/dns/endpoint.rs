//! An endpoint as it is written on the command line.

use std::net::{IpAddr, SocketAddr};

use tidegate_dns::{Endpoint, EndpointName, Load, Location, NameError, NumberError};

/// Why an endpoint of the command line is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndpointError {
    /// It has no name.
    #[error("`{0}` is no endpoint: write NAME=ADDRESS, such as a=192.0.2.1")]
    NoName(String),
    /// Its name is refused.
    #[error(transparent)]
    Name(#[from] NameError),
    /// One of its addresses.
    #[error("`{0}` is not an address: write 192.0.2.1, 192.0.2.1:1883 or [2001:db8::1]:1883")]
    Address(String),
    /// One of its settings.
    #[error("`{setting}` of endpoint `{endpoint}`: {fault}")]
    Setting {
        /// The setting as written.
        setting: String,
        /// The endpoint.
        endpoint: EndpointName,
        /// The fault.
        fault: SettingFault,
    },
}

/// The fault of an endpoint's setting.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingFault {
    /// The value has another form.
    #[error("write {0}")]
    Form(&'static str),
    /// A load or a place out of range.
    #[error(transparent)]
    Number(#[from] NumberError),
    /// There is no such setting.
    #[error("there is weight=N, secure=PORT, load=PART, at=LATITUDE,LONGITUDE, down and draining")]
    Unknown,
}

/// Reads `NAME=ADDRESS[:PORT],...;SETTING;...`.
pub(super) fn parse(text: &str) -> Result<Endpoint, EndpointError> {
    let (name, rest) = text.split_once('=').ok_or_else(|| EndpointError::NoName(text.to_owned()))?;
    let name = EndpointName::new(name.trim())?;
    let mut parts = rest.split(';').map(str::trim);
    let mut endpoint = Endpoint::new(name, Vec::new());
    for address in parts.next().unwrap_or_default().split(',') {
        let (address, port) = address_of(address.trim())?;
        endpoint.addresses.push(address);
        endpoint.port = port.unwrap_or(endpoint.port);
    }
    for setting in parts.filter(|part| !part.is_empty()) {
        set(&mut endpoint, setting).map_err(|fault| EndpointError::Setting {
            setting: setting.to_owned(),
            endpoint: endpoint.name.clone(),
            fault,
        })?;
    }
    Ok(endpoint)
}

/// An address, with a port or without. An IPv6 address with a port is written in brackets.
fn address_of(text: &str) -> Result<(IpAddr, Option<u16>), EndpointError> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((address.ip(), Some(address.port())));
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().map_err(|_| EndpointError::Address(text.to_owned()))?;
    Ok((address, None))
}

fn set(endpoint: &mut Endpoint, setting: &str) -> Result<(), SettingFault> {
    let form = SettingFault::Form;
    let (key, value) = setting.split_once('=').map_or((setting, ""), |(key, value)| (key.trim(), value.trim()));
    match key {
        "weight" => endpoint.weight = value.parse().map_err(|_| form("a number from 0 to 65535"))?,
        "secure" => endpoint.secure_port = Some(value.parse().map_err(|_| form("a port"))?),
        "load" => {
            let load = value.parse().map_err(|_| form("a part of 1, such as 0.25"))?;
            endpoint.load = Load::new(load)?;
        }
        "at" => {
            let numbers = value
                .split_once(',')
                .and_then(|(north, east)| Some((north.trim().parse().ok()?, east.trim().parse().ok()?)));
            let (latitude, longitude) = numbers.ok_or(form("LATITUDE,LONGITUDE, such as 41.9,12.5"))?;
            endpoint.location = Some(Location::new(latitude, longitude)?);
        }
        "down" if value.is_empty() => endpoint.healthy = false,
        "draining" if value.is_empty() => endpoint.draining = true,
        _ => return Err(SettingFault::Unknown),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_name_with_addresses_and_settings() {
        let plain = parse("Orch-1=192.0.2.1").unwrap();
        assert_eq!((plain.name.as_str(), plain.port, plain.weight), ("orch-1", 1883, 1));
        assert!(plain.healthy && !plain.draining);
        let full = parse("b=192.0.2.2:1884, [2001:db8::2] ;weight=3; secure=8884;load=0.5;at=41.9,12.5;down;draining")
            .unwrap();
        assert_eq!(full.addresses, ["192.0.2.2".parse::<IpAddr>().unwrap(), "2001:db8::2".parse().unwrap()]);
        assert_eq!((full.port, full.secure_port, full.weight), (1884, Some(8884), 3));
        assert_eq!(full.load, Load::new(0.5).unwrap());
        assert_eq!(full.location.map(Location::latitude), Some(41.9));
        assert!(!full.healthy && full.draining);
        assert_eq!(parse("c=[2001:db8::2]:1885").unwrap().port, 1885);
        assert_eq!(parse("c=2001:db8::2").unwrap().port, 1883);
    }

    #[test]
    fn each_fault_is_named() {
        for (text, named) in [
            ("a", "NAME=ADDRESS"),
            ("=192.0.2.1", "cannot be a name"),
            ("a=", "not an address"),
            ("a=192.0.2.1:99999", "not an address"),
            ("a=192.0.2.1;weight=-1", "weight=-1"),
            ("a=192.0.2.1;load=2", "not a load"),
            ("a=192.0.2.1;at=41.9", "LATITUDE"),
            ("a=192.0.2.1;at=91,0", "not a latitude"),
            ("a=192.0.2.1;sideways", "there is weight"),
            ("a=192.0.2.1;down=1", "there is weight"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
