//! Values and events below `$SYS`.

use crate::flows::contexts::Publishing;
use crate::flows::contexts::Subscribing;
use crate::ids::{ShardId, TenantId};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::roster::Shards;
use crate::sys::ClientEvent;
use crate::timers::Timer;
use crate::topics::is_own_topic;
use tidegate_mqtt::QoS;

impl Publishing<'_> {
    /// Publishes a client event whose text was made before.
    pub(crate) fn publish_client_event(&mut self, now: Now, event: Option<ClientEvent>) {
        let Some(ClientEvent { tenant, topic, text }) = event else { return };
        let mut publication =
            Publication::new(tenant, &topic, QoS::ExactlyOnce, false, &[], Millis::NEVER, text.as_bytes(), 0);
        self.publish_inside(now, &mut publication, None);
    }
}

impl Subscribing<'_> {
    /// Somebody's interest in a filter began or ended; rounds run while there is one below `$SYS`.
    pub(crate) fn note_sys_interest(&mut self, now: Now, tenant: TenantId, filter: &str, present: bool) {
        if !is_own_topic(filter) {
            return;
        }
        let watchers = if tenant == TenantId::DEFAULT { &mut self.sys.watchers } else { &mut self.sys.tenant_watchers };
        *watchers = if present { *watchers + 1 } else { watchers.saturating_sub(1) };
        if self.links.place.shard != ShardId(0) || self.state.settings.sys_interval_seconds == 0 {
            return;
        }
        if self.sys.watchers > 0 && self.sys.next.is_none() {
            self.sys.set_sys_timer(self.state, now.monotonic);
        } else if self.sys.watchers == 0
            && let Some(at) = self.sys.next.take()
        {
            self.state.timers.cancel(at, Timer::Sys);
            self.sys.nodes.clear();
            self.sys.awaited = Shards::default();
            for topic in std::mem::take(&mut self.sys.published) {
                self.retaining.store.values.clear(TenantId::DEFAULT, &topic);
            }
        }
    }
}
