//! A PUBLISH with properties: its topic alias, its expiry, and the properties that are passed on unchanged (section
//! 3.3.2.3).

use crate::addresses::{SET_BY_BROKER, asks_for_unknown_receipts};
use crate::engine::facets::PublishPipeline;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::publishing;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::id::PROPERTY;
use crate::publish::inbound::Inbound;
use crate::publish::pipeline::Progress;
use crate::settings::Settings;
use crate::settings::fleet_topics::at_brokers;
use crate::topics::RouteSlot;
use crate::topics::origin::ORIGIN_PROPERTY;
use std::borrow::Cow;
use tidegate_mqtt::{PayloadFormat, PublishProperties, RawPublish};

impl PublishPipeline<'_> {
    /// MQTT 5: expiry, topic alias, payload format, and the properties that are passed on unchanged. `forwarded` is
    /// empty and takes those; the message expires at `latest`.
    pub(crate) fn publish_with_properties(
        &mut self,
        now: Now,
        (key, session, tenant): (ConnectionKey, Option<SessionKey>, TenantId),
        raw: &RawPublish<'_>,
        latest: Millis,
        forwarded: &mut Vec<u8>,
    ) -> Result<Progress, Refused> {
        let properties = PublishProperties::decode(raw.properties)?;
        if properties.subscription_identifiers.iter().next().is_some() {
            return Err(Refused::new(Reason::ProtocolError, "PUBLISH from a client carries a subscription identifier"));
        }
        let has_brokers = self.engine.broker_links.brokers.config.is_on();
        let (tenant, topic) = if has_brokers && !self.is_of_addresses(key, &properties, raw) {
            to_fleet(&self.engine.state.settings, tenant, raw.topic)?
        } else {
            (tenant, Cow::Borrowed(raw.topic))
        };
        let slot = match properties.topic_alias {
            None => publishing!(self.engine).slot_of(tenant, &topic)?,
            Some(alias) => self.slot_by_alias(key, tenant, alias, &topic)?,
        };
        if properties.payload_format == Some(PayloadFormat::Utf8) && self.checks_payload_format(key) {
            check_payload(raw)?;
        }
        let expires_at = properties.message_expiry.map_or(Millis::NEVER, |seconds| now.monotonic.plus_seconds(seconds));
        let expires_at = self.expiry_of(now, slot, expires_at.min(latest));
        let mut unknown_receipts = false;
        let hops = self.unbelieved_hops((key, session), &properties);
        let is_for_hub = self.engine.router.cache.traits(slot).is_for_hub;
        if is_for_hub {
            self.append_origin(now, session, forwarded);
        }
        if tenant == TenantId::BROKER_LINK {
            // An id that the client has made up stays here: it could be taken for another message's, and that one for
            // known.
            properties.copy_forwardable_without(&[PROPERTY, ORIGIN_PROPERTY, hops], forwarded);
            let publisher = self.engine.broker_links.publisher_of(&self.engine.state, key, session);
            self.engine.broker_links.append_next_id(now, publisher, raw.retain, forwarded);
        } else if !self.engine.router.cache.traits(slot).is_address {
            // A pipeline that is added later may read this message from a queue or retained, and believes its origin.
            properties.copy_forwardable_without(&[ORIGIN_PROPERTY, hops], forwarded);
        } else {
            let [to, number, origin] = SET_BY_BROKER;
            properties.copy_forwardable_without(&[to, number, origin, hops], forwarded);
            unknown_receipts = asks_for_unknown_receipts(&properties);
            let topic = self.engine.router.cache.get(slot).0.to_owned();
            publishing!(self.engine).add_receipts((key, session), &topic, &properties, forwarded);
        }
        let it = Inbound { now, key, session, tenant, slot, raw, properties: forwarded, expires_at, unknown_receipts };
        Ok(if tenant == TenantId::BROKER_LINK { self.publish_to_fleet(&it) } else { self.publish(&it) })
    }

    /// A message without properties, of a client of the default tenant, goes to the fleet: it needs an id only. `forwarded`
    /// is empty and takes that.
    pub(super) fn publish_plain_to_fleet(
        &mut self,
        now: Now,
        (key, session): (ConnectionKey, SessionKey),
        raw: &RawPublish<'_>,
        forwarded: &mut Vec<u8>,
    ) -> Result<Progress, Refused> {
        let (tenant, session) = (TenantId::BROKER_LINK, Some(session));
        let slot = match self.engine.router.cache.lookup(self.engine.router.index.epoch(), tenant, raw.topic) {
            Some(slot) => slot,
            // The context is made for a new topic only: it costs as much as the look-up.
            None => publishing!(self.engine).new_slot(tenant, raw.topic)?,
        };
        if self.engine.router.cache.traits(slot).is_for_hub {
            self.append_origin(now, session, forwarded);
        }
        let publisher = self.engine.broker_links.publisher_of(&self.engine.state, key, session);
        self.engine.broker_links.append_next_id(now, publisher, raw.retain, forwarded);
        let (expires_at, unknown_receipts) = (self.expiry_of(now, slot, Millis::NEVER), false);
        let it = Inbound { now, key, session, tenant, slot, raw, properties: forwarded, expires_at, unknown_receipts };
        Ok(self.publish_to_fleet(&it))
    }

    /// A message to a topic of a pipeline whose properties are passed on as they are: it gets its origin before them.
    #[inline(never)]
    pub(super) fn publish_plain_to_hub(
        &mut self,
        now: Now,
        (key, session, tenant): (ConnectionKey, SessionKey, TenantId),
        slot: RouteSlot,
        raw: &RawPublish<'_>,
    ) -> Progress {
        let mut properties = std::mem::take(&mut self.engine.layouts.properties);
        properties.clear();
        self.append_origin(now, Some(session), &mut properties);
        properties.extend_from_slice(raw.properties);
        let (session, expires_at) = (Some(session), Millis::NEVER);
        let unknown_receipts = false;
        let it =
            Inbound { now, key, session, tenant, slot, raw, properties: &properties, expires_at, unknown_receipts };
        let progress = self.publish(&it);
        self.engine.layouts.properties = properties;
        progress
    }

    /// Whether a message has a topic of addresses, by its name or by a topic alias.
    fn is_of_addresses(&self, key: ConnectionKey, properties: &PublishProperties<'_>, raw: &RawPublish<'_>) -> bool {
        let Some(alias) = properties.topic_alias.filter(|_| raw.topic.is_empty()) else {
            return self.engine.state.settings.is_of_addresses(raw.topic);
        };
        let extra = self.engine.state.connections.get(key).and_then(|connection| connection.extra.as_ref());
        let known = extra.and_then(|extra| extra.aliases_in.get(alias));
        known.is_some_and(|topic| self.engine.state.settings.is_of_addresses(topic.as_bytes()))
    }

    fn checks_payload_format(&self, key: ConnectionKey) -> bool {
        let listener = self
            .engine
            .state
            .connections
            .get(key)
            .and_then(|connection| self.engine.state.settings.listener(connection.listener));
        listener.is_some_and(|listener| listener.check_payload_format)
    }

    fn slot_by_alias(
        &mut self,
        key: ConnectionKey,
        tenant: TenantId,
        alias: std::num::NonZeroU16,
        topic: &[u8],
    ) -> Result<RouteSlot, Refused> {
        let Some(connection) = self.engine.state.connections.get(key) else {
            return publishing!(self.engine).slot_of(tenant, topic);
        };
        let max =
            self.engine.state.settings.listener(connection.listener).map_or(0, |listener| listener.topic_alias_maximum);
        // A connection that has come from another node keeps its terms.
        let max =
            if alias.get() > max { connection.promised().map_or(max, |terms| terms.topic_alias_maximum) } else { max };
        if alias.get() > max {
            return Err(Refused::new(
                Reason::InvalidTopicAlias,
                format!("topic alias {alias} is above the maximum of {max}"),
            ));
        }
        if topic.is_empty() {
            let Some(connection) = self.engine.state.connections.get(key) else {
                return publishing!(self.engine).slot_of(tenant, topic);
            };
            let known = connection.extra.as_ref().and_then(|extra| extra.aliases_in.get(alias));
            let Some(topic) = known else {
                return Err(Refused::new(Reason::InvalidTopicAlias, format!("topic alias {alias} was never set")));
            };
            if let Some(slot) =
                self.engine.router.cache.lookup(self.engine.router.index.epoch(), tenant, topic.as_bytes())
            {
                return Ok(slot);
            }
            let topic = topic.to_owned();
            return Ok(publishing!(self.engine).make_route(tenant, &topic));
        }
        let slot = publishing!(self.engine).slot_of(tenant, topic)?;
        let (name, _) = self.engine.router.cache.get(slot);
        if let Some(connection) = self.engine.state.connections.get_mut(key) {
            let aliases = &mut connection.extra_mut().aliases_in;
            let before = aliases.bytes();
            aliases.set(alias, name, max);
            let after = aliases.bytes();
            self.engine.state.memory.held = self.engine.state.memory.held + after - before;
            if after > before && self.engine.state.memory.is_over_ceiling() {
                return Err(Refused::new(Reason::MemoryCeiling, ""));
            }
        }
        Ok(slot)
    }
}

