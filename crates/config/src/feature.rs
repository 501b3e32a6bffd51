//! Parts of the configuration that need a feature of Cargo, for a program without it.

use tidegate_bus::{Address, AddressError};

use crate::value::Problem;

/// The problem of the key or section `what`: it needs a feature, and this program was built without that feature.
pub(crate) fn not_built(what: &str, feature: &str) -> Problem {
    Problem::new(format!("{what} needs the feature `{feature}`, and this program was built without it"))
        .hint(format!("take the full program, or build this one with `--features {feature}`"))
}

/// The problem of a bus: its address is wrong, or this program has no client for it.
pub(crate) fn bus_problem(address: &Result<Address, AddressError>) -> Option<Problem> {
    match address {
        Err(error) => Some(Problem::new(error.to_string())),
        Ok(Address::Nats { .. }) if !cfg!(feature = "nats") => Some(not_built("a bus on NATS", "nats")),
        Ok(_) => None,
    }
}

#[cfg(all(test, not(feature = "nats")))]
mod tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

    #[test]
    fn a_lean_program_refuses_each_bus_on_nats() {
        for (section, more) in [
            ("[cluster]\nname = 'a'", ""),
            ("[mirror]\nname = 'a'", "[store]\ndirectory = '/tmp/x'\n"),
            ("[context]", ""),
        ] {
            let file = FileText::new("tidegate.toml", format!("{section}\nbus = 'nats://h'\n{more}"));
            let found = Config::load(Inputs { file: Some(file), ..Inputs::default() }).unwrap_err().to_string();
            assert!(found.contains("needs the feature `nats`"), "{section}: {found}");
        }
    }
}
