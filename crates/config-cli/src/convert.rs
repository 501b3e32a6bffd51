//! `tidegate config convert`.

mod foreign;

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate_conversion::{Conversion, ConvertedLine, File as TheirFile, Outcome};
use tidegate_foreign_conf::Broker;
use tidegate_mosquitto_conf::{DynamicSecurity, NotMosquitto, dynamic_security};
use tidegate_terminal::{Exit, complain, print_and_exit, report};

use tidegate_config::authentication::settings::names;
use tidegate_config::sections::auth::Auth;
use tidegate_config::tls_settings::of_listeners;
use tidegate_config::{Config, Inputs};
use tidegate_document::{FileText, read_bounded};
use tidegate_identity::{access, authentication};

/// The arguments of `config convert`.
#[derive(Clone, Debug, Args)]
pub struct ConvertArgs {
    /// mosquitto.conf, dynamic-security.json, emqx.conf, HiveMQ's config.xml, nanomq.conf, rabbitmq.conf, definitions.json or vernemq.conf
    pub file: PathBuf,
    /// The broker that the file belongs to, where its content does not say it
    #[arg(long, value_name = "BROKER")]
    pub from: Option<From>,
    /// Write here instead of to standard output, users beside it with the ending .users; a directory for dynamic-security.json
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Print each line with `carried`, `changed` or `refused` and why, and the result, as JSON
    #[arg(long, conflicts_with = "diff")]
    pub json: bool,
    /// Print each line with its conversion, in place of the result
    #[arg(long)]
    pub diff: bool,
}

/// The arguments of `config keys`.
#[derive(Clone, Debug, Args)]
pub struct KeysArgs {
    /// The broker
    pub broker: From,
}

/// A broker whose configuration is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum From {
    /// EMQX
    Emqx,
    /// HiveMQ
    Hivemq,
    /// Mosquitto
    Mosquitto,
    /// NanoMQ
    Nanomq,
    /// RabbitMQ
    Rabbitmq,
    /// VerneMQ
    Vernemq,
}

impl From {
    /// The broker; `None` for Mosquitto, whose configurations have a crate of their own.
    pub(crate) const fn broker(self) -> Option<tidegate_foreign_conf::Broker> {
        use tidegate_foreign_conf::Broker;
        match self {
            Self::Emqx => Some(Broker::Emqx),
            Self::Hivemq => Some(Broker::HiveMq),
            Self::Mosquitto => None,
            Self::Nanomq => Some(Broker::NanoMq),
            Self::Rabbitmq => Some(Broker::RabbitMq),
            Self::Vernemq => Some(Broker::VerneMq),
        }
    }
}

/// Longest value that the table shows, characters.
const SHOWN_VALUE: usize = 40;

/// Prints the keys of a broker.
pub(crate) fn keys(args: &KeysArgs) -> Exit {
    let page = args.broker.broker().map_or_else(tidegate_mosquitto_conf::key_page, Broker::key_page);
    print_and_exit(&page, Exit::Ok)
}

/// Converts a file.
pub(crate) fn run(args: &ConvertArgs) -> Exit {
    let text = match read_bounded(&args.file) {
        Ok(text) => text,
        Err(error) => {
            report(&format_args!("cannot read {}: {error}", args.file.display()));
            // Bytes that are no text are no configuration.
            return if error.kind() == io::ErrorKind::InvalidData { Exit::Usage } else { Exit::Failure };
        }
    };
    let name = args.file.display().to_string();
    let theirs = TheirFile { name: name.clone(), text };
    let broker = match args.from {
        Some(From::Mosquitto) => None,
        Some(from) => from.broker(),
        None => tidegate_foreign_conf::recognise(&theirs.text),
    };
    if let Some(broker) = broker {
        return foreign::run(args, broker, &theirs);
    }
    if theirs.text.trim_start().starts_with('{') {
        return convert_security(args, &theirs);
    }
    let Ok(conversion) = tidegate_mosquitto_conf::convert(&theirs, &folder) else {
        let others: Vec<&str> = Broker::ALL.iter().map(|broker| broker.name()).collect();
        report(&format_args!("{name}: {NotMosquitto}, and no configuration of {}", others.join(", ")));
        return Exit::Usage;
    };
    finish(args, &name, &conversion)
}

/// Reports a conversion and writes its result.
fn finish(args: &ConvertArgs, name: &str, conversion: &Conversion) -> Exit {
    complain(table(&conversion.lines));
    for note in &conversion.notes {
        complain(format_args!("note: {note}\n"));
    }
    // Checks of several values together are possible only now.
    let result =
        Config::load(Inputs { file: Some(FileText::new("the result", &*conversion.toml)), ..Inputs::default() });
    let files = match result {
        Ok(config) => NamedFiles::check(&config),
        Err(findings) => NamedFiles { problems: vec![findings.to_string()], ..NamedFiles::default() },
    };
    for (file, why) in &files.unchecked {
        complain(format_args!("note: the broker needs {}, which {why}\n", file.display()));
    }
    if !files.problems.is_empty() {
        complain(format_args!("\nThe result cannot be run as it is:\n{}\n", files.problems.join("\n").trim_end()));
    }
    let exit = if conversion.left_out || !files.problems.is_empty() { Exit::LeftOut } else { Exit::Ok };
    complain(summary(name, conversion));
    write(args, conversion, &files, exit)
}

