//! The manifest, the list of statements and the cases agree.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use tidegate_conformance::{Manifest, Status, Version};

#[test]
fn every_statement_is_mapped_and_every_row_is_true() {
    let problems = Manifest::in_tree().unwrap().problems();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_row_with_a_status_is_counted() {
    let manifest = Manifest::in_tree().unwrap();
    for (version, all) in [(Version::V311, 117), (Version::V5, 251)] {
        let counted: usize = Status::ALL.into_iter().map(|status| manifest.count(version, status)).sum();
        assert_eq!(counted, all, "{version}");
    }
}

/// Tests of other crates are named `crate::function`; the function has to be there, behind `#[test]` or in a macro
/// that makes tests.
#[test]
fn named_tests_of_other_crates_exist() {
    let manifest = Manifest::in_tree().unwrap();
    let mut missing = Vec::new();
    for (version, statement, row) in manifest.rows() {
        for test in row.tests.iter().filter(|test| test.contains("::")) {
            let (of, function) = test.split_once("::").unwrap();
            let wanted = format!("fn {function}(");
            let sources = rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of));
            if !sources.iter().any(|file| fs::read_to_string(file).unwrap_or_default().contains(&wanted)) {
                missing.push(format!("{version} {statement}: {test}"));
            }
        }
    }
    assert!(missing.is_empty(), "tests that do not exist:\n{}", missing.join("\n"));
}

fn rust_files(under: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![under.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}
