//! Questions of the members of a cluster to each other, so that each of them answers for all.
//!
//! The member that a person asks sends a [`MemberRequest`] to all others, and merges their [`MemberAnswer`]s with its
//! own by the functions of [`Shares`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bans::{BanEntry, BanList, BanRecord, Banned, Closed, Unbanned};
use crate::clients::{ClientEntry, Clients, ClientsRequest};
use crate::hub::{PipelineOrder, PipelineReport, Pipelines};
use crate::kick::{KickRequest, Kicked};
use crate::meter::{MeterRequest, Metered, TenantUsage};
use crate::reload::{NodeReloaded, Reloaded};
use crate::slow::{SlowClients, SlowRequest};
use crate::totals::{Amount, NodeTotals, Totals};
use crate::why::{Story, WhyRequest};

/// Time that other members have for an answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same for a reload, which reads files and agrees on numbers of tenants.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(50);

/// Something that one member asks another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberRequest {
    /// Its clients.
    Clients(ClientsRequest),
    /// The recent events there.
    Why(WhyRequest),
    /// Its slow clients.
    Slow(SlowRequest),
    /// Its totals.
    Totals,
    /// Its bans.
    Bans,
    /// Take this change of a ban in.
    ChangeBan(BanRecord),
    /// Take these changes of bans in: the two sides of a new link send each other theirs.
    TakeBans(Vec<BanRecord>),
    /// Its bans of operators and ends of such bans, for a member that has just started.
    BanRecords,
    /// Close connections.
    Kick(KickRequest),
    /// Read your configuration again.
    Reload,
    /// The usage of tenants there.
    Meter(MeterRequest),
    /// Its pipelines.
    Hub,
    /// Carry out this order to a pipeline.
    OrderPipeline(PipelineOrder),
}

impl MemberRequest {
    /// Time that other members have for the answer.
    pub fn patience(&self) -> Duration {
        if *self == Self::Reload { RELOAD_PATIENCE } else { PATIENCE }
    }

    /// Requests that bring all these changes of bans, each of at most `max_bytes` as far as single changes allow.
    pub fn of_bans(records: Vec<BanRecord>, max_bytes: usize) -> Vec<Self> {
        let mut requests = Vec::new();
        let (mut part, mut bytes) = (Vec::new(), 0);
        for record in records {
            let length = serde_json::to_string(&record).map_or(0, |text| text.len()) + 1;
            if bytes + length > max_bytes && !part.is_empty() {
                requests.push(Self::TakeBans(std::mem::take(&mut part)));
                bytes = 0;
            }
            bytes += length;
            part.push(record);
        }
        if !part.is_empty() {
            requests.push(Self::TakeBans(part));
        }
        requests
    }
}

/// The answer to a [`MemberRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberAnswer {
    /// To [`MemberRequest::Clients`].
    Clients(Clients),
    /// To [`MemberRequest::Why`].
    Why(Story),
    /// To [`MemberRequest::Slow`].
    Slow(SlowClients),
    /// To [`MemberRequest::Totals`].
    Totals(Amount),
    /// To [`MemberRequest::Bans`].
    Bans(BanList),
    /// To [`MemberRequest::ChangeBan`].
    BanChanged(BanChanged),
    /// To [`MemberRequest::TakeBans`].
    BansTaken,
    /// To [`MemberRequest::BanRecords`].
    BanRecords(Vec<BanRecord>),
    /// To [`MemberRequest::Kick`]: connections that were closed.
    Kicked(u64),
    /// To [`MemberRequest::Reload`].
    Reloaded(Reloaded),
    /// To [`MemberRequest::Meter`].
    Metered(Metered),
    /// To [`MemberRequest::Hub`].
    Hub(Pipelines),
    /// To [`MemberRequest::OrderPipeline`]: whether it was carried out here.
    PipelineOrdered(bool),
    /// The request was not carried out, for this reason.
    Refused(String),
}

/// The effect of a change of a ban on one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanChanged {
    /// Whether it changed anything: false when a later change was known, or there was no such ban.
    pub changed: bool,
    /// Connections that were closed.
    pub closed: u64,
}

/// The answers of the members of a cluster, by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares<T> {
    /// Members that answered, with their answers.
    pub answered: Vec<(String, T)>,
    /// Members that did not answer.
    pub unreachable: Vec<String>,
}

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Self { answered: Vec::new(), unreachable: Vec::new() }
    }
}