/// The files that a result names.
#[derive(Default)]
struct NamedFiles {
    /// Faults of the existing files, or of the result itself: with them the result cannot be run.
    problems: Vec<String>,
    /// Files that are not checked, and why. They may be on the machine of the broker, for its user, or are written by
    /// `--output`.
    unchecked: BTreeMap<PathBuf, &'static str>,
}

/// Why a file is not checked; `None` if it can be.
fn block_reason(file: &Path) -> Option<&'static str> {
    let found = fs::metadata(file).and_then(|found| {
        // Opening a FIFO waits for its writer.
        if found.is_file() {
            fs::File::open(file)?;
        }
        Ok(found.file_type().is_fifo())
    });
    match found {
        Ok(true) => Some("is a FIFO, so it is not checked"),
        Ok(false) => None,
        Err(error) => reason_of(error.kind()),
    }
}

/// Why a file with this error is not checked; `None` for an error that the check reports.
fn reason_of(error: io::ErrorKind) -> Option<&'static str> {
    match error {
        io::ErrorKind::NotFound => Some("is not here"),
        io::ErrorKind::PermissionDenied => Some("cannot be read by this user, so it is not checked"),
        _ => None,
    }
}

impl NamedFiles {
    /// Whether all of them can be checked; the others are noted.
    fn are_checkable<'f>(&mut self, files: impl IntoIterator<Item = &'f (impl AsRef<Path> + ?Sized + 'f)>) -> bool {
        let unchecked = |file: &Path| block_reason(file).map(|why| (file.to_owned(), why));
        let unchecked: Vec<_> = files.into_iter().filter_map(|file| unchecked(file.as_ref())).collect();
        let all = unchecked.is_empty();
        self.unchecked.extend(unchecked);
        all
    }

    fn note(&mut self, checked: Result<(), impl Display>) {
        self.problems.extend(checked.err().map(|error| error.to_string()));
    }

    /// Checks files of users, rules, listeners and bridges.
    fn check(config: &Config) -> Self {
        let mut files = Self::default();
        for (auth, name) in config.auths.iter().zip(names(&config.auths)) {
            let of_users = [&auth.file, &auth.secret_file, &auth.public_key_file, &auth.jwks_file];
            if files.are_checkable(of_users.into_iter().chain([&auth.bearer_token_file, &auth.ca_file]).flatten()) {
                let alone = Config { auths: vec![Auth { name, ..auth.clone() }], ..config.clone() };
                files.note(authentication::check_files(&alone));
            }
        }
        if files.are_checkable(&config.access.acl_file) {
            files.note(access::load(config).map(drop));
        }
        for (index, tls) in of_listeners(&config.listeners) {
            let Some(listener) = config.listeners.get(index) else { continue };
            let certificates = listener.certificate.0.iter().chain(&listener.key.0).chain(&listener.crl.0);
            if files.are_checkable(certificates.chain(&tls.client_ca)) {
                files.note(tls.check().map_err(|error| format!("listener `{}`: {error}", listener.name)));
            }
        }
        for bridge in &config.bridges {
            if files.are_checkable([&bridge.ca, &bridge.certificate, &bridge.key].into_iter().flatten()) {
                files.note(bridge.check_files());
            }
        }
        files
    }
}

/// Converts a file of the dynamic security plugin: users and rules, each a file, and the sections that name them.
fn convert_security(args: &ConvertArgs, theirs: &TheirFile) -> Exit {
    let security = match dynamic_security(theirs) {
        Ok(security) => security,
        Err(error) => {
            report(&format_args!("{}: {error}", theirs.name));
            return Exit::Usage;
        }
    };
    let folder = args.output.as_deref().unwrap_or_else(|| Path::new("."));
    let (users, rules) = (folder.join("users"), folder.join("rules.toml"));
    // A string of JSON is one of TOML, too.
    let quoted = |path: &Path| serde_json::Value::from(path.display().to_string()).to_string();
    let toml = format!(
        "# Converted from {}.\n\n[[auth]]\nkind = \"password-file\"\nfile = {}\n\n[access]\nrules_file = {}\n",
        theirs.name,
        quoted(&users),
        quoted(&rules)
    );
    let DynamicSecurity { lines, left_out, .. } = security;
    let conversion = Conversion { toml, lines, notes: Vec::new(), left_out };
    complain(table(&conversion.lines));
    complain(summary(&theirs.name, &conversion));
    let exit = if left_out { Exit::LeftOut } else { Exit::Ok };
    if let Some(folder) = &args.output {
        let configuration = folder.join("tidegate.toml");
        let files = [(&users, &security.users), (&rules, &security.rules), (&configuration, &conversion.toml)];
        if let Err(error) = fs::create_dir_all(folder) {
            report(&format_args!("cannot make {}: {error}", folder.display()));
            return Exit::Failure;
        }
        for (path, text) in files {
            if let Err(error) = write_new(path, text) {
                report(&format_args!("cannot write {}: {error}", path.display()));
                return Exit::Failure;
            }
        }
        return if args.json { print_and_exit(&json(&conversion, None, exit), exit) } else { exit };
    }
    complain("The users and the rules are files: --output DIRECTORY writes them\n");
    match (args.json, args.diff) {
        (true, _) => print_and_exit(&json(&conversion, None, exit), exit),
        (_, true) => print_and_exit(&diff(&conversion.lines), exit),
        (false, false) => print_and_exit(&security.rules, exit),
    }
}

