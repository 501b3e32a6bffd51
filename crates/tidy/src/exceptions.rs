//! Exceptions to rules, and their reasons. One that is no longer needed fails like a place that breaks a rule.

use crate::Violation;

/// A function, or a whole file, that a rule leaves alone.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The file, relative to the repository.
    pub path: &'static str,
    /// The function; empty where the rule is about files.
    pub function: &'static str,
    /// Why, so that a reader can check it.
    pub reason: &'static str,
}

/// Functions that may unwrap, panic or index although they process a peer's bytes.
pub const PANICS: &[Exception] = &[Exception {
    path: "crates/engine/src/slab.rs",
    function: "unused",
    reason: "as for an index into a slice: keys are made by the slab, and none is ever read from a peer",
}];

/// Folders of cases: each free function is one case, and the type that it borrows first is its input. They do not count as
/// functions of that type.
pub const CASES: &[Exception] = &[
    Exception {
        path: "crates/conformance/src/cases/",
        function: "",
        reason: "a case or a part of it, called by the table of cases; it drives a scenario and its clients from outside",
    },
    Exception {
        path: "crates/lab/src/probe/",
        function: "",
        reason: "a question to a broker, called by the list of questions; the target is the broker's address",
    },
];

/// Functions between 71 and 120 lines.
pub const LONG_FUNCTIONS: &[Exception] = &[];

/// Files between 501 and 800 lines, not counting tests.
pub const LONG_FILES: &[Exception] = &[];

impl Exception {
    /// Whether one of the exceptions covers a place; it is then marked as used.
    pub fn covers(exceptions: &[Self], used: &mut [bool], path: &str, function: &str) -> bool {
        let place = exceptions.iter().position(|exception| exception.path == path && exception.function == function);
        if let Some(flag) = place.and_then(|place| used.get_mut(place)) {
            *flag = true;
        }
        place.is_some()
    }

    /// A violation for each exception that covered nothing.
    pub fn unused(exceptions: &[Self], used: &[bool]) -> Vec<Violation> {
        let left = exceptions.iter().zip(used).filter(|(_, used)| !**used);
        left.map(|(exception, _)| {
            let text = format!("the exception for `{}` is no longer needed: delete it", exception.function);
            Violation::new(exception.path, 0, text)
        })
        .collect()
    }
}
