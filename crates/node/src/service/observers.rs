//! A shard's ends of observers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_engine::{
    Engine, Now, ObservedMessage, Observer, ObserverAnswer, ObserverError, ObserverId, ObserverWindow, ShardId,
};

/// A shard's end of an observer: takes its messages on the shard's thread.
pub(crate) type ObserverSink = Arc<dyn Fn(ShardId, ObservedMessage) + Send + Sync>;

/// The observers that services have at a shard.
#[derive(Default)]
pub(crate) struct NodeObservers {
    sinks: BTreeMap<ObserverId, ObserverSink>,
    by_number: BTreeMap<u64, ObserverId>,
}

impl NodeObservers {
    pub(crate) fn begin(
        &mut self,
        engine: &mut Engine,
        number: u64,
        observer: Observer,
        sink: ObserverSink,
    ) -> Result<(), ObserverError> {
        let id = engine.insiders().observe(observer)?;
        self.by_number.insert(number, id);
        self.sinks.insert(id, sink);
        Ok(())
    }

    pub(crate) fn attach(
        &mut self,
        (engine, now): (&mut Engine, Now),
        observer: ObserverId,
        window: ObserverWindow,
        sink: ObserverSink,
    ) {
        self.sinks.insert(observer, sink);
        engine.insiders().set_observer_window(now, observer, window);
    }

    pub(crate) fn end(&mut self, (engine, now): (&mut Engine, Now), number: u64) {
        if let Some(id) = self.by_number.remove(&number) {
            self.sinks.remove(&id);
            engine.insiders().end_observer(now, id);
        }
    }

    /// A message goes to the service that observes its topic.
    pub(crate) fn take(
        &self,
        (engine, now): (&mut Engine, Now),
        shard: ShardId,
        observer: ObserverId,
        message: ObservedMessage,
    ) {
        let Some(sink) = self.sinks.get(&observer) else {
            // The observer has ended.
            return engine.insiders().confirm_observed(now, message.ticket, ObserverAnswer::Later);
        };
        sink(shard, message);
    }
}
