//! `tidegate config ...`.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::args::ConfigArgs;
use crate::convert;
use crate::loading::{load, report_load_error};
use crate::named_files;
use tidegate_config::hub::{FilesOf, check_files, store_warning};
use tidegate_config::load::LoadError;
use tidegate_config::path::{holder, known_key, known_section};
use tidegate_config::show::{Which, show};
use tidegate_config::tls_files;
use tidegate_config::value::Problem;
use tidegate_config::{Config, Inputs, reference};
use tidegate_document::FileText;
use tidegate_identity::access;
use tidegate_terminal::{Exit, complain, print_and_exit, report};

/// The commands around a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a file: exit code 0 when it is right, 1 with every problem when it is not
    ///
    /// The environment is left out. Flags count as at the start: a file whose node gets its name from `--node` is checked
    /// with this flag.
    Check {
        /// The file
        #[arg(conflicts_with = "config")]
        file: PathBuf,
        /// The flags that set keys.
        #[command(flatten)]
        sources: Box<ConfigArgs>,
    },
    /// Print the configuration as TOML, with the source of each value
    Show {
        /// All keys, not only the set ones
        #[arg(long)]
        effective: bool,
        /// The flags that set keys.
        #[command(flatten)]
        sources: Box<ConfigArgs>,
    },
    /// Explain a key, the keys of a section, or list the sections
    Explain {
        /// Such as `queue.overflow` or `queue`
        key: Option<String>,
    },
    /// Write the configuration of another broker as ours, and report the outcome of each line
    ///
    /// Mosquitto, EMQX, HiveMQ, NanoMQ, RabbitMQ and VerneMQ are recognised by the content of the file. The exit code is
    /// 0 where all was carried over or is done in another way, 3 where something was left out, and 2 where the file is
    /// no configuration of any of them.
    Convert(convert::ConvertArgs),
    /// Print each key of another broker with its outcome in `config convert`, as Markdown
    Keys(convert::KeysArgs),
    /// Print the reference of all keys, as Markdown
    Reference,
}

/// Carries out a command.
pub fn run(command: &ConfigCommand) -> Exit {
    match command {
        ConfigCommand::Check { file, sources } => check(file, sources),
        ConfigCommand::Show { effective, sources } => show_config(*effective, sources),
        ConfigCommand::Explain { key } => explain(key.as_deref()),
        ConfigCommand::Convert(args) => convert::run(args),
        ConfigCommand::Keys(args) => convert::keys(args),
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

fn check(path: &Path, sources: &ConfigArgs) -> Exit {
    let config = FileText::load(path).map_err(LoadError::from).and_then(|file| {
        let inputs = Inputs { file: Some(file), flags: sources.flags(), ..Inputs::default() };
        Config::load(inputs).map_err(LoadError::Wrong)
    });
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            report_load_error(&error);
            return Exit::Failure;
        }
    };
    // Files that cannot be used keep the broker from starting as much as a wrong key does.
    let listeners = tls_files::check(&config.listeners, &config.origins);
    let pipelines = check_files(&config, FilesOf::Configuration);
    let faults: Vec<_> =
        [named_files::check(&config), listeners, pipelines].into_iter().filter_map(Result::err).collect();
    if faults.is_empty() {
        let of_store = store_warning(&config.pipelines, &config.store, config.hub.bus.is_some());
        for warning in access::warnings(&config).unwrap_or_default().into_iter().chain(of_store) {
            complain(format_args!("warning: {warning}\n"));
        }
        return print_and_exit(&format!("{}: right\n", path.display()), Exit::Ok);
    }
    for findings in faults {
        complain(findings);
    }
    Exit::Failure
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