/// A payload with the UTF-8 indicator must be UTF-8, if the listener checks it.
fn check_payload(raw: &RawPublish<'_>) -> Result<(), Refused> {
    if std::str::from_utf8(raw.payload).is_ok() {
        return Ok(());
    }
    Err(Refused::new(Reason::InvalidPayloadFormat, "the payload is said to be UTF-8 and is not"))
}

/// The tenant in which a message goes to a fleet, and its topic there. Brokers get no messages of a tenant whose name is
/// not known.
fn to_fleet<'a>(settings: &Settings, tenant: TenantId, topic: &'a [u8]) -> Result<(TenantId, Cow<'a, [u8]>), Refused> {
    if tenant == TenantId::DEFAULT {
        return Ok((TenantId::BROKER_LINK, Cow::Borrowed(topic)));
    }
    let name = std::str::from_utf8(topic);
    let name = name.map_err(|error| Refused::new(Reason::InvalidTopicName, error.to_string()))?;
    let Some(named) = at_brokers(settings, tenant, name) else { return Ok((tenant, Cow::Borrowed(topic))) };
    // Without a topic there is an alias, which was set with the topic at brokers.
    let topic = if name.is_empty() { Cow::Borrowed(topic) } else { Cow::Owned(named.into_owned().into_bytes()) };
    Ok((TenantId::BROKER_LINK, topic))
}
