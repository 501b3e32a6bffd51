//! Taking a partition in.

use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::homes::HomesInForce;
use crate::retained::RetainedStore;
use crate::state::ShardState;

impl RetainedStore {
    pub(crate) fn adopt_retained(
        &mut self,
        now: Now,
        state: &mut ShardState,
        homes: &HomesInForce,
        message: MessageRef,
    ) {
        let (tenant, topic) = (message.tenant, message.topic().to_owned());
        let is_old = if homes.keep_versions(&topic) {
            self.has_as_new(now, tenant, &topic, message.publisher)
        } else {
            self.values.get(tenant, &topic, now.monotonic).is_some()
        };
        if is_old {
            return;
        }
        self.removed.forget(tenant, &topic);
        let kept = message.clone();
        self.values.take_back(tenant, &topic, message);
        if state.journal.is_on() {
            state.journal.put_retained(&kept.publication());
        }
    }
}
