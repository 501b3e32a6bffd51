//! The versions that a broker answers.

use tidegate_mqtt::Version;

use super::{connect, own_id};
use crate::load::plan::Target;
use crate::probe::session::{Result, Session, SessionError};
use crate::probe::{Answer, Finding};

/// The findings, and the latest version that is spoken.
///
/// # Errors
/// The reason of the last refusal, when none is spoken.
pub(super) fn ask(target: &Target) -> Result<(Vec<Finding>, Version)> {
    let versions = [
        (Version::V31, "mqtt-3.1", "MQTT 3.1"),
        (Version::V311, "mqtt-3.1.1", "MQTT 3.1.1"),
        (Version::V5, "mqtt-5", "MQTT 5.0"),
    ];
    let (mut findings, mut best) = (Vec::new(), Err(SessionError::NoAddress));
    for (version, id, title) in versions {
        let client_id = own_id("version");
        let accepted = Session::open(target, &connect(version, &client_id), |_| ());
        let answer = Answer::from_bool(accepted.is_ok());
        match accepted {
            Ok(accepted) => {
                accepted.session.leave();
                // The later one is the better one.
                best = Ok(version);
            }
            Err(why) if best.is_err() => best = Err(why),
            Err(_) => {}
        }
        findings.push(Finding::tried("versions", id, title, answer));
    }
    Ok((findings, best?))
}