/// A member has refused a request, or answered something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {reason}")]
pub struct MemberRefusal {
    /// The name of the member.
    pub node: String,
    /// Its reason.
    pub reason: String,
}

impl<T> Shares<T> {
    /// The answers of one kind. `kind` takes an answer, or returns the reason why it is refused. The first refusal is the
    /// error.
    ///
    /// # Errors
    /// When a member refused, or answered something else.
    pub fn only<U, R: fmt::Display>(self, kind: impl Fn(T) -> Result<U, R>) -> Result<Shares<U>, MemberRefusal> {
        let mut answered = Vec::with_capacity(self.answered.len());
        for (node, answer) in self.answered {
            match kind(answer) {
                Ok(answer) => answered.push((node, answer)),
                Err(reason) => return Err(MemberRefusal { node, reason: reason.to_string() }),
            }
        }
        Ok(Shares { answered, unreachable: self.unreachable })
    }

    /// The answers of one kind, as `kind` takes them. A member that refused, or answered something else, as one of
    /// an earlier release does, is named with the silent members.
    pub fn those<U, R>(self, kind: impl Fn(T) -> Result<U, R>) -> Shares<U> {
        let mut shares = Shares { answered: Vec::with_capacity(self.answered.len()), unreachable: self.unreachable };
        for (node, answer) in self.answered {
            match kind(answer) {
                Ok(answer) => shares.answered.push((node, answer)),
                Err(_) => shares.unreachable.push(node),
            }
        }
        shares
    }

    /// In the order of names.
    fn sorted(mut self) -> (Vec<(String, T)>, Vec<String>) {
        self.answered.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.unreachable.sort();
        (self.answered, self.unreachable)
    }

    /// The names of the members that answered.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.answered.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }
}

impl Shares<Clients> {
    /// One page of at most `limit` clients, in the order of tenants, as `rank` has it, client ids and nodes. A client
    /// that is on several nodes is never cut in two: a page may be longer by as many entries as there are nodes.
    pub fn merge(self, limit: usize, rank: impl Fn(&str) -> usize) -> Clients {
        let nodes = self.names();
        let (answered, unreachable) = self.sorted();
        let mut more = answered.iter().any(|(_, share)| share.more);
        let named = answered.into_iter().flat_map(|(node, share)| {
            share.clients.into_iter().map(move |client| ClientEntry { node: node.clone(), ..client })
        });
        let mut clients: Vec<ClientEntry> = named.collect();
        let same =
            |one: &ClientEntry, other: &ClientEntry| (&one.tenant, &one.client) == (&other.tenant, &other.client);
        clients.sort_by(|one, other| {
            let key = |client: &ClientEntry| (rank(&client.tenant), client.client.clone(), client.node.clone());
            key(one).cmp(&key(other))
        });
        let mut end = limit.min(clients.len());
        while end > 0 && end < clients.len() && same(&clients[end - 1], &clients[end]) {
            end += 1;
        }
        more |= end < clients.len();
        clients.truncate(end);
        Clients { clients, more, nodes, unreachable }
    }
}

impl Shares<SlowClients> {
    /// The worst clients of all members, at most `limit`.
    pub fn merge(self, limit: usize) -> SlowClients {
        let nodes = self.names();
        let (answered, unreachable) = self.sorted();
        let named = answered.into_iter().flat_map(|(node, share)| {
            share.clients.into_iter().map(move |client| crate::SlowClient { node: node.clone(), ..client })
        });
        let mut clients: Vec<_> = named.collect();
        clients.sort_by_key(|slow| std::cmp::Reverse((slow.waiting_ms, slow.queued_messages)));
        clients.truncate(limit);
        SlowClients { clients, nodes, unreachable }
    }
}

impl Shares<Amount> {
    /// The sum over all members, and the amounts at each.
    pub fn merge(self) -> Totals {
        let (answered, unreachable) = self.sorted();
        let mut totals = Totals { unreachable, ..Totals::default() };
        for (node, amount) in answered {
            totals.sum.add(&amount);
            totals.nodes.push(NodeTotals { node, amount });
        }
        totals
    }
}

impl Shares<Story> {
    /// The events of all members, oldest first by their clocks.
    pub fn merge(self) -> Story {
        let nodes = self.names();
        let (answered, unreachable) = self.sorted();
        let suppressed = answered.iter().map(|(_, share)| share.suppressed).sum();
        let named = answered.into_iter().flat_map(|(node, share)| {
            share.events.into_iter().map(move |event| crate::StoryEvent { node: node.clone(), ..event })
        });
        let mut events: Vec<_> = named.collect();
        events.sort_by_key(|event| event.at_ms);
        Story { events, suppressed, nodes, unreachable }
    }
}

