//! A module is named after its content, and every file is reached by a module.

use crate::Violation;
use crate::source::Sources;
use crate::tree::Tree;

/// Names without a meaning for the content.
const BANNED: &[&str] =
    &["util", "utils", "utilities", "common", "commons", "helper", "helpers", "base", "misc", "shared_code", "stuff"];

/// Files, folders and modules whose name says nothing.
pub fn violations(tree: &Tree, sources: &Sources) -> Vec<Violation> {
    let advice = |name: &str| format!("`{name}` does not name the content: use its noun");
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with("crates/") || file.path.starts_with("e2e/")) {
        for part in file.path.split('/') {
            let name = part.split_once('.').map_or(part, |(stem, _)| stem);
            if BANNED.contains(&name) {
                found.push(Violation::new(&file.path, 0, advice(name)));
            }
        }
    }
    for source in &sources.files {
        for (name, line) in source.inline_modules.iter().filter(|(name, _)| BANNED.contains(&name.as_str())) {
            found.push(Violation::new(&source.path, *line, advice(name)));
        }
    }
    found
}

/// Files that no module declares, so that they are not compiled.
pub fn orphans(sources: &Sources) -> Vec<Violation> {
    let advice = "no `mod` reaches this file, so it is not compiled: declare it or delete it";
    sources.orphans.iter().map(|path| Violation::new(path, 0, advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grab_bags_are_caught_as_file_folder_and_module() {
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", "mod utils;\nmod parts;\nmod common { }\n"),
            ("crates/x/src/utils.rs", ""),
            ("crates/x/src/parts/helpers/deep.rs", ""),
            ("crates/x/src/parts/mod.rs", ""),
        ]);
        let found = violations(&tree, &Sources::load(&tree).unwrap());
        assert_eq!(found.len(), 3, "{}", crate::report(&found));
    }
}
