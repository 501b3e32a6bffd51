//! A configuration is put together from its sources, in their order.

use super::Config;
use super::address;
use super::file;
use super::finding::Findings;
use super::origins::Origins;
use super::overrides::{self, Flags, Override};
use super::path::KeyPath;
use super::sections::Listener;
use super::source::{FileText, Source};
use super::value::{Problem, Raw};

/// A configuration under construction, and everything that is wrong with its keys.
pub(super) struct Loading {
    pub(super) config: Config,
    pub(super) findings: Findings,
}

impl Loading {
    pub(super) fn new(file: Option<FileText>) -> Self {
        let config = Config { origins: Origins::of(file.clone()), ..Config::default() };
        Self { config, findings: Findings::about(file) }
    }

    /// Reads all sources.
    pub(super) fn read(mut self, environment: &[(String, String)], flags: &Flags) -> (Config, Findings) {
        self.apply_file();
        if self.config.listeners.is_empty() {
            self.config.listeners.push(Listener::default());
        }
        for it in overrides::from_environment(environment, &mut self.findings) {
            self.apply_override(it);
        }
        self.apply_flags(flags);
        name_listeners(&mut self.config.listeners);
        (self.config, self.findings)
    }

    fn apply_file(&mut self) {
        let Some(file) = self.config.origins.file().cloned() else {
            return;
        };
        let entries = file::read(&file, &mut self.findings);
        for (section, count) in &entries.repeated {
            self.config.resize(section, *count);
        }
        for entry in entries.list {
            self.set(entry.path, &entry.raw, Source::File(entry.span));
        }
    }

    fn apply_override(&mut self, it: Override) {
        // One more than there are is named to add one.
        let count = self.config.sections(it.path.section).len();
        if it.path.index == count {
            self.config.resize(it.path.section, count + 1);
        }
        self.set(it.path, &Raw::Word(it.value), it.source);
    }

    pub(super) fn apply_flags(&mut self, flags: &Flags) {
        if !flags.listen.is_empty() {
            self.config.listeners = vec![Listener::default(); flags.listen.len()];
            self.config.origins.forget("listener");
        }
        for (index, (address, flag)) in flags.listen.iter().enumerate() {
            let path = KeyPath { section: "listener", index, key: "address" };
            let source = Source::Flag(flag.clone());
            self.set(path, &Raw::Word(address.clone()), source);
        }
        for (address, flag) in &flags.quic {
            let path = KeyPath { section: "listener", index: self.config.listeners.len(), key: "address" };
            self.config.listeners.push(Listener::default());
            self.set(path, &Raw::Word(quic_address(address)), Source::Flag(flag.clone()));
        }
        if flags.allow_anonymous {
            self.allow_anonymous();
        }
        for it in overrides::from_flags(flags, &mut self.findings) {
            self.apply_override(it);
        }
    }

    fn allow_anonymous(&mut self) {
        let source = Source::Flag("--allow-anonymous".to_owned());
        let Config { listeners, admin, origins, .. } = &mut self.config;
        let mut note = |section, index| {
            let key = "allow_anonymous";
            origins.set(KeyPath { section, index, key }, source.clone());
        };
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.allow_anonymous = true;
            note("listener", index);
        }
        admin.allow_anonymous = true;
        note("admin", 0);
    }

    pub(super) fn set(&mut self, path: KeyPath, raw: &Raw, source: Source) {
        if let Err(problem) = self.config.try_set(path, raw, source.clone()) {
            let said = if path.holds_credentials() {
                problem.message.replace(&raw.describe(), "its value")
            } else {
                problem.message.clone()
            };
            let message = format!("`{path}` {said}");
            self.findings.push(Problem { message, ..problem }, source);
        }
    }
}

/// Gives a name to each listener that has none.
fn name_listeners(listeners: &mut [Listener]) {
    let mut names: Vec<String> = listeners.iter().map(|it| it.name.clone()).collect();
    for index in 0..names.len() {
        if !names[index].is_empty() {
            continue;
        }
        let stem = address::default_name(&listeners[index].address);
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let free = std::iter::once(stem.clone()).chain(numbered).find(|name| !names.contains(name));
        names[index] = free.unwrap_or_default();
        listeners[index].name.clone_from(&names[index]);
    }
}

/// The address of a listener for QUIC, which may be written without its scheme.
fn quic_address(text: &str) -> String {
    if text.contains("://") { text.to_owned() } else { format!("quic://{text}") }
}
