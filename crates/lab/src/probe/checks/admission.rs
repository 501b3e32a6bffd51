//! Admission of clients.

use tidegate_mqtt::Version;

use super::{connect, own_id};
use crate::load::plan::{Credentials, Target};
use crate::probe::session::Session;
use crate::probe::{Answer, Finding};

const GROUP: &str = "admission";

pub(super) fn ask(target: &Target, version: Version) -> Vec<Finding> {
    let stranger = Credentials { username: own_id("stranger"), password: "wrong".to_owned() };
    let cases = [
        ("anonymous", "Clients without a user name are let in", None),
        ("unknown-user", "Clients with a user name that does not exist are admitted", Some(stranger)),
    ];
    let lets_in = |credentials| {
        let asked = Target { credentials, ..target.clone() };
        let id = own_id("admission");
        Session::open(&asked, &connect(version, &id), |_| ()).map(|accepted| accepted.session.leave()).is_ok()
    };
    cases
        .into_iter()
        .map(|(id, title, credentials)| Finding::tried(GROUP, id, title, Answer::from_bool(lets_in(credentials))))
        .collect()
}
