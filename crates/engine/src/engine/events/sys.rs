//! Values and events below `$SYS` are published.

use crate::engine::facets::{ControlCalls, ShardQuestions, SysRounds};
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::{ShardId, TenantId};
use crate::link::record::Record;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::dispatch::Source;
use crate::roster::Shards;
use crate::sys::ROUND_PATIENCE_MS;
use crate::sys::nodes::SysReport;
use crate::sys::values::SysValues;
use tidegate_mqtt::{QoS, TopicName};

impl ShardQuestions<'_> {
    /// Whether the next [`Engine::handle_timers`](crate::Engine::handle_timers) publishes `$SYS`. It includes the
    /// memory of the process if [`ControlCalls::set_process_memory`](crate::ControlCalls::set_process_memory) was
    /// called before.
    pub fn is_about_to_tell(&self, now: Now) -> bool {
        self.engine.sys.next().is_some_and(|at| at <= now.monotonic)
    }
}

impl ControlCalls<'_> {
    /// Notes the memory of the process in bytes.
    pub fn set_process_memory(&mut self, bytes: u64) {
        let most = self.engine.sys.process_memory.map_or(0, |(_, most)| most);
        self.engine.sys.process_memory = Some((bytes, most.max(bytes)));
    }
}

impl SysRounds<'_> {
    /// The timer of rounds is due: the present round ends without the reports of silent nodes, or another one begins.
    pub(crate) fn publish_sys(&mut self, now: Now) {
        // It is no longer among the timers.
        self.engine.sys.next = None;
        let is_over = now.monotonic >= self.engine.sys.begun.plus(self.interval_ms());
        if self.engine.sys.awaited != Shards::default() && self.is_gathered(now) {
            self.finish_sys_round(now);
        } else if self.engine.sys.awaited == Shards::default() || is_over {
            self.begin_sys_round(now);
        } else {
            // A shard of this process is late.
            self.set_next_round(now);
        }
    }

    /// Whether the round waits for nothing more: shards of this process always answer, other nodes have a limited time.
    fn is_gathered(&self, now: Now) -> bool {
        let awaited = self.engine.sys.awaited;
        let waits_for_own = awaited.without(self.engine.links.roster.of_process()) != awaited;
        let is_late = now.monotonic >= self.engine.sys.begun.plus(self.patience_ms());
        awaited == Shards::default() || !waits_for_own && is_late
    }

    fn patience_ms(&self) -> u64 {
        ROUND_PATIENCE_MS.min(self.interval_ms() / 2)
    }

    /// Every shard is asked.
    fn begin_sys_round(&mut self, now: Now) {
        self.engine.sys.round = self.engine.sys.round.wrapping_add(1);
        self.engine.sys.begun = now.monotonic;
        self.engine.sys.awaited = self.engine.links.roster.others();
        self.engine.sys.nodes.begin_round();
        if self.engine.links.roster.has_no_peers() {
            self.set_next_round(now);
        } else {
            let at = now.monotonic.plus(self.patience_ms());
            self.engine.sys.set_sys_timer(&mut self.engine.state, at);
        }
        for shard in self.engine.sys.awaited {
            self.engine.links.send(shard, Record::SysQuery { round: self.engine.sys.round });
        }
        let own = self.engine.questions().sys_report(now);
        self.take_report(now, self.engine.place.shard, &own);
    }

    fn interval_ms(&self) -> u64 {
        u64::from(self.engine.state.settings.sys_interval_seconds) * 1000
    }

    /// Rounds begin an interval after each other.
    fn set_next_round(&mut self, now: Now) {
        let at = self.engine.sys.begun.plus(self.interval_ms()).max(now.monotonic);
        self.engine.sys.set_sys_timer(&mut self.engine.state, at);
    }

    pub(crate) fn answer_sys_query(&mut self, now: Now, from: ShardId, round: u32) {
        let values = self.engine.questions().sys_report(now);
        self.engine.links.send(from, Record::SysReport { round, values: &values });
    }

    pub(crate) fn handle_sys_report(&mut self, now: Now, from: ShardId, round: u32, values: &[u8]) {
        if round == self.engine.sys.round && self.engine.sys.awaited.has(from) {
            self.take_report(now, from, values);
        }
    }

    fn take_report(&mut self, now: Now, from: ShardId, values: &[u8]) {
        // A node whose report cannot be read has not answered.
        let Ok(report) = SysReport::read(values, !self.engine.links.roster.is_own(from)) else { return };
        self.engine.sys.nodes.take(from, &report);
        self.engine.sys.awaited = self.engine.sys.awaited.without(Shards::of(from));
        if self.is_gathered(now) {
            self.finish_sys_round(now);
        }
    }
}

impl ShardQuestions<'_> {
    fn sys_report(self, now: Now) -> Vec<u8> {
        let engine = self.engine;
        let values = SysValues::of(&engine.state.counters, &self.gauges());
        let (node, shards) = (&*engine.state.settings.node_name, engine.place.shards);
        SysReport { node, shards, uptime_ms: engine.sys.uptime_ms(now), values }.write()
    }
}

impl SysRounds<'_> {
    fn finish_sys_round(&mut self, now: Now) {
        self.engine.sys.awaited = Shards::default();
        self.set_next_round(now);
        let (sys, live) = (&mut self.engine.sys, self.engine.links.roster.all());
        sys.nodes.end_round(now.monotonic, live);
        let mut texts: Vec<(String, String)> = vec![
            ("version".into(), format!("tidegate version {}", self.engine.state.settings.version)),
            ("uptime".into(), format!("{} seconds", sys.uptime_ms(now) / 1000)),
        ];
        texts.extend(sys.nodes.sum_texts());
        if let Some((now, most)) = sys.process_memory {
            texts.push(("heap/current".into(), now.to_string()));
            texts.push(("heap/maximum".into(), most.to_string()));
        }
        let of_nodes = sys.nodes.node_texts(&self.engine.state.settings.node_name);
        let of_broker = texts.into_iter().map(|(topic, text)| (format!("$SYS/broker/{topic}"), text));
        let all = of_broker.chain(of_nodes.into_iter().map(|(topic, text)| (format!("$SYS/{topic}"), text)));
        let mut outdated = std::mem::take(&mut self.engine.sys.published);
        for (topic, text) in all {
            let is_kept = self.publish_sys_value(now, &topic, &text);
            if outdated.remove(&topic) || is_kept {
                self.engine.sys.published.insert(topic);
            }
        }
        // Values of nodes that are left out.
        for topic in outdated {
            self.engine.retaining.store.values.clear(TenantId::DEFAULT, &topic);
        }
    }

    /// Returns whether the value is retained.
    fn publish_sys_value(&mut self, now: Now, topic: &str, text: &str) -> bool {
        if TopicName::new(topic).is_err() {
            return false;
        }
        let mut publication =
            Publication::new(TenantId::DEFAULT, topic, QoS::ExactlyOnce, true, &[], Millis::NEVER, text.as_bytes(), 0);
        // No limit of retained messages counts a value of the broker itself as refused: the next round brings it again.
        let kept = self.engine.state.settings.retained.available
            && self
                .engine
                .retaining
                .store
                .values
                .set(TenantId::DEFAULT, topic, publication.keep(), now.monotonic)
                .is_ok();
        let slot = publishing!(self.engine).route_of(TenantId::DEFAULT, topic);
        let source = Source::inside(self.engine.place.shard, now);
        let (_, route) = self.engine.router.cache.get(slot);
        reach!(self.engine).dispatch(now, route, &mut publication, &source);
        kept
    }
}
