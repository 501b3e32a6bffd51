//! The end of a load: open exchanges finish, then the books are compared with the clients' receipts.

use std::time::{Duration, Instant};

use crate::checks;
use crate::failure::Failure;
use crate::group_receipt;
use crate::ledger::{Expectation, Finding};
use crate::session::Session;
use crate::subscriber::Subscriber;
use crate::world::{Mood, World};

/// A drain takes at most this multiple of the patience, also while messages arrive: they could arrive for ever.
pub(crate) const DRAIN_PATIENCES: u32 = 20;

/// Lets everything finish, and settles the accounts. `is_over` is asked in each turn: true where nothing can follow any
/// more, because the broker has ended.
pub(crate) fn settle(
    world: &mut World,
    cycle: u64,
    patience: Duration,
    is_over: &mut dyn FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    if !drain(world, patience, is_over)? {
        name_the_unanswered(world, cycle);
    }
    for subscriber in &mut world.subscribers {
        world.ledger.kept_by_guest(&subscriber.take_kept());
    }
    let names: Vec<String> = world.subscribers.iter().map(|subscriber| subscriber.session.name.clone()).collect();
    let subscribers = &world.subscribers;
    let holds = |owed: Expectation| subscribers[usize::from(owed.subscriber)].holds(owed);
    world.ledger.settle(holds, |place| names[usize::from(place)].clone());
    Ok(())
}

/// Tries every subscription, and a group of mobile nodes where the broker has such groups. The accounts are settled.
pub(crate) fn try_service(world: &mut World, cycle: u64, patience: Duration) -> Result<(), Failure> {
    checks::subscriptions(world, format!("prober-{cycle}"), patience)?;
    if world.size.has_node_groups && world.size.applications > 0 {
        group_receipt::check(world, format!("asker-{cycle}"), patience)?;
    }
    Ok(())
}

/// Waits until nothing is owed. False when clients still wait for an answer after the patience.
fn drain(
    world: &mut World,
    patience: Duration,
    is_over: &mut dyn FnMut() -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let begun = Instant::now();
    loop {
        world.turn(Mood::Drain)?;
        let published =
            world.publishers.iter().all(|publisher| publisher.session.is_open() && publisher.under_way() == 0);
        let replaced = world.sessions().all(|session| !session.has_former());
        let finished = published && replaced && world.subscribers.iter().all(Subscriber::is_settled);
        let holds = |owed: Expectation| world.subscribers[usize::from(owed.subscriber)].holds(owed);
        if finished && world.ledger.outstanding(holds) == 0 {
            return Ok(true);
        }
        let slow = begun.elapsed() > patience * DRAIN_PATIENCES;
        if slow || world.last_news.elapsed() > patience || is_over()? {
            return Ok(finished);
        }
    }
}

fn name_the_unanswered(world: &mut World, cycle: u64) {
    let mut found = Vec::new();
    for publisher in &mut world.publishers {
        if let Some(missing) = publisher.unanswered() {
            found.push(format!("{}: {missing}", publisher.session.name));
        }
    }
    for subscriber in &mut world.subscribers {
        let name = subscriber.session.name.clone();
        found.extend(subscriber.give_up().into_iter().map(|missing| format!("{name}: {missing}")));
    }
    for text in found {
        let text = format!("cycle {cycle}: {text}");
        world.ledger.findings.add(Finding::Unanswered, text, Vec::new());
    }
    let standing = world.sessions().filter(|session| session.is_open() && session.has_former());
    let names: Vec<String> = standing.map(|session| session.name.clone()).collect();
    for name in names {
        let text = format!("cycle {cycle}: {name} was accepted again, and its connection before is open");
        world.ledger.findings.add(Finding::Takeover, text, Vec::new());
    }
    world.sessions_mut().for_each(Session::drop_former);
}
