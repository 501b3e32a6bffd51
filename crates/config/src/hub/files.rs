//! Files of sinks and sources, and settings that only the sink itself can judge.

use tidegate_hub::OpenError;

use super::settings::first_line;
use super::{FilesOf, PipelineError};
use crate::Config;
use crate::finding::Findings;
use crate::sections::hub::{Pipeline, Sink, SinkType};
use crate::value::Problem;

impl FilesOf {
    fn has_sink(self, config: &Config, name: &str) -> bool {
        let is_dead_letter = |pipeline: &Pipeline| pipeline.dead_letter.as_deref() == Some(name);
        match self {
            Self::Configuration => true,
            Self::Broker if config.hub.bus.is_some() => config.pipelines.iter().any(is_dead_letter),
            Self::Broker | Self::Hub => config.pipelines.iter().any(|pipeline| pipeline.uses(name)),
        }
    }

    fn has_source(self, config: &Config, name: &str) -> bool {
        let is_used = || config.pipelines.iter().any(|pipeline| pipeline.source.as_deref() == Some(name));
        match self {
            Self::Configuration => true,
            Self::Broker => config.hub.bus.is_none() && is_used(),
            Self::Hub => is_used(),
        }
    }
}

/// Reads the files of the sinks and sources of a process, and makes each sink without opening it.
///
/// # Errors
/// The fault of each, at its key.
pub fn check_files(config: &Config, of: FilesOf) -> Result<(), Findings> {
    let mut findings = Findings::about(config.origins.file().cloned());
    for (index, sink) in config.sinks.iter().enumerate().filter(|(_, sink)| of.has_sink(config, &sink.name)) {
        if let Some((key, why)) = fault_of(sink) {
            let problem = Problem::new(format!("sink `{}`: {why}", sink.name));
            findings.push(problem, config.origins.place("sink", index, key).clone());
        }
    }
    for (index, source) in config.hub_sources.iter().enumerate().filter(|(_, it)| of.has_source(config, &it.name)) {
        if let Some(error) = source.token_file.as_deref().and_then(|path| first_line(path).err()) {
            let problem = Problem::new(format!("source `{}`: {error}", source.name));
            findings.push(problem, config.origins.place("source", index, TOKEN_FILE).clone());
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The key of the token of a source.
const TOKEN_FILE: &str = "token_file";

fn fault_of(sink: &Sink) -> Option<(&'static str, String)> {
    if sink.kind == SinkType::Topic {
        return None;
    }
    match sink.kind_with_files("check") {
        Ok(kind) => kind.fault().map(|error| (key_of_fault(&error), error.to_string())),
        Err(error) => Some((key_of(sink, &error), error.to_string())),
    }
}

fn key_of_fault(error: &OpenError) -> &'static str {
    match error {
        OpenError::Setting { key, .. } => key,
        OpenError::Tls(_) => "ca",
        OpenError::Names(_) | OpenError::System(_) | OpenError::Part { .. } => "url",
    }
}

/// The key that an error is about.
fn key_of(sink: &Sink, error: &PipelineError) -> &'static str {
    let files = [
        ("secret_file", &sink.secret_file),
        ("authorization_file", &sink.authorization_file),
        ("password_file", &sink.password_file),
    ];
    match error {
        PipelineError::Secret { path, .. } | PipelineError::EmptySecret(path) | PipelineError::NoText(path) => {
            files.iter().find(|(_, file)| file.as_ref() == Some(path)).map_or("kind", |(key, _)| key)
        }
        PipelineError::Header => "headers",
        PipelineError::Tls(_) => "ca",
        _ => "url",
    }
}

#[cfg(test)]
mod tests {
    use super::FilesOf;
    use crate::source::FileText;
    use crate::{Config, Inputs};

    fn faults(sink: &str) -> String {
        let text = format!("[[sink]]\nname = \"s\"\n{sink}\n");
        let file = Some(FileText::new("t.toml", text));
        let config = Config::load(Inputs { file, ..Inputs::default() }).unwrap();
        super::check_files(&config, FilesOf::Configuration)
            .map_or_else(|findings| findings.to_string(), |()| String::new())
    }

    #[test]
    fn each_fault_of_a_sink_has_the_line_of_its_key() {
        for (sink, said, line) in [
            ("kind = \"http\"\nurl = \"ftp://x\"", "write http://HOST:PORT", 4),
            ("kind = \"postgres\"\ntable = \"t\"\nurl = \"http://x\"", "the URL of the database", 5),
            ("kind = \"mqtt\"\nurl = \"tcp:/x\"", "sink `s`", 4),
            ("kind = \"nats\"\nurl = \"http://:x\"", "no address of NATS", 4),
            ("kind = \"influxdb\"\nurl = \"http://x/write\"", "precision=ns", 4),
            ("kind = \"http\"\nheaders = [\"bad\"]\nurl = \"http://x\"", "NAME: VALUE", 4),
            ("kind = \"http\"\nsecret_file = \"nope\"\nurl = \"http://x\"", "cannot read the secret in nope", 4),
            ("kind = \"http\"\nca = \"nope\"\nurl = \"https://x\"", "cannot read certificates from nope", 4),
            ("kind = \"mqtt\"\npassword_file = \"nope\"\nurl = \"mqtt://x:1\"", "cannot read the secret in nope", 4),
        ] {
            let found = faults(sink);
            assert!(found.contains(said) && found.contains(&format!("--> t.toml:{line}:")), "{sink}: {found}");
        }
        assert_eq!(faults("kind = \"http\"\nurl = \"http://x\""), "");
        assert_eq!(faults("kind = \"topic\""), "");
    }

    #[test]
    fn a_broker_reads_the_files_that_it_uses() {
        let text = "[hub]\nbus = \"nats://127.0.0.1:1\"\n[[sink]]\nname = \"s\"\nkind = \"http\"\nurl = \"http://x\"\n\
                    secret_file = \"nope\"\n[[sink]]\nname = \"unused\"\nkind = \"http\"\nurl = \"ftp://x\"\n\
                    [[pipeline]]\nname = \"p\"\nfrom = [\"a\"]\nto = [\"s\"]\n";
        let file = Some(FileText::new("t.toml", text));
        let config = Config::load(Inputs { file, ..Inputs::default() }).unwrap();
        let faults = |of| super::check_files(&config, of).map_or_else(|findings| findings.len(), |()| 0);
        assert_eq!(faults(FilesOf::Broker), 0, "processes of the hub have the sink");
        assert_eq!(faults(FilesOf::Hub), 1);
        assert_eq!(faults(FilesOf::Configuration), 2);
    }
}