fn write(args: &ConvertArgs, conversion: &Conversion, files: &NamedFiles, exit: Exit) -> Exit {
    if let Some(output) = &args.output
        && let Err(error) = write_new(output, &conversion.toml)
    {
        report(&format_args!("cannot write {}: {error}", output.display()));
        return Exit::Failure;
    }
    match (args.json, args.diff, &args.output) {
        (true, ..) => print_and_exit(&json(conversion, Some(files), exit), exit),
        (_, true, _) => print_and_exit(&diff(&conversion.lines), exit),
        (false, false, Some(_)) => exit,
        (false, false, None) => print_and_exit(&conversion.toml, exit),
    }
}

/// Each line with its result and the reason, for people.
fn table(lines: &[ConvertedLine]) -> String {
    let rows: Vec<(String, String, &ConvertedLine)> =
        lines.iter().map(|line| (format!("{}:{}", line.file, line.line), said(line), line)).collect();
    let place_width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or_default();
    let said_width = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or_default();
    let mut out = String::new();
    for (place, said, line) in &rows {
        let row = format!("{place:place_width$}  {:7}  {said:said_width$}  {}", line.outcome.word(), line.why);
        let _ = writeln!(out, "{}", row.trim_end());
    }
    out
}

/// A line as the table shows it.
fn said(line: &ConvertedLine) -> String {
    let mut value: String = line.value.chars().take(SHOWN_VALUE).collect();
    if line.value.chars().nth(SHOWN_VALUE).is_some() {
        value.push('…');
    }
    format!("{} {value}", line.key).trim_end().to_owned()
}

fn summary(name: &str, conversion: &Conversion) -> String {
    let count = |outcome| conversion.lines.iter().filter(|line| line.outcome == outcome).count();
    let (carried, changed, refused) = (count(Outcome::Carried), count(Outcome::Changed), count(Outcome::Refused));
    format!("{name}: {carried} lines carried, {changed} changed, {refused} refused\n")
}

/// Each line of theirs with `-`, and its conversion with `+`, or the reason for its omission with `!`.
fn diff(lines: &[ConvertedLine]) -> String {
    let mut out = String::new();
    for line in lines {
        let _ = writeln!(out, "{}", format!("- {} {}", line.key, line.value).trim_end());
        for becomes in &line.becomes {
            let _ = writeln!(out, "+ {becomes}");
        }
        if line.outcome != Outcome::Carried {
            let _ = writeln!(out, "! {}: {}", line.outcome.word(), line.why);
        }
    }
    out
}

/// `files`: the files of a checked result.
fn json(conversion: &Conversion, files: Option<&NamedFiles>, exit: Exit) -> String {
    let lines: Vec<serde_json::Value> = conversion
        .lines
        .iter()
        .map(|line| {
            serde_json::json!({
                "file": line.file, "line": line.line, "key": line.key, "value": line.value,
                "outcome": line.outcome.word(), "why": line.why, "becomes": line.becomes,
            })
        })
        .collect();
    let left_out = exit == Exit::LeftOut;
    let mut all =
        serde_json::json!({ "left_out": left_out, "lines": lines, "notes": conversion.notes, "toml": conversion.toml });
    if let Some(NamedFiles { problems, unchecked }) = files {
        let unchecked = unchecked.iter();
        all["problems"] = problems.clone().into();
        all["unchecked_files"] = unchecked
            .map(|(file, why)| serde_json::json!({ "file": file.display().to_string(), "why": why }))
            .collect();
    }
    format!("{all:#}\n")
}

/// Writes a new file, for its owner alone: a result that a user has worked on is kept.
fn write_new(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(content.as_ref()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::Error::new(error.kind(), "it is there already; delete it first, or choose another name"))
        }
        Err(error) => Err(error),
    }
}

/// The files of a folder that Mosquitto would read, in its order.
fn folder(path: &str) -> io::Result<Vec<TheirFile>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    let read = |path: &PathBuf| read_bounded(path).map(|text| TheirFile { name: path.display().to_string(), text });
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files_are_named_and_not_checked() {
        assert_eq!(reason_of(io::ErrorKind::NotFound), Some("is not here"));
        assert!(reason_of(io::ErrorKind::PermissionDenied).is_some_and(|why| why.contains("by this user")));
        assert_eq!(reason_of(io::ErrorKind::NotADirectory), None, "the check reports it");
        assert_eq!(block_reason(Path::new("/dev/null")), None);
        assert_eq!(block_reason(Path::new("/")), None, "the check reports that it is no file");
    }
}
