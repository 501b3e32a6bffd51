//! Logins of the fleet at brokers (BRK-10).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use tidegate_units::percent::escape;

use crate::provider::Resource;
use crate::provider::process::Login;
use crate::secret_file;

/// Why the login of a broker is not known. The text does not hold the password.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the password in {}: {source}", .path.display())]
pub struct LoginError {
    path: PathBuf,
    source: io::Error,
}

/// Logins by template. Passwords are read when they are needed, and kept nowhere.
#[derive(Clone, Debug, Default)]
pub struct Logins(BTreeMap<String, Login>);

impl Logins {
    /// The logins of some templates.
    pub fn new(logins: BTreeMap<String, Login>) -> Self {
        Self(logins)
    }

    /// The address of a broker with its login: `mqtt://USER:PASSWORD@HOST:PORT`.
    ///
    /// # Errors
    /// When the password's file cannot be read.
    pub fn address(&self, resource: &Resource) -> Result<String, LoginError> {
        let Some(login) = self.0.get(&resource.template) else { return Ok(resource.address.clone()) };
        let (scheme, rest) = resource.address.split_once("://").unwrap_or(("mqtt", &resource.address));
        let password = secret_file::read(&login.password_file)
            .map_err(|source| LoginError { path: login.password_file.clone(), source })?;
        Ok(format!("{scheme}://{}:{}@{rest}", escape(&login.username), escape(&password)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn a_login_becomes_part_of_the_address() {
        let file = std::env::temp_dir().join(format!("tidegate-login-{}", std::process::id()));
        std::fs::write(&file, "p@ss:w\n").unwrap();
        let login = Login { username: "fleet".to_owned(), password_file: file.clone() };
        let logins = Logins::new(BTreeMap::from([("a".to_owned(), login)]));
        let resource = |template: &str| Resource {
            name: "broker-1".parse().unwrap(),
            level: Level::Broker,
            template: template.to_owned(),
            address: "mqtt://127.0.0.1:1".to_owned(),
            admin: None,
            pid: None,
            note: String::new(),
        };
        assert_eq!(logins.address(&resource("a")).unwrap(), "mqtt://fleet:p%40ss%3Aw@127.0.0.1:1");
        assert_eq!(logins.address(&resource("b")).unwrap(), "mqtt://127.0.0.1:1");
        let secure = Resource { address: "mqtts://127.0.0.1:1".to_owned(), ..resource("a") };
        assert_eq!(logins.address(&secure).unwrap(), "mqtts://fleet:p%40ss%3Aw@127.0.0.1:1");
        std::fs::remove_file(file).unwrap();
        assert!(logins.address(&resource("a")).unwrap_err().to_string().contains("tidegate-login"));
    }
}
