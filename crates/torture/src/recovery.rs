//! How long a broker takes to come up with a lot to remember.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::broker::{Broker, Recipe};
use crate::bulk::{Crowd, Got};
use crate::failure::Failure;
use crate::process::{folder_bytes, resident_kb};

/// Unacknowledged messages of one of the clients that fill the broker.
const WINDOW: u16 = 64;
/// Clients that fill the broker at once.
const FILLERS: usize = 32;
/// Sessions that are created at once.
const JOINING: usize = 200;
/// Sessions and retained topics that are looked at after the start.
const SAMPLE: usize = 50;
/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(600);

/// The state that the broker is to remember.
#[derive(Clone, Debug, Args)]
pub(crate) struct Recovery {
    /// Retained messages.
    #[arg(long, default_value_t = 0)]
    retained: usize,
    /// Persistent sessions, each with its own subscription.
    #[arg(long, default_value_t = 0)]
    sessions: usize,
    /// Messages that wait for each session.
    #[arg(long, default_value_t = 10)]
    queued: usize,
    /// Bytes of each payload.
    #[arg(long, default_value_t = 64)]
    payload: usize,
    /// End the broker with kill -9 rather than SIGTERM.
    #[arg(long)]
    kill: bool,
}

/// Fills the broker, ends it, starts it, and looks whether it remembers.
pub(crate) fn run(wanted: &Recovery, recipe: &Recipe) -> Result<Value, Failure> {
    let mut broker = start(recipe)?;
    let filling = std::time::Instant::now();
    join_sessions(wanted, recipe.port)?;
    let payload = vec![b'.'; wanted.payload];
    fill(recipe.port, wanted.retained, true, &payload, |number| format!("retained/{}/{number}", number % 1000))?;
    fill(recipe.port, wanted.sessions * wanted.queued, false, &payload, |number| {
        format!("queue/{}", number % wanted.sessions.max(1))
    })?;
    let filled = filling.elapsed();
    let before_kb = resident_kb(broker.pid());
    if wanted.kill {
        broker.kill()?;
    } else if !broker.terminate(LIMIT)? {
        return Err(Failure::Broker("SIGTERM did not end it".to_owned()));
    }
    let bytes = folder_bytes(&recipe.data)?;
    let broker = start(recipe)?;
    let mut crowd = Crowd::new(recipe.port)?;
    crowd.join("recovery-first", false)?;
    crowd.until(1, |got| matches!(got, Got::Greeted))?;
    let took = broker.started.elapsed();
    let after_kb = resident_kb(broker.pid());
    let retained = retained_sample(wanted, &mut crowd)?;
    let queued = queued_sample(wanted, &mut crowd)?;
    Ok(json!({
        "retained": wanted.retained,
        "sessions": wanted.sessions,
        "queued": wanted.queued,
        "ended_by": if wanted.kill { "kill -9" } else { "SIGTERM" },
        "fill_seconds": filled.as_secs_f64().round(),
        "folder_mib": bytes >> 20,
        "start_ms": took.as_millis() as u64,
        "resident_mib_before": before_kb >> 10,
        "resident_mib_after": after_kb >> 10,
        "retained_found": retained,
        "queues_found": queued,
    }))
}

fn start(recipe: &Recipe) -> Result<Broker, Failure> {
    let mut broker = recipe.start()?;
    match broker.wait_until_listening(recipe.port, LIMIT) {
        Ok(()) => Ok(broker),
        Err(_) => Err(Failure::Broker(broker.output().join(" / "))),
    }
}

/// Creates the sessions with their subscriptions, and lets them go.
fn join_sessions(wanted: &Recovery, port: u16) -> Result<(), Failure> {
    let mut from = 0;
    while from < wanted.sessions {
        let count = JOINING.min(wanted.sessions - from);
        let mut crowd = Crowd::new(port)?;
        for number in from..from + count {
            crowd.join(&format!("session-{number}"), true)?;
        }
        crowd.until(count, |got| matches!(got, Got::Greeted))?;
        for place in 0..count {
            crowd.subscribe(place, &format!("queue/{}", from + place))?;
        }
        crowd.until(count, |got| matches!(got, Got::Subscribed))?;
        for place in 0..count {
            crowd.leave(place)?;
        }
        from += count;
    }
    Ok(())
}

/// Publishes this number of messages at QoS 1 and waits for each PUBACK.
fn fill(port: u16, total: usize, retain: bool, payload: &[u8], topic: impl Fn(usize) -> String) -> Result<(), Failure> {
    if total == 0 {
        return Ok(());
    }
    let mut crowd = Crowd::new(port)?;
    for number in 0..FILLERS {
        crowd.join(&format!("filler-{number}"), false)?;
    }
    crowd.until(FILLERS, |got| matches!(got, Got::Greeted))?;
    let mut free: Vec<Vec<u16>> = vec![(1..=WINDOW).collect(); FILLERS];
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < total {
        for (member, free) in free.iter_mut().enumerate() {
            while let Some(id) = if sent < total { free.pop() } else { None } {
                crowd.publish(member, &topic(sent), id, retain, payload)?;
                sent += 1;
            }
        }
        crowd.turn(Duration::from_millis(10), |member, got| {
            if let Got::Acknowledged(id) = got {
                acknowledged += 1;
                free[member].push(id);
            }
        })?;
    }
    Ok(())
}

/// Asks for some of the retained messages. Gives "found of asked".
fn retained_sample(wanted: &Recovery, crowd: &mut Crowd) -> Result<String, Failure> {
    let asked = SAMPLE.min(wanted.retained);
    for place in 0..asked {
        let number = place * (wanted.retained / asked);
        crowd.subscribe(0, &format!("retained/{}/{number}", number % 1000))?;
    }
    Ok(format!("{} of {asked}", count_messages(crowd, asked)?))
}

/// Lets some of the sessions return. Gives "found of owed".
fn queued_sample(wanted: &Recovery, crowd: &mut Crowd) -> Result<String, Failure> {
    let asked = SAMPLE.min(wanted.sessions);
    for place in 0..asked {
        crowd.join(&format!("session-{}", place * (wanted.sessions / asked)), true)?;
    }
    let owed = asked * wanted.queued;
    Ok(format!("{} of {owed}", count_messages(crowd, owed)?))
}

/// Counts messages until all have come, or none comes for a while.
fn count_messages(crowd: &mut Crowd, wanted: usize) -> Result<usize, Failure> {
    let (mut come, mut last) = (0, std::time::Instant::now());
    while come < wanted && last.elapsed() < Duration::from_secs(5) {
        let before = come;
        crowd.turn(Duration::from_millis(50), |_, got| come += usize::from(matches!(got, Got::Message(_))))?;
        if come > before {
            last = std::time::Instant::now();
        }
    }
    Ok(come)
}
