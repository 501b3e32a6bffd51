//! `tidegate config ...`.

mod convert;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::access;
use crate::authentication;
use crate::cli::{ConfigArgs, ConfigCommand};
use tidegate_config::finding::Findings;
use tidegate_config::path::{holder, known_key, known_section};
use tidegate_config::show::{Which, show};
use tidegate_config::source::FileText;
use tidegate_config::value::Problem;
use tidegate_config::{Config, Inputs, reference};
use tidegate_terminal::{Exit, complain, print_and_exit, report};

/// Largest configuration file that is read, bytes.
const MAX_FILE_SIZE: u64 = 4 * 1024 * 1024;

/// Does what is asked for with a configuration.
pub(crate) fn run(command: &ConfigCommand) -> Exit {
    match command {
        ConfigCommand::Check { file } => check(file),
        ConfigCommand::Show { effective, sources } => show_config(*effective, sources),
        ConfigCommand::Explain { key } => explain(key.as_deref()),
        ConfigCommand::Convert(args) => convert::run(args),
        ConfigCommand::Reference => print_and_exit(&reference::page(), Exit::Ok),
    }
}

fn show_config(effective: bool, sources: &ConfigArgs) -> Exit {
    let config = match load(sources) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let text = show(&config, if effective { Which::Effective } else { Which::Set });
    if text.is_empty() {
        complain("hint: nothing is set; --effective shows the defaults\n");
    }
    print_and_exit(&text, Exit::Ok)
}

/// Reads the configuration that a command line asks for. What is wrong with it has been reported.
pub(crate) fn load(sources: &ConfigArgs) -> Result<Config, Exit> {
    let file = match &sources.config {
        Some(path) => Some(read(path).map_err(|()| Exit::Usage)?),
        None => None,
    };
    load_with(file, sources).map_err(|findings| {
        complain_about(&findings);
        Exit::Usage
    })
}

fn load_with(file: Option<FileText>, sources: &ConfigArgs) -> Result<Config, Findings> {
    Config::load(Inputs { file, environment: environment(), flags: sources.flags() })
}

/// The same for a broker that runs.
///
/// # Errors
/// What is wrong with it, in words for people.
pub(crate) fn load_again(sources: &ConfigArgs) -> Result<Config, String> {
    let read = |path: &Path| {
        let text = read_bounded(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok::<_, String>(FileText::new(path.display().to_string(), text))
    };
    let file = sources.config.as_deref().map(read).transpose()?;
    load_with(file, sources).map_err(|findings| findings.to_string())
}

/// The variables that may be ours. One that is not Unicode cannot be a name of ours, nor a value that we take.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.to_string_lossy().into_owned()))
        })
        .collect()
}

fn complain_about(findings: &Findings) {
    complain(findings);
    if findings.len() > 1 {
        complain(format_args!("\n{} problems in the configuration\n", findings.len()));
    }
}

/// Reads a file; when that fails the reason has been reported.
fn read(path: &Path) -> Result<FileText, ()> {
    match read_bounded(path) {
        Ok(text) => Ok(FileText::new(path.display().to_string(), text)),
        Err(error) => {
            report(&format_args!("cannot read {}: {error}", path.display()));
            Err(())
        }
    }
}

/// Reads a file, but not one that is too large. A pipe and a device have no length to ask for beforehand.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(MAX_FILE_SIZE + 1);
    file.read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => io::Error::new(error.kind(), "it is no UTF-8 text; save it as UTF-8"),
        _ => error,
    })?;
    if file.limit() == 0 {
        let text = format!("it is larger than {MAX_FILE_SIZE} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(text)
}

fn check(path: &Path) -> Exit {
    let Ok(file) = read(path) else {
        return Exit::Failure;
    };
    let name = file.name.clone();
    let inputs = Inputs { file: Some(file), ..Inputs::default() };
    match Config::load(inputs) {
        // Files that cannot be used keep the broker from starting as much as a wrong key does.
        Ok(config) => match problems_of_files(&config) {
            problems if problems.is_empty() => print_and_exit(&format!("{name}: right\n"), Exit::Ok),
            problems => {
                for problem in problems {
                    report(&problem);
                }
                Exit::Failure
            }
        },
        Err(findings) => {
            complain_about(&findings);
            Exit::Failure
        }
    }
}

/// What is wrong with the files that a configuration names.
fn problems_of_files(config: &Config) -> Vec<String> {
    let rules = access::load(config).map(drop).map_err(|error| error.to_string());
    let listeners = config.tls_settings().into_iter().map(|(position, settings)| {
        let name = config.listeners.get(position).map_or("", |listener| &listener.name);
        settings.check().map_err(|error| format!("listener `{name}`: {error}"))
    });
    let groups = crate::context::check_files(config);
    let others = [rules, authentication::check_files(config), groups, crate::durable::check_directory(config)];
    let bridges = tidegate_config::bridges::check_files(config);
    others.into_iter().chain(listeners).chain(bridges).filter_map(Result::err).collect()
}

fn explain(key: Option<&str>) -> Exit {
    let text = match key {
        None => Ok(reference::explain_all()),
        Some(name) => explain_name(name),
    };
    match text {
        Ok(text) => print_and_exit(&text, Exit::Ok),
        Err(problem) => {
            report(&problem.message);
            if let Some(hint) = problem.hint {
                complain(format_args!("hint: {hint}\n"));
            }
            Exit::Usage
        }
    }
}

/// Explains `section`, `section.key`, or `section.N.key` as it is written elsewhere.
fn explain_name(name: &str) -> Result<String, Problem> {
    let parts: Vec<&str> = name.split('.').filter(|part| part.parse::<usize>().is_err()).collect();
    match parts[..] {
        [one] => match known_section(one) {
            Ok(section) => Ok(reference::explain_section(section)),
            // A key without its section is good enough where only one section has it.
            Err(problem) => match holder(one) {
                Some((section, key)) => Ok(reference::explain_key(section, key)),
                None => Err(problem),
            },
        },
        [section, key] => {
            let section = known_section(section)?;
            Ok(reference::explain_key(section, known_key(section, key)?))
        }
        _ => Err(Problem::new(format!("`{name}` names no key: SECTION.KEY"))),
    }
}
