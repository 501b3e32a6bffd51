//! ARCHITECTURE.md has the purpose of each part of the tree.

use std::collections::BTreeSet;

use crate::Violation;
use crate::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

/// Crates, and folders and files of the root, that the map does not name.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let Some(map) = tree.get(MAP) else {
        return vec![Violation::new(MAP, 0, "there is no map of the tree")];
    };
    let crates = tree.crates().into_iter().map(|name| format!("crates/{name}"));
    let tops = tree.files.iter().map(|file| match file.path.split_once('/') {
        Some((folder, _)) => format!("{folder}/"),
        None => file.path.clone(),
    });
    let parts: BTreeSet<String> = crates.chain(tops).filter(|part| part != MAP).collect();
    let unnamed = parts.iter().filter(|part| !map.text.contains(&format!("`{part}`")));
    unnamed.map(|part| Violation::new(MAP, 0, format!("`{part}` is not on the map: add its purpose"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_missing_from_the_map_is_caught() {
        let tree = Tree::of(&[
            (MAP, "| `crates/known` | `crates/` | `README.md` |"),
            ("README.md", ""),
            ("crates/known/Cargo.toml", ""),
            ("crates/unknown/Cargo.toml", ""),
            ("attic/old.rs", ""),
        ]);
        let found: Vec<String> = violations(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("attic/") && found[1].contains("crates/unknown"));
    }
}
