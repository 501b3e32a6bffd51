//! All cases of the suite.

use crate::case::Case;
use crate::cases::AREAS;

/// Every case, area by area.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    AREAS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_say_their_area() {
        let mut seen = BTreeSet::new();
        for case in cases() {
            assert!(seen.insert(case.name), "two cases are called {}", case.name);
            let fits =
                |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let parts: Vec<_> = case.name.split('.').collect();
            assert!(parts.len() == 2 && parts.iter().all(|part| fits(part)), "odd name {}", case.name);
        }
    }

    #[test]
    fn statements_belong_to_versions_the_case_runs_in() {
        for case in cases() {
            for (version, statements) in [(Version::V311, case.statements_311), (Version::V5, case.statements_5)] {
                let runs = case.versions.contains(&version);
                assert!(runs || statements.is_empty(), "{} does not run in {version}", case.name);
                let distinct: BTreeSet<_> = statements.iter().collect();
                assert_eq!(distinct.len(), statements.len(), "{} names a statement twice", case.name);
            }
        }
    }
}
