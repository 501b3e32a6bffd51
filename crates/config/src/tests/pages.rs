//! Statements of pages and examples about the configuration are true.

use super::from_file;
use crate::key::SectionKeys;
use crate::sections::SECTIONS;
use crate::{Config, Inputs, reference};

#[test]
fn the_reference_has_each_section_and_key() {
    let page = reference::page();
    for section in SECTIONS {
        assert!(page.contains(&format!("\n## `{}`\n", section.header())), "{}", section.header());
        for key in section.keys {
            assert!(page.contains(&format!("\n### `{}`\n", key.name)), "{}.{}", section.header(), key.name);
        }
    }
}

/// The examples of a page that are whole configurations: each begins with a section of ours. What begins with a comment
/// that says `part of` needs more around it.
fn examples(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let begins_one = |text: &&str| {
        let first = text.lines().find(|line| line.starts_with('[') || line.contains("part of")).unwrap_or_default();
        SECTIONS.iter().any(|section| first == section.header())
    };
    blocks.filter(begins_one).map(str::to_owned).collect()
}

#[test]
fn the_examples_of_all_pages_are_right() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let (mut found, mut wrong) = (0, Vec::new());
    for page in pages.chain([root.join("README.md")]).filter(|page| page.extension().is_some_and(|it| it == "md")) {
        for example in examples(&std::fs::read_to_string(&page).unwrap()) {
            found += 1;
            if let Err(said) = from_file(&example) {
                wrong.push(format!("{}:\n{example}\n{said}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found >= 12, "{found}");
}

/// The environment of each service of a Compose file that runs our image: lines `KEY: "VALUE"` below `environment:`.
fn compose_environments(text: &str) -> Vec<Vec<(String, String)>> {
    let services = text.split("\n\n").filter(|service| service.contains("image: tidegate:"));
    let of_line = |line: &str| {
        let (name, value) = line.trim().split_once(": ")?;
        name.starts_with("TIDEGATE__").then(|| (name.to_owned(), value.trim_matches('"').to_owned()))
    };
    services.map(|service| service.lines().filter_map(of_line).collect()).collect()
}

#[test]
fn services_of_the_compose_file_use_existing_keys() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("deploy/compose.yaml")).unwrap();
    let services = compose_environments(&text);
    assert_eq!(services.len(), 4, "{services:?}");
    for environment in services {
        assert!(environment.iter().any(|(name, _)| name == "TIDEGATE__CONTEXT__BUS"), "{environment:?}");
        let inputs = Inputs { environment, ..Inputs::default() };
        // Files are where the containers have them, not here.
        let said = Config::load(inputs).err().map(|findings| findings.to_string()).unwrap_or_default();
        assert!(said.is_empty() || said.contains("/etc/tidegate/groups.toml"), "{said}");
    }
}

#[test]
fn pages_name_environment_variables_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let keys = |section: &&SectionKeys| {
        let name = section.name;
        section.keys.iter().map(move |key| format!("TIDEGATE__{name}__{}", key.name).to_uppercase()).collect::<Vec<_>>()
    };
    let known: Vec<String> = SECTIONS.iter().flat_map(keys).collect();
    let (mut found, mut wrong) = (0, Vec::new());
    for page in std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(&page) else { continue };
        for named in text.split(['`', '(', ')', ' ']).filter(|text| text.starts_with("TIDEGATE__")) {
            let name = named.split('=').next().unwrap().replace("__0__", "__");
            found += 1;
            if name != "TIDEGATE__SECTION__KEY" && !known.contains(&name) {
                wrong.push(format!("{}: {named}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(found >= 12, "{found}");
}
