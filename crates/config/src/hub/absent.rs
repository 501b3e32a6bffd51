//! A program without pipelines refuses their sections.

use super::FilesOf;
use crate::Config;
use crate::feature::not_built;
use crate::finding::Findings;
use crate::path::KeyPath;
use crate::sections::Store;
use crate::sections::hub::Pipeline;
use crate::source::Source;

/// Refuses each section of the hub.
pub(crate) fn refuse(config: &Config, findings: &mut Findings) {
    let counts =
        [("pipeline", config.pipelines.len()), ("source", config.hub_sources.len()), ("sink", config.sinks.len())];
    for (section, count) in counts {
        for index in 0..count {
            let source = config.origins.source(&KeyPath { section, index, key: "name" }).clone();
            findings.push(not_built(&format!("[[{section}]]"), "pipelines"), source);
        }
    }
    let bus = config.origins.source_of("hub", "bus");
    if *bus != Source::Default {
        findings.push(not_built("hub.bus", "pipelines"), bus.clone());
    }
}

/// A program without pipelines has no files of sinks.
///
/// # Errors
/// Never.
pub fn check_files(_: &Config, _: FilesOf) -> Result<(), Findings> {
    Ok(())
}

/// A program without pipelines needs no store for them.
pub fn store_warning(_: &[Pipeline], _: &Store, _: bool) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

    #[test]
    fn a_lean_program_names_the_feature_it_lacks() {
        let text =
            "[[pipeline]]\nname = 'p'\nfrom = ['a']\nto = ['s']\n[[sink]]\nname = 's'\n[hub]\nbus = 'nats://h'\n";
        let file = FileText::new("tidegate.toml", text);
        let found = Config::load(Inputs { file: Some(file), ..Inputs::default() }).unwrap_err().to_string();
        for (key, line) in [("[[pipeline]]", 2), ("[[sink]]", 6), ("hub.bus", 8)] {
            let said = format!("{key} needs the feature `pipelines`, and this program was built without it");
            assert!(found.contains(&said) && found.contains(&format!("tidegate.toml:{line}:")), "{found}");
        }
    }
}
