//! Administration of orchestrators that share clients: each asks the others at their admin addresses, and takes over their
//! bans of operators when it starts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_admin::AdminClient;
use tidegate_admin::members::{AskMember, MemberAnswer, MemberRequest, Shares};
use tidegate_console::api::{Control, Members};

use crate::status::BrokerStatus;
use tidegate_homes::HomesKeeper;
use tidegate_placement::Follower;

/// The other orchestrators of the table.
pub(super) struct OtherOrchestrators(Arc<HomesKeeper>);

impl OtherOrchestrators {
    /// They, unless there are none.
    pub(super) fn of(keeper: &Arc<HomesKeeper>) -> Option<Self> {
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

/// Takes over the bans of the other orchestrators, of each once.
///
/// # Errors
/// In words for people, when the system gives no thread.
pub(crate) fn share_bans(status: &Arc<BrokerStatus>) -> Result<Follower, String> {
    let (status, known) = (Arc::clone(status), Mutex::new(BTreeSet::new()));
    Follower::begin(move || {
        let Some(keeper) = status.homes_keeper() else { return };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let others = keeper.others();
        known.retain(|name| others.iter().any(|(other, _)| other == name));
        for (name, admin) in others {
            if known.contains(&name) {
                continue;
            }
            let asking = OtherOrchestrators(Arc::clone(keeper));
            // One that does not answer yet is asked again.
            if let Ok(MemberAnswer::BanRecords(records)) =
                asking.ask_one(&admin, &AskMember(MemberRequest::BanRecords), MemberRequest::BanRecords.patience())
            {
                status.take_bans(&records);
                known.insert(name);
            }
        }
    })
}
