//! Which versions are answered.

use tidegate_mqtt::Version;

use super::{connect, own_id};
use crate::load::plan::Target;
use crate::probe::session::Session;
use crate::probe::{Answer, Finding};

/// The findings, the versions that are spoken, and the last reason of a refusal.
pub(super) fn ask(target: &Target) -> (Vec<Finding>, Vec<Version>, String) {
    let versions = [
        (Version::V31, "mqtt-3.1", "MQTT 3.1"),
        (Version::V311, "mqtt-3.1.1", "MQTT 3.1.1"),
        (Version::V5, "mqtt-5", "MQTT 5.0"),
    ];
    let (mut findings, mut spoken, mut last) = (Vec::new(), Vec::new(), String::new());
    for (version, id, title) in versions {
        let client_id = own_id("version");
        let accepted = Session::open(target, &connect(version, &client_id), |_| ());
        let answer = match accepted {
            Ok(accepted) => {
                accepted.session.leave();
                spoken.push(version);
                Answer::Yes
            }
            Err(why) => {
                last = why;
                Answer::No
            }
        };
        findings.push(Finding::tried("versions", id, title, answer));
    }
    (findings, spoken, last)
}
