//! SCRAM with the users of the database of EMQX, which is not read.

use tidegate_conversion::{Setting, Value};

use crate::draft::{Draft, NO_USERS};
use crate::provider::Provider;

use super::authenticator::Authenticator;

const KNOWN: [&str; 5] = ["mechanism", "backend", "enable", "algorithm", "iteration_count"];

pub(super) fn take(one: &Authenticator, draft: &mut Draft) {
    if !one.knows(draft, &KNOWN) {
        return;
    }
    if let Some(part) = one.find("algorithm").filter(|part| part.entry.value != "sha256") {
        return draft.closed_by(part.index, "only SCRAM-SHA-256 is served");
    }
    if let Some(part) = one.find("iteration_count") {
        draft.report.changed(part.index, "`tidegate passwd --scram` has its own number of rounds");
    }
    let why = "its users are in a database of EMQX, which is not read: no client gets in until `tidegate passwd --scram FILE NAME` has written users, and `file` names that file";
    draft.report.refused(one.first(), why);
    if !one.is_only {
        // A file without users would refuse the clients of the others.
        return;
    }
    let setting = |key, text: &str| Setting::new(key, Value::Text(text.to_owned()), one.first());
    draft.providers.push(Provider::Other(vec![setting("kind", "scram"), setting("file", NO_USERS)], None));
}