impl Shares<BanList> {
    /// The bans of all members. One that several have is one entry: `node` is the first of them, `nodes` are all.
    pub fn merge(self) -> BanList {
        let nodes = self.names();
        let (answered, unreachable) = self.sorted();
        let mut bans: Vec<BanEntry> = Vec::new();
        for (node, share) in answered {
            for ban in share.bans {
                match bans.iter_mut().find(|known| known.is_same(&ban)) {
                    Some(known) => known.nodes.push(node.clone()),
                    None => bans.push(BanEntry { node: node.clone(), nodes: vec![node.clone()], ..ban }),
                }
            }
        }
        bans.sort_by(|one, other| (&one.kind, &one.name, &one.tenant).cmp(&(&other.kind, &other.name, &other.tenant)));
        BanList { bans, nodes, unreachable }
    }
}

impl Shares<BanChanged> {
    fn closed(self) -> (u64, Vec<Closed>, Vec<String>) {
        let (answered, unreachable) = self.sorted();
        let nodes: Vec<Closed> =
            answered.into_iter().map(|(node, share)| Closed { node, closed: share.closed }).collect();
        (nodes.iter().map(|share| share.closed).sum(), nodes, unreachable)
    }

    /// The outcome of a ban.
    pub fn banned(self) -> Banned {
        let (closed, nodes, unreachable) = self.closed();
        Banned { closed, nodes, unreachable }
    }

    /// The outcome of closing connections.
    pub fn kicked(self) -> Kicked {
        let (closed, nodes, unreachable) = self.closed();
        Kicked { closed, nodes, unreachable }
    }

    /// The outcome of the end of a ban; `removed` is false when no member had it.
    pub fn unbanned(self) -> Unbanned {
        let (answered, unreachable) = self.sorted();
        Unbanned { removed: answered.iter().any(|(_, share)| share.changed), unreachable }
    }
}

impl Shares<Reloaded> {
    /// The outcome of a reload: that of the member `own`, with the outcomes of the others beside it. It counts as applied when
    /// each member that answered has applied its configuration.
    pub fn merge(self, own: &str) -> Reloaded {
        let (answered, unreachable) = self.sorted();
        let mut merged = Reloaded { applied: true, unreachable, ..Reloaded::default() };
        let several = answered.len() + merged.unreachable.len() > 1;
        for (node, share) in answered {
            merged.applied &= share.applied;
            if several {
                merged.text.extend(["node ", &node, ": ", &share.text]);
            } else {
                merged.text.clone_from(&share.text);
            }
            if node == own {
                (merged.files, merged.changes) = (share.files, share.changes);
            }
            merged.nodes.push(NodeReloaded { node, applied: share.applied, text: share.text });
        }
        merged
    }
}

impl Shares<Metered> {
    /// The sum over all members, in the order of the names of tenants and users.
    pub fn merge(self) -> Metered {
        let nodes = self.names();
        let (answered, unreachable) = self.sorted();
        let mut tenants: BTreeMap<(String, Option<String>), TenantUsage> = BTreeMap::new();
        let mut in_memory = Vec::new();
        for (node, share) in answered {
            if !share.in_memory.is_empty() {
                in_memory.push(node);
            }
            for usage in share.tenants {
                let payer = (usage.tenant.clone(), usage.user.clone());
                let none = || TenantUsage { tenant: payer.0.clone(), user: payer.1.clone(), ..TenantUsage::default() };
                tenants.entry(payer.clone()).or_insert_with(none).add(&usage);
            }
        }
        Metered { tenants: tenants.into_values().collect(), in_memory, nodes, unreachable }
    }
}

impl Shares<Pipelines> {
    /// The pipelines of all members. A pipeline of `names` that no member runs has the state `unknown`, and says who did
    /// not answer.
    pub fn pipelines(self, names: &[String]) -> Pipelines {
        let several = self.answered.len() + self.unreachable.len() > 1;
        let mut all = Pipelines::new();
        for (node, share) in self.answered {
            for (name, mut pipeline) in share {
                pipeline.node = several.then(|| node.clone());
                match all.entry(name) {
                    Entry::Occupied(mut known) => add(known.get_mut(), pipeline),
                    Entry::Vacant(place) => drop(place.insert(pipeline)),
                }
            }
        }
        let silent = self.unreachable.join(", ");
        let why = if silent.is_empty() { "no member runs it yet".to_owned() } else { format!("no answer of {silent}") };
        for name in names.iter().filter(|_| several) {
            let unknown = || PipelineReport {
                state: "unknown".to_owned(),
                error: Some(why.clone()),
                ..PipelineReport::default()
            };
            all.entry(name.clone()).or_insert_with(unknown);
        }
        all
    }
}

