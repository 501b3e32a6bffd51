//! Values and events below `$SYS` are published.

use crate::engine::facets::{ControlCalls, ShardQuestions, SysRounds};
use crate::events::reason::Reason;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::{ShardId, TenantId};
use crate::link::record::Record;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::dispatch::Source;
use crate::sys::{NUMBERS, SysValues};
use tidegate_mqtt::QoS;

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
    /// Begins a round: every shard is asked.
    pub(crate) fn publish_sys(&mut self, now: Now) {
        let next = now.monotonic.plus_seconds(self.engine.state.settings.sys_interval_seconds);
        self.engine.sys.set_sys_timer(&mut self.engine.state, next);
        self.engine.sys.round = self.engine.sys.round.wrapping_add(1);
        self.engine.sys.gathered = self.engine.questions().sys_values();
        self.engine.sys.missing = self.engine.place.shards - 1;
        for shard in self.engine.place.others() {
            self.engine.links.send(shard, Record::SysQuery { round: self.engine.sys.round });
        }
        if self.engine.sys.missing == 0 {
            self.finish_sys_round(now);
        }
    }

    pub(crate) fn answer_sys_query(&mut self, from: ShardId, round: u32) {
        let values = self.engine.questions().sys_values().write();
        self.engine.links.send(from, Record::SysReport { round, values: &values });
    }

    pub(crate) fn handle_sys_report(&mut self, now: Now, round: u32, values: &[u8]) {
        if round != self.engine.sys.round {
            return;
        }
        self.engine.sys.gathered.add(&SysValues::read(values));
        self.engine.sys.missing = self.engine.sys.missing.saturating_sub(1);
        if self.engine.sys.missing == 0 {
            self.finish_sys_round(now);
        }
    }
}

impl ShardQuestions<'_> {
    fn sys_values(self) -> SysValues {
        SysValues::of(&self.engine.state.counters, &self.gauges())
    }
}

impl SysRounds<'_> {
    fn finish_sys_round(&mut self, now: Now) {
        if self.engine.sys.watchers == 0 {
            return;
        }
        let values = self.engine.sys.gathered.clone();
        let [connected, disconnected, ..] = values.numbers;
        self.engine.sys.clients_maximum = self.engine.sys.clients_maximum.max(connected);
        let uptime = now.monotonic.since(self.engine.sys.started.monotonic) / 1000;
        let mut texts: Vec<(String, String)> = vec![
            ("version".into(), format!("tidegate version {}", self.engine.state.settings.version)),
            ("uptime".into(), format!("{uptime} seconds")),
            ("clients/total".into(), (connected + disconnected).to_string()),
            ("clients/maximum".into(), self.engine.sys.clients_maximum.to_string()),
        ];
        for (number, value) in NUMBERS.iter().zip(values.numbers) {
            texts.extend(number.topics.iter().map(|topic| ((*topic).to_owned(), value.to_string())));
        }
        for (reason, count) in Reason::ALL.iter().zip(values.dropped) {
            if count > 0 {
                texts.push((format!("publish/messages/dropped/{}", reason.label()), count.to_string()));
            }
        }
        if let Some((now, most)) = self.engine.sys.process_memory {
            texts.push(("heap/current".into(), now.to_string()));
            texts.push(("heap/maximum".into(), most.to_string()));
        }
        self.engine.sys.add_loads(now, &values, &mut texts);
        for (topic, text) in texts {
            self.publish_sys_value(now, format!("$SYS/broker/{topic}"), &text);
        }
        self.engine.sys.last = Some((now.monotonic, values));
    }

    fn publish_sys_value(&mut self, now: Now, topic: String, text: &str) {
        let mut publication =
            Publication::new(TenantId::DEFAULT, &topic, QoS::ExactlyOnce, true, &[], Millis::NEVER, text.as_bytes(), 0);
        // No limit of retained messages counts a value of the broker itself as refused: the next round brings it again.
        let kept = self.engine.state.settings.retained.available
            && self
                .engine
                .retaining
                .store
                .values
                .set(TenantId::DEFAULT, &topic, publication.keep(), now.monotonic)
                .is_ok();
        let slot = publishing!(self.engine).route_of(TenantId::DEFAULT, &topic);
        let source = Source::inside(self.engine.place.shard, now);
        let (_, route) = self.engine.router.cache.get(slot);
        reach!(self.engine).dispatch(now, route, &mut publication, &source);
        if kept {
            self.engine.sys.published.insert(topic);
        }
    }
}
