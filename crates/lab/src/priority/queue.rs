//! The queue test (MID-68): how many messages wait for one client, on one topic and on several.

use super::channels::{ARRANGEMENTS, Batch, Channels};
use super::{Asked, CheckError};
use crate::results::Found;
use crate::stop::Stop;

/// Messages that are published at most; who keeps all of them has no limit that matters here.
const MOST: u32 = 20_000;
const BYTES: usize = 64;

/// How it went with one number of topics.
struct Filled {
    published: u32,
    /// The first message that was refused, and the code.
    refused: Option<(u32, u8)>,
    /// Why publishing ended early.
    ended: Option<String>,
    kept: usize,
    first_lost: Option<u32>,
}

/// Fills the queue of a client that does not acknowledge, by one topic and by three.
pub(crate) fn limits(asked: &Asked, stop: &Stop) -> Result<Vec<Found>, CheckError> {
    let (one, several) = (fill(asked, stop, 0)?, fill(asked, stop, 1)?);
    let conclusion = match (one.kept, several.kept) {
        (a, b) if a >= MOST as usize && b >= MOST as usize => format!("No limit was met within {MOST} messages"),
        (a, b) if a.abs_diff(b) <= a / 50 => "The client has one queue, whatever the topics are".to_owned(),
        (a, b) if b >= 2 * a => "Each topic has a queue of its own".to_owned(),
        _ => "The counts differ, but not as they would with a queue for each topic".to_owned(),
    };
    let row = |name: &str, filled: &Filled| {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        vec![
            name.to_owned(),
            filled.published.to_string(),
            filled.kept.to_string(),
            or_none(filled.refused.map(|(number, code)| format!("{} (0x{code:02X})", number + 1))),
            or_none(filled.first_lost.map(|number| (number + 1).to_string())),
            or_none(filled.ended.clone()),
        ]
    };
    Ok(vec![Found {
        title: "How many messages wait for a client that does not acknowledge (MID-68)".to_owned(),
        columns: ["Topics", "Published", "Kept", "First refused", "First lost in silence", "Publishing ended early"]
            .map(str::to_owned)
            .to_vec(),
        rows: vec![row("1", &one), row("3", &several)],
        notes: vec![
            conclusion,
            "In the study both filled at the same count, so that its middleware has one queue for each channel"
                .to_owned(),
        ],
    }])
}

/// Fills the queue in an arrangement, and takes the kept messages.
fn fill(asked: &Asked, stop: &Stop, arrangement: usize) -> Result<Filled, CheckError> {
    let mut channels = Channels::open(asked, ARRANGEMENTS[arrangement], 1000 + arrangement)?;
    let batch = Batch { priorities: &[], rounds: 0, bytes: BYTES, says_priority: false, sleep: None };
    let mut filled = Filled { published: 0, refused: None, ended: None, kept: 0, first_lost: None };
    while filled.published < MOST && !stop.is_asked() {
        let number = filled.published;
        match channels.publish((number % 3) as u8, number, &batch) {
            Ok(code) => {
                filled.published += 1;
                if code >= 0x80 {
                    filled.refused = Some((number, code));
                    break;
                }
            }
            Err(why) => {
                filled.ended = Some(why.to_string());
                break;
            }
        }
    }
    let came = channels.receive(filled.published as usize);
    filled.kept = came.len();
    let mut seen = vec![false; filled.published as usize];
    for message in came {
        if let Some(place) = seen.get_mut(message.number as usize) {
            *place = true;
        }
    }
    let until = filled.refused.map_or(filled.published, |(number, _)| number);
    filled.first_lost = (0..until).find(|number| !seen[*number as usize]);
    Ok(filled)
}