/// Adds the numbers of a pipeline that two members run for a moment, while it moves.
fn add(known: &mut PipelineReport, other: PipelineReport) {
    known.counts.add(other.counts);
    known.batch_s += other.batch_s;
    known.waiting = known.waiting.saturating_add(other.waiting);
    // The older of both times: the counts are sums.
    known.since = [known.since.take(), other.since].into_iter().flatten().min();
    known.lag_s = known.lag_s.max(other.lag_s);
    if known.error.is_none() {
        (known.error, known.state, known.node) = (other.error, other.state, other.node);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn pipelines_of_all_members_are_one_object() {
        let one = json!({ "hot": { "in": 3, "batches": 2, "batch_s": 0.5, "lag_s": 1.5, "state": "running", "since": "2026-02", "error": null } });
        let other = json!({ "hot": { "in": 4, "batches": 3, "batch_s": 0.25, "lag_s": 0.5, "state": "retrying", "since": "2026-01", "error": "db" }, "cold": { "in": 1 } });
        let answered = [("a", one), ("b", other)].map(|(node, share)| (node.to_owned(), from_value(share).unwrap()));
        let shares = Shares { answered: answered.into(), unreachable: vec!["c".to_owned()] };
        let all = to_value(shares.pipelines(&["lost".to_owned()])).unwrap();
        assert_eq!((&all["hot"]["in"], &all["hot"]["lag_s"]), (&7.into(), &1.5.into()), "{all}");
        assert_eq!((&all["hot"]["batches"], &all["hot"]["batch_s"]), (&5.into(), &0.75.into()), "{all}");
        assert_eq!((&all["hot"]["state"], &all["hot"]["node"]), (&"retrying".into(), &"b".into()), "{all}");
        assert_eq!((&all["hot"]["since"], &all["cold"]["node"]), (&"2026-01".into(), &"b".into()));
        assert_eq!((&all["lost"]["state"], &all["lost"]["error"]), (&"unknown".into(), &"no answer of c".into()));
    }

    #[test]
    fn totals_are_sums_beside_the_nodes_that_answer() {
        let amount = |clients_connected, bytes_out| Amount { clients_connected, bytes_out, ..Amount::default() };
        let answered = vec![("b".to_owned(), amount(2, 30)), ("a".to_owned(), amount(1, 5))];
        let totals = Shares { answered, unreachable: vec!["c".to_owned()] }.merge();
        assert_eq!((totals.sum, totals.unreachable), (amount(3, 35), vec!["c".to_owned()]));
        let names: Vec<_> = totals.nodes.iter().map(|of| (&*of.node, of.amount.bytes_out)).collect();
        assert_eq!(names, [("a", 5), ("b", 30)]);
    }

    #[test]
    fn a_member_that_refuses_totals_is_unreachable() {
        let answered = vec![("b".to_owned(), Err("hangs")), ("a".to_owned(), Ok(Amount::default()))];
        let totals = Shares { answered, unreachable: vec!["c".to_owned()] }.those(|share| share).merge();
        assert_eq!(totals.unreachable, ["b", "c"]);
        assert_eq!(totals.nodes.iter().map(|of| &*of.node).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn totals_of_a_member_overflow_nothing() {
        let amount = Amount { sessions: u64::MAX, bytes_in: 1, ..Amount::default() };
        let answered = vec![("a".to_owned(), amount), ("b".to_owned(), amount)];
        let sum = Shares { answered, unreachable: Vec::new() }.merge().sum;
        assert_eq!((sum.sessions, sum.bytes_in), (u64::MAX, 2));
    }

    #[test]
    fn usage_of_a_user_is_added_up_apart_from_others() {
        let usage = |user: &str, messages_in| TenantUsage {
            tenant: "acme".to_owned(),
            user: Some(user.to_owned()),
            messages_in,
            ..TenantUsage::default()
        };
        let share = |tenants| Metered { tenants, ..Metered::default() };
        let all =
            shares(vec![("b", share(vec![usage("x", 2), usage("", 1)])), ("a", share(vec![usage("x", 40)]))], &[]);
        let merged = all.merge().tenants;
        let sums: Vec<_> = merged.iter().map(|usage| (usage.user.as_deref(), usage.messages_in)).collect();
        assert_eq!(sums, [(Some(""), 1), (Some("x"), 42)]);
    }

    #[test]
    fn usage_of_all_members_is_added_up() {
        let share = |tenant: &str, messages_in, in_memory: &[&str]| Metered {
            tenants: vec![TenantUsage { tenant: tenant.to_owned(), messages_in, ..TenantUsage::default() }],
            in_memory: in_memory.iter().map(|name| (*name).to_owned()).collect(),
            ..Metered::default()
        };
        let answered = vec![
            ("b".to_owned(), share("acme", 2, &["b"])),
            ("a".to_owned(), share("acme", 40, &[])),
            ("c".to_owned(), share("default", 1, &[])),
        ];
        let all = Shares { answered, unreachable: vec!["d".to_owned()] }.merge();
        let sums: Vec<_> = all.tenants.iter().map(|usage| (usage.tenant.as_str(), usage.messages_in)).collect();
        assert_eq!(sums, [("acme", 42), ("default", 1)]);
        assert_eq!((all.in_memory, all.unreachable), (vec!["b".to_owned()], vec!["d".to_owned()]));
        assert_eq!(all.nodes, ["a", "b", "c"]);
    }
    use crate::{SlowClient, StoryEvent};

    fn shares<T>(answered: Vec<(&str, T)>, unreachable: &[&str]) -> Shares<T> {
        Shares {
            answered: answered.into_iter().map(|(node, share)| (node.to_owned(), share)).collect(),
            unreachable: unreachable.iter().map(|node| (*node).to_owned()).collect(),
        }
    }

    fn clients(ids: &[&str], more: bool) -> Clients {
        let entry = |id: &&str| ClientEntry { client: (*id).to_owned(), ..ClientEntry::default() };
        Clients { clients: ids.iter().map(entry).collect(), more, ..Clients::default() }
    }

    fn ids(page: &Clients) -> Vec<String> {
        page.clients.iter().map(|client| format!("{}@{}", client.client, client.node)).collect()
    }

    #[test]
    fn pages_of_clients_are_one_page_in_order() {
        let all = shares(vec![("c", clients(&["1", "5"], false)), ("a", clients(&["2", "3"], true))], &["d", "b"]);
        let page = all.merge(3, |_| 0);
        assert_eq!(ids(&page), ["1@c", "2@a", "3@a"]);
        assert_eq!((page.more, page.unreachable), (true, vec!["b".to_owned(), "d".to_owned()]));
        let last = shares(vec![("a", clients(&["1"], false)), ("b", clients(&["2"], false))], &[]).merge(2, |_| 0);
        assert_eq!((ids(&last).len(), last.more), (2, false));
    }

    #[test]
    fn a_client_on_two_nodes_is_not_cut_in_two() {
        let both = shares(vec![("a", clients(&["1", "2"], false)), ("b", clients(&["1"], false))], &[]);
        let page = both.merge(1, |_| 0);
        assert_eq!((ids(&page), page.more), (vec!["1@a".to_owned(), "1@b".to_owned()], true));
        assert!(Shares::<Clients>::default().merge(5, |_| 0).clients.is_empty());
    }

    #[test]
    fn tenants_come_in_their_own_order() {
        let of = |tenant: &str| ClientEntry { client: "c".into(), tenant: tenant.into(), ..ClientEntry::default() };
        let share = |tenant: &str| Clients { clients: vec![of(tenant)], ..Clients::default() };
        let page =
            shares(vec![("a", share("alpha")), ("b", share("zulu"))], &[]).merge(9, |name| (name == "alpha").into());
        assert_eq!(page.clients.iter().map(|client| client.tenant.as_str()).collect::<Vec<_>>(), ["zulu", "alpha"]);
    }

    #[test]
    fn a_story_is_one_in_the_order_of_time() {
        let event = |at_ms| StoryEvent { at_ms, ..StoryEvent::default() };
        let story = |times: &[u64]| Story {
            events: times.iter().map(|at| event(*at)).collect(),
            suppressed: 2,
            ..Story::default()
        };
        let merged = shares(vec![("b", story(&[1, 4])), ("a", story(&[2]))], &["c"]).merge();
        let told: Vec<_> = merged.events.iter().map(|event| (event.at_ms, event.node.as_str())).collect();
        assert_eq!(told, [(1, "b"), (2, "a"), (4, "b")]);
        assert_eq!((merged.suppressed, merged.unreachable), (4, vec!["c".to_owned()]));
        assert_eq!(merged.nodes, ["a", "b"]);
    }

    #[test]
    fn the_slowest_of_all_nodes_are_kept() {
        let slow = |ms: u64| SlowClient { waiting_ms: ms, ..SlowClient::default() };
        let list = |times: &[u64]| SlowClients {
            clients: times.iter().map(|ms| slow(*ms)).collect(),
            ..SlowClients::default()
        };
        let merged = shares(vec![("a", list(&[9, 1])), ("b", list(&[5]))], &[]).merge(2);
        let told: Vec<_> = merged.clients.iter().map(|slow| (slow.waiting_ms, slow.node.as_str())).collect();
        assert_eq!(told, [(9, "a"), (5, "b")]);
    }

    #[test]
    fn a_ban_of_all_nodes_is_one_entry() {
        let ban =
            |name: &str, origin: &str| BanEntry { name: name.into(), origin: origin.into(), ..BanEntry::default() };
        let list = |bans: Vec<BanEntry>| BanList { bans, ..BanList::default() };
        let (a, b) = (list(vec![ban("x", "operator")]), list(vec![ban("x", "operator"), ban("w", "flapping")]));
        let merged = shares(vec![("b", b), ("a", a)], &[]).merge();
        assert_eq!(merged.bans.len(), 2);
        assert_eq!((merged.bans[0].name.as_str(), &merged.bans[0].nodes[..]), ("w", &["b".to_owned()][..]));
        assert_eq!((merged.bans[1].node.as_str(), merged.bans[1].nodes.len()), ("a", 2));
    }

    #[test]
    fn outcomes_are_added_up() {
        let changed = |changed, closed| BanChanged { changed, closed };
        let banned = shares(vec![("a", changed(true, 1)), ("b", changed(true, 2))], &["c"]).banned();
        assert_eq!((banned.closed, banned.nodes.len(), banned.unreachable.len()), (3, 2, 1));
        assert!(shares(vec![("a", changed(false, 0)), ("b", changed(true, 0))], &[]).unbanned().removed);
        assert!(!shares(vec![("a", changed(false, 0))], &[]).unbanned().removed);
        let reloaded = |applied| Reloaded { applied, text: "t\n".into(), ..Reloaded::default() };
        let merged = shares(vec![("b", reloaded(false)), ("a", reloaded(true))], &[]).merge("a");
        assert_eq!((merged.applied, merged.text.as_str()), (false, "node a: t\nnode b: t\n"));
        let alone = shares(vec![("a", reloaded(true))], &[]).merge("a");
        assert_eq!((alone.applied, alone.text.as_str(), alone.nodes.len()), (true, "t\n", 1));
    }

    #[test]
    fn many_bans_go_in_several_requests() {
        let record = |name: String| BanRecord {
            target: crate::BanTarget::Client(name),
            tenant: String::new(),
            changed_ms: 1,
            ban: None,
        };
        let records: Vec<BanRecord> = (0..10).map(|number| record(number.to_string())).collect();
        let requests = MemberRequest::of_bans(records.clone(), 200);
        assert!(requests.len() > 1);
        let mut all = Vec::new();
        for request in requests {
            assert!(serde_json::to_string(&request).unwrap().len() <= 220);
            let MemberRequest::TakeBans(part) = request else { unreachable!() };
            all.extend(part);
        }
        assert_eq!(all, records);
        assert_eq!(MemberRequest::of_bans(vec![record("x".repeat(500))], 200).len(), 1);
        assert_eq!(MemberRequest::of_bans(Vec::new(), 200), []);
    }

    #[test]
    fn a_refusal_of_one_node_is_named() {
        let answers = shares(vec![("a", MemberAnswer::Kicked(1)), ("b", MemberAnswer::Refused("no".into()))], &[]);
        let refused = answers.only(|answer| match answer {
            MemberAnswer::Kicked(closed) => Ok(closed),
            MemberAnswer::Refused(why) => Err(why),
            _ => Err("another answer".to_owned()),
        });
        assert_eq!(refused.unwrap_err().to_string(), "node b: no");
    }
}
