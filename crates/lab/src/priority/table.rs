//! The priority tests: the study's table, and the strict test (MID-64..67).

use super::channels::{ARRANGEMENTS, Arrangement, Batch, Channels};
use super::judge::{keeps_order, order, out_of_turn, row};
use super::{Asked, CheckError};
use crate::probe::SessionError;
use crate::results::Found;
use crate::stop::Stop;

/// Payloads of the tests: the study had three categories, and its text does not say which.
const SIZES: [(&str, usize); 3] = [("64 B", 64), ("16 KiB", 16 << 10), ("512 KiB", 512 << 10)];
/// The published messages, in this order.
const PUBLISHED: [&[u8]; 3] = [&[0, 2, 1], &[0, 2], &[1, 0]];
/// Number of publications while the subscriber sleeps.
const ROUNDS: usize = 8;
/// The priorities that the strict test publishes: every order of three, so that no position has always the same one.
const STRICT: &[u8] = &[0, 1, 2, 0, 2, 1, 1, 0, 2, 1, 2, 0, 2, 0, 1, 2, 1, 0];
const STRICT_ROUNDS: usize = 20;

/// Both tables.
pub(crate) fn priority(asked: &Asked, stop: &Stop) -> Result<Vec<Found>, CheckError> {
    let mut number = 0;
    let mut study = Found {
        title: "In which order messages come (MID-66)".to_owned(),
        columns: ["Arrangement", "Size", "Published", "Received at once", "Received after waiting"]
            .map(str::to_owned)
            .to_vec(),
        rows: Vec::new(),
        notes: vec![
            format!(
                "After waiting: the messages are published {ROUNDS} times while the subscriber sleeps for {} s; the messages that were under way \
                 before are left out",
                asked.sleep.as_secs_f64()
            ),
            "Where there are several channels out (4), each has a queue of its own, and which of them comes first says nothing of any".to_owned(),
            "In the study, a message that found its receiver waiting came as published, but for the smallest ones; over several channels the order \
             was random"
                .to_owned(),
            "The study's text leaves its arrangements and sizes to pictures: these are inferred".to_owned(),
        ],
    };
    for arrangement in ARRANGEMENTS {
        for (size, bytes) in SIZES {
            for priorities in PUBLISHED {
                if stop.is_asked() {
                    return Err(CheckError::Stopped);
                }
                let mut exchange = |rounds, sleep| {
                    number += 1;
                    let channels = Channels::open(asked, arrangement, number)?;
                    let under_way = channels.under_way();
                    let batch = Batch { priorities, rounds, bytes, says_priority: true, sleep };
                    Ok::<_, SessionError>((channels.exchange(&batch, stop)?, under_way))
                };
                let once = exchange(1, None).map(|(came, _)| row(came.iter().map(|message| message.priority)));
                let waited = exchange(ROUNDS, Some(asked.sleep)).map(|(came, under_way)| {
                    let lost = (priorities.len() * ROUNDS).saturating_sub(came.len());
                    let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
                    if !arrangement.several_subscribers {
                        order(&came, under_way) + &lost
                    } else if keeps_order(&came) {
                        format!("each channel as published{lost}")
                    } else {
                        format!("a channel not as published{lost}")
                    }
                });
                let cell =
                    |text: Result<String, SessionError>| text.unwrap_or_else(|why| format!("not found out: {why}"));
                study.rows.push(vec![
                    arrangement.name.to_owned(),
                    size.to_owned(),
                    row(priorities.iter().copied()),
                    cell(once),
                    cell(waited),
                ]);
            }
        }
    }
    Ok(vec![strict(asked, stop, number)?, study])
}

/// Whether no message arrives while one of a higher priority waits, on one connection.
fn strict(asked: &Asked, stop: &Stop, mut number: usize) -> Result<Found, CheckError> {
    let mut rows = Vec::new();
    for says_priority in [true, false] {
        for arrangement in ARRANGEMENTS.iter().filter(|arrangement| !arrangement.several_subscribers) {
            number += 1;
            rows.push(strict_row(asked, stop, *arrangement, says_priority, number)?);
        }
    }
    Ok(Found {
        title: "The strict test (MID-67): does any message come while one of a higher priority waits?".to_owned(),
        columns: ["Arrangement", "Messages", "Came", "Out of turn", "In order within a priority", "Result"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        notes: vec![
            "All messages wait in the broker before the subscriber takes the first one; messages in flight before are left out".to_owned(),
            "Without priorities is the base: first in, first out".to_owned(),
        ],
    })
}

fn strict_row(
    asked: &Asked,
    stop: &Stop,
    arrangement: Arrangement,
    says_priority: bool,
    number: usize,
) -> Result<Vec<String>, CheckError> {
    let channels = Channels::open(asked, arrangement, number)?;
    let under_way = channels.under_way();
    let sleep = Some(asked.sleep.min(std::time::Duration::from_secs(1)));
    let batch = Batch { priorities: STRICT, rounds: STRICT_ROUNDS, bytes: 1024, says_priority, sleep };
    let came = channels.exchange(&batch, stop)?;
    let published = STRICT.len() * STRICT_ROUNDS;
    let result = match (order(&came, under_way).as_str(), came.len() == published) {
        (_, false) => "incomplete".to_owned(),
        ("by priority", _) => "strict".to_owned(),
        ("as published", _) => "first in, first out".to_owned(),
        _ => "neither strict nor first in, first out".to_owned(),
    };
    Ok(vec![
        format!("{}{}", arrangement.name, if says_priority { "" } else { ", without priorities" }),
        published.to_string(),
        came.len().to_string(),
        out_of_turn(&came, under_way).to_string(),
        if keeps_order(&came) { "yes" } else { "no" }.to_owned(),
        result,
    ])
}
