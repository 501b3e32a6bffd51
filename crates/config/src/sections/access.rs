//! The rights of clients.

use crate::key::{Key, Section, SectionKeys, section};
use crate::value::{Kind, Problem, Raw, Value, words};

/// Longest path of a file, bytes.
const MAX_PATH: usize = 4096;
/// Longest text of rules in place, bytes; more belong into a file.
const MAX_RULES: usize = 65_536;

words! {
    /// The decision where no rule applies.
    pub enum DefaultAccess {
        Auto => "auto", "denied where there are rules, allowed where there are neither rules nor users";
        Deny => "deny", "denied";
        Allow => "allow", "allowed";
    }
}

section! {
    /// Rules for publishing, subscribing and receiving. See access-control.md.
    "access" => AccessRules, ACCESS {
        /// Rules of our own, TOML. They apply before the rules of `acl_file`.
        rules_file: Option<String> = None, in Kind::Text { max_len: MAX_PATH };
        /// Rules of our own in place, with the text of a rules file. They apply before the rules of `rules_file`.
        rules: Option<String> = None, in Kind::Text { max_len: MAX_RULES };
        /// Mosquitto's acl file.
        acl_file: Option<String> = None, in Kind::Text { max_len: MAX_PATH };
        /// The decision where no rule applies. With users and without rules it must be set: the broker does not guess
        /// the rights of its users.
        default: DefaultAccess = DefaultAccess::Auto, in Kind::OneOf(<DefaultAccess as crate::value::Words>::WORDS);
    }
}
