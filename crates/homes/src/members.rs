//! Administration of orchestrators that share clients: each asks the others at their admin addresses, and takes over their
//! bans of operators.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_admin::AdminClient;
use tidegate_admin::members::{AskMember, MemberAnswer, MemberRequest, Shares};
use tidegate_console::api::{Control, Homes, Members};

use crate::HomesKeeper;
use crate::view::HomesApi;
use tidegate_administration::{BrokerStatus, FleetPart, Part};
use tidegate_config::Config;
use tidegate_console::Status;
use tidegate_placement::{Follower, ThreadError};

/// Time between two requests for the bans of an orchestrator that answers.
const BANS_EVERY: Duration = Duration::from_secs(30);
/// Time after which an orchestrator that has not answered is asked for its bans again.
const UNANSWERED_PAUSE: Duration = Duration::from_secs(1);

/// An orchestrator, for the status of the broker: its configuration and the homes of clients. A member of a cluster has
/// no homes: the table of the cluster says where clients are served.
pub struct Orchestrator {
    config: Config,
    keeper: Option<Arc<HomesKeeper>>,
}

impl Orchestrator {
    /// The orchestrator with these homes.
    pub fn new(config: Config, keeper: Option<Arc<HomesKeeper>>) -> Self {
        Self { config, keeper }
    }
}

impl Part for Orchestrator {
    fn add_to(&self, status: &mut Status) {
        status.homes = self.keeper.as_ref().map(|keeper| keeper.numbers());
    }
}

impl FleetPart for Orchestrator {
    fn config(&self) -> &Config {
        &self.config
    }

    fn members(&self) -> Option<Arc<dyn Members>> {
        Some(Arc::new(OtherOrchestrators::of(self.keeper.as_ref()?)?))
    }

    fn homes(&self) -> Option<Arc<dyn Homes>> {
        // The sessions of a user stay with the orchestrator that shows its credentials.
        let moves = !self.config.passes_clients_through();
        let keeper = self.keeper.as_ref().filter(|_| moves)?;
        Some(Arc::new(HomesApi(Arc::clone(keeper))))
    }
}

/// The other orchestrators of the table.
struct OtherOrchestrators(Arc<HomesKeeper>);

impl OtherOrchestrators {
    /// They, unless there are none.
    fn of(keeper: &Arc<HomesKeeper>) -> Option<Self> {
        (!keeper.others().is_empty()).then(|| Self(Arc::clone(keeper)))
    }

    fn ask_one(&self, admin: &str, request: &AskMember, patience: Duration) -> Result<MemberAnswer, String> {
        let client = AdminClient::new(admin, self.0.token(), patience).map_err(|error| error.to_string())?;
        client.send(request).map_err(|error| error.to_string())
    }
}

impl Members for OtherOrchestrators {
    fn ask(&self, request: &MemberRequest) -> Shares<MemberAnswer> {
        let patience = request.patience();
        let (request, others) = (AskMember(request.clone()), self.0.others());
        let ask = |admin: &str| self.ask_one(admin, &request, patience);
        let answers: Vec<_> = thread::scope(|scope| {
            let asked = others.iter().map(|(_, admin)| scope.spawn(move || ask(admin)));
            let asked: Vec<_> = asked.collect();
            asked.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("no answer".to_owned()))).collect()
        });
        let mut shares = Shares::default();
        for ((name, _), answer) in others.into_iter().zip(answers) {
            match answer {
                Ok(answer) => shares.answered.push((name, answer)),
                Err(error) => {
                    tracing::warn!(orchestrator = name, error, "an orchestrator does not answer for its part");
                    shares.unreachable.push(name);
                }
            }
        }
        shares
    }
}

/// Takes over the bans of the other orchestrators, of each again and again: a ban that was made while this one was
/// unreachable comes with the next answer.
///
/// # Errors
/// When the system gives no thread.
pub fn share_bans(keeper: &Arc<HomesKeeper>, status: &Arc<BrokerStatus>) -> Result<Follower, ThreadError> {
    let (keeper, status, schedule) = (Arc::clone(keeper), Arc::clone(status), Mutex::new(BanSchedule::default()));
    Follower::begin(move || {
        let asking = OtherOrchestrators(Arc::clone(&keeper));
        let request = MemberRequest::BanRecords;
        let mut schedule = schedule.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((name, admin)) = schedule.next(&keeper.others(), Instant::now()) else { return };
        let answered = match asking.ask_one(&admin, &AskMember(request.clone()), request.patience()) {
            Ok(MemberAnswer::BanRecords(records)) => {
                status.take_bans(&records);
                true
            }
            _ => false,
        };
        schedule.note(name, answered, Instant::now());
    })
}

/// When each of the other orchestrators is asked for its bans. Records of bans are ordered, so that an answer taken
/// over twice changes nothing.
#[derive(Debug, Default)]
struct BanSchedule(BTreeMap<String, Instant>);

impl BanSchedule {
    /// The orchestrator to be asked now, with its admin address: the one that has waited longest. Others than these are
    /// forgotten.
    fn next(&mut self, others: &[(String, String)], now: Instant) -> Option<(String, String)> {
        self.0.retain(|name, _| others.iter().any(|(other, _)| other == name));
        let due = others.iter().filter(|(name, _)| self.0.get(name).is_none_or(|next| now >= *next));
        due.min_by_key(|(name, _)| self.0.get(name)).cloned()
    }

    /// Notes whether an orchestrator has answered.
    fn note(&mut self, name: String, answered: bool, now: Instant) {
        self.0.insert(name, now + if answered { BANS_EVERY } else { UNANSWERED_PAUSE });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), format!("{name}:1"))).collect()
    }

    fn asked(schedule: &mut BanSchedule, names: &[&str], now: Instant) -> Option<String> {
        schedule.next(&others(names), now).map(|(name, _)| name)
    }

    #[test]
    fn an_orchestrator_is_asked_for_its_bans_again() {
        let (mut schedule, now) = (BanSchedule::default(), Instant::now());
        assert_eq!(asked(&mut schedule, &["a"], now).as_deref(), Some("a"));
        schedule.note("a".to_owned(), true, now);
        assert_eq!(asked(&mut schedule, &["a"], now), None);
        assert_eq!(asked(&mut schedule, &["a"], now + BANS_EVERY).as_deref(), Some("a"), "it may have new bans");
        schedule.note("a".to_owned(), false, now);
        assert_eq!(asked(&mut schedule, &["a"], now), None);
        assert_eq!(asked(&mut schedule, &["a"], now + UNANSWERED_PAUSE).as_deref(), Some("a"));
    }

    #[test]
    fn an_orchestrator_that_is_away_does_not_delay_others() {
        let (mut schedule, now) = (BanSchedule::default(), Instant::now());
        schedule.note("a".to_owned(), false, now);
        assert_eq!(asked(&mut schedule, &["a", "b"], now + UNANSWERED_PAUSE).as_deref(), Some("b"));
        schedule.note("b".to_owned(), true, now + UNANSWERED_PAUSE);
        assert_eq!(asked(&mut schedule, &["a", "b"], now + UNANSWERED_PAUSE).as_deref(), Some("a"));
    }

    #[test]
    fn an_orchestrator_that_left_the_table_is_asked_at_once() {
        let (mut schedule, now) = (BanSchedule::default(), Instant::now());
        schedule.note("a".to_owned(), true, now);
        assert_eq!(asked(&mut schedule, &[], now), None);
        assert_eq!(asked(&mut schedule, &["a"], now).as_deref(), Some("a"), "when it comes back");
    }
}
