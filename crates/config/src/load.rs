//! Loads the configuration from its sources: a file, the environment and the command line.

use std::path::PathBuf;

use tidegate_document::{FileText, ReadError};

use crate::address::AdminAddress;
use crate::finding::Findings;
use crate::loading::Loading;
use crate::overrides::Flags;
use crate::path::KeyPath;
use crate::source::Source;
use crate::{Config, Inputs};

/// The sources of a configuration, beside the environment of the process.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// The flags of the command line.
    pub flags: Flags,
}

/// Why a configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Keys or values are wrong.
    #[error("{0}")]
    Wrong(Findings),
}

impl Sources {
    /// Loads and checks the configuration.
    ///
    /// # Errors
    /// When the file cannot be read, or a source has a key or a value that is wrong.
    pub fn load(&self) -> Result<Config, LoadError> {
        let file = self.file.as_deref().map(FileText::load).transpose()?;
        Config::load(Inputs { file, environment: environment(), flags: self.flags.clone() }).map_err(LoadError::Wrong)
    }

    /// The address of the admin listener of a process with these sources, and its source. Only this key of the
    /// environment is read.
    ///
    /// # Errors
    /// When the file cannot be read, or it or this key of the environment is wrong.
    pub fn admin_address(&self) -> Result<(AdminAddress, Source), LoadError> {
        let file = self.file.as_deref().map(FileText::load).transpose()?;
        let inputs = Inputs { file, environment: environment(), flags: self.flags.clone() };
        admin_address(inputs).map_err(LoadError::Wrong)
    }
}

fn admin_address(Inputs { file, mut environment, flags }: Inputs) -> Result<(AdminAddress, Source), Findings> {
    let path = KeyPath { section: "admin", index: 0, key: "address" };
    // Other keys of the environment may need flags of the process, such as `--allow-anonymous`, which are not known here.
    environment.retain(|(name, _)| name.eq_ignore_ascii_case(&path.environment()));
    let (config, mut findings) = Loading::new(file).read(&environment, &flags);
    findings.sort();
    if findings.is_empty() { Ok((config.admin.address, config.origins.source(&path).clone())) } else { Err(findings) }
}

/// The variables of the environment. Variables with a name that is not Unicode are ignored; values that are not Unicode are refused later.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.to_string_lossy().into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, environment: &[(&str, &str)]) -> Result<(String, Source), String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let file = Some(FileText::new("t.toml", text));
        let found = admin_address(Inputs { file, environment, flags: Flags::default() });
        let shown = |address| match address {
            AdminAddress::Off => "off".to_owned(),
            AdminAddress::At(at) => at.to_string(),
        };
        found.map(|(address, source)| (shown(address), source)).map_err(|findings| findings.to_string())
    }

    #[test]
    fn the_admin_address_is_that_of_the_process() {
        let variable = "TIDEGATE__ADMIN__ADDRESS";
        assert_eq!(asked("", &[]), Ok(("127.0.0.1:18083".to_owned(), Source::Default)));
        let (address, source) = asked("[admin]\naddress = '10.0.0.7:1'\n", &[]).unwrap();
        assert!(address == "10.0.0.7:1" && matches!(source, Source::File(_)), "{address} {source}");
        let (address, source) = asked("[admin]\naddress = '10.0.0.7:1'\n", &[(variable, "off")]).unwrap();
        assert_eq!((address.as_str(), source), ("off", Source::Environment(variable.to_owned())));
        assert!(asked("[admin]\naddress = 'x'\n", &[]).unwrap_err().contains("must be an address"));
        assert!(asked("", &[(variable, "x")]).unwrap_err().contains(variable));
    }

    #[test]
    fn other_keys_of_the_environment_need_no_flags() {
        let open = [("TIDEGATE__LISTENER__0__ADDRESS", "0.0.0.0:1883")];
        let all = Inputs { environment: vec![(open[0].0.to_owned(), open[0].1.to_owned())], ..Inputs::default() };
        assert!(Config::load(all).is_err(), "it needs --allow-anonymous");
        assert!(asked("", &open).is_ok());
    }
}
