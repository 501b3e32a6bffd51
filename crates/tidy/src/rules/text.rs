//! Files are clean text that means the same on every machine.

use crate::Violation;
use crate::tree::{File, Tree};

/// Folders of one machine. Written in halves, so that this file does not break its own rule.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

/// Hosts of package registries: a lock file that names one ties everybody to it.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("registry.npm", "js.org"),
    concat!("registry.yarn", "pkg.com"),
    concat!("files.python", "hosted.org"),
    concat!("pypi.", "org"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("proxy.golang", ".org"),
];

/// The only source that Cargo's lock file names.
const CARGO_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Lines that are not clean.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter(|file| !file.binary && !is_data(&file.path)).flat_map(in_file).collect()
}

/// Inputs of tests and fuzzers are kept byte by byte.
fn is_data(path: &str) -> bool {
    path.contains("/corpus/") || path.contains("/snapshots/")
}

fn in_file(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut note = |line: usize, text: String| found.push(Violation::new(&file.path, line, text));
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        note(file.text.lines().count(), "the last line does not end: add a line feed".to_owned());
    }
    for (number, line) in (1..).zip(file.text.split('\n')) {
        if line.ends_with('\r') {
            note(number, "a carriage return: end lines with a line feed alone".to_owned());
        } else if line.ends_with([' ', '\t']) {
            note(number, "white space at the end of the line: remove it".to_owned());
        }
        if let Some(place) = MACHINE_PATHS.iter().find(|place| names_folder(line, place)) {
            note(number, format!("`{place}` is a folder of one machine: use a relative path or a setting"));
        }
        if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(*host)) {
            note(number, format!("`{host}` ties everybody to one registry: lock files name versions and hashes only"));
        }
        if file.path.ends_with("package-lock.json") && line.trim_start().starts_with("\"resolved\"") {
            note(number, "a resolved address: run npm with omit-lockfile-registry-resolved=true".to_owned());
        }
        if file.path.ends_with("Cargo.lock") && line.starts_with("source = ") && !line.contains(CARGO_SOURCE) {
            note(number, "a crate from elsewhere than the default registry".to_owned());
        }
    }
    found
}

/// Whether a line names something below a folder, rather than a topic that contains its name.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(position, _)| {
        let before = line[..position].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.+#/$}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        violations(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn untidy_ends_are_caught() {
        assert_eq!(count("a.md", "one \ntwo\r\nthree"), 3);
        assert_eq!(count("a.md", "one\n\ntwo\n"), 0);
    }

    #[test]
    fn machine_paths_are_caught_and_topics_are_not() {
        assert_eq!(count("a.md", concat!("see /ho", "me/person/x\n")), 1);
        assert_eq!(count("a.md", "publish to my/home/kitchen\n"), 0);
    }

    #[test]
    fn registries_are_caught() {
        assert_eq!(count("e2e/package-lock.json", "  \"resolved\": \"x\",\n"), 1);
        assert_eq!(count("a.md", concat!("https://pypi.", "org/simple\n")), 1);
        assert_eq!(count("Cargo.lock", "source = \"git+https://example.org/x\"\n"), 1);
    }

    #[test]
    fn a_corpus_is_left_alone() {
        assert_eq!(count("crates/mqtt/fuzz/corpus/connect/a", "x \ny"), 0);
    }
}
