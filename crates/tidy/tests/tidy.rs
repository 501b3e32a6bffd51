//! The working tree against the house rules, one test per rule.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::LazyLock;

use tidegate_tidy::rules::{
    budgets, contexts, documented, errors, layers, links, map, named, names, panics, promises, purity, structure, text,
    walks, words,
};
use tidegate_tidy::source::Sources;
use tidegate_tidy::tree::{self, Tree};
use tidegate_tidy::{Violation, ceilings, exceptions, report};

static TREE: LazyLock<Tree> = LazyLock::new(|| Tree::load().unwrap());
static SOURCES: LazyLock<Sources> = LazyLock::new(|| Sources::load(&TREE).unwrap());

fn none(violations: &[Violation]) {
    assert!(violations.is_empty(), "{}", report(violations));
}

#[test]
fn lower_crates_never_import_higher_ones() {
    none(&layers::violations(&layers::metadata().unwrap()));
}

#[test]
fn pure_crates_see_no_clock_socket_thread_or_randomness() {
    none(&purity::violations(&SOURCES));
}

#[test]
fn bytes_of_a_peer_cannot_end_a_thread() {
    none(&panics::violations(&SOURCES, exceptions::PANICS));
}

#[test]
fn files_keep_their_budget() {
    none(&budgets::files(&SOURCES, exceptions::LONG_FILES));
}

#[test]
fn functions_keep_their_budget() {
    none(&budgets::functions(&SOURCES, exceptions::LONG_FUNCTIONS));
}

#[test]
fn no_type_has_too_many_functions() {
    none(&structure::methods(&SOURCES, exceptions::CASES, ceilings::METHODS));
}

#[test]
fn modules_import_each_other_in_no_more_circles() {
    none(&structure::circles(&SOURCES, ceilings::CIRCLES));
    none(&structure::file_circles(&SOURCES, ceilings::FILE_CIRCLES));
}

#[test]
fn errors_are_types() {
    none(&errors::violations(&SOURCES, ceilings::TEXT_ERRORS));
}

#[test]
fn contexts_of_the_engine_borrow_few_parts() {
    none(&contexts::violations(&TREE));
}

#[test]
fn imports_inside_the_engine_go_down() {
    none(&structure::arrows_up(&SOURCES, ceilings::ARROWS));
}

#[test]
fn modules_are_named_after_their_content() {
    none(&names::violations(&TREE, &SOURCES));
}

#[test]
fn every_file_is_reached_by_a_module() {
    none(&names::orphans(&SOURCES));
}

#[test]
fn every_reason_is_documented() {
    none(&documented::reasons(&TREE, &SOURCES));
}

#[test]
fn every_metric_is_documented() {
    none(&documented::metrics(&TREE, &SOURCES));
}

#[test]
fn each_promise_of_success_has_a_test() {
    none(&promises::violations(&TREE));
}

#[test]
fn the_map_names_every_part() {
    none(&map::violations(&TREE));
}

#[test]
fn links_between_pages_lead_somewhere() {
    none(&links::violations(&TREE));
}

#[test]
fn files_and_tests_that_pages_name_are_there() {
    none(&named::files(&TREE));
    none(&named::tests(&TREE));
}

#[test]
fn walks_name_functions_of_the_files_beside_them() {
    none(&walks::violations(&TREE));
}

#[test]
fn text_is_clean_and_means_the_same_everywhere() {
    none(&text::violations(&TREE));
}

#[test]
fn words_become_plainer() {
    if std::env::var_os("TIDY_LOWER").is_some() {
        std::fs::write(tree::root().join(words::CEILINGS), words::lowered(&TREE)).unwrap();
        return;
    }
    none(&words::violations(&TREE));
}
