//! Subscriptions and memberships are restored.

use crate::addresses::{NODE_GROUP, group_of_stored};
use crate::desk::Timer;
use crate::durable::keys::StoredSession;
use crate::durable::restore::Restoration;
use crate::durable::restoring::Restoring;
use crate::durable::session_record::SessionRecord;
use crate::flows::subscribe::subscribing::Subscribing;
use crate::link::record::{GroupName, MemberOptions};
use crate::now::{Millis, Now};
use crate::session::{FilterList, Membership, Session};
use crate::topics::{Subscriber, SubscriberOptions};
use crate::wire::WireError;
use std::collections::BTreeMap;
use std::rc::Rc;

impl Subscribing<'_> {
    pub(crate) fn restore_session(
        &mut self,
        now: Now,
        all: &mut Restoration,
        stored: StoredSession,
        record: SessionRecord,
    ) -> Result<(), WireError> {
        if self.desk.sessions.find_session(record.tenant, &record.client_id).is_some() {
            return Err(WireError { reading: "a client id that no other session has" });
        }
        let tenant = record.tenant;
        let ends_at = record.ends_at_after_restart(now, self.desk.settings.mailbox_ends_at(now));
        let mut session = Session {
            client_id: record.client_id,
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: record.expiry_seconds,
            tenant,
            listener: record.listener,
            receive_maximum: record.receive_maximum,
            rights_epoch: 0,
            standing: record.standing,
            stored: Some(stored),
            identity: record.identity,
        };
        if ends_at != Millis::NEVER {
            session.rare_mut().ends_at = Some(ends_at);
        }
        let mut will_due = None;
        if let Some(will) = record.will {
            let delay = will.delay_seconds.min(record.expiry_seconds);
            // A wall clock that was set back does not delay it further.
            let due = record.will_due.min(now.monotonic.plus_seconds(delay));
            session.rare_mut().will = Some(will);
            session.rare_mut().will_due = Some(due);
            will_due = Some(due);
        }
        let key = self.desk.insert_session(session);
        if ends_at != Millis::NEVER {
            self.desk.timers.set(ends_at, Timer::SessionEnd(key));
        }
        if let Some(due) = will_due {
            self.desk.timers.set(due, Timer::Will(key));
        }
        self.restore_standing(now, tenant, record.standing);
        if record.connected && (will_due.is_some() || ends_at != Millis::NEVER) {
            all.broken_off.push(key);
        }
        all.done.sessions += 1;
        let restoring = Restoring {
            key,
            tenant,
            memberships: Vec::new(),
            entries: BTreeMap::new(),
            tail: None,
            last: 0,
            mailbox_from: record.mailbox_from,
        };
        all.current = Some((stored, restoring));
        Ok(())
    }

    pub(crate) fn restore_subscription(
        &mut self,
        now: Now,
        all: &mut Restoration,
        stored: StoredSession,
        filter: &str,
        options: u8,
        subscription_id: u32,
    ) -> Result<(), WireError> {
        if options & NODE_GROUP != 0 {
            let node = all.current.as_ref().map(|(_, restoring)| restoring.key);
            self.restore_node_group(now, node, group_of_stored(filter));
            return Ok(());
        }
        let wrong = WireError { reading: "a topic filter" };
        let filter = tidegate_mqtt::TopicFilter::new(filter).map_err(|_| wrong)?;
        let Some((_, restoring)) = all.current.as_mut().filter(|(current, _)| *current == stored) else {
            return Ok(());
        };
        all.done.subscriptions += 1;
        let (key, tenant) = (restoring.key, restoring.tenant);
        if let Some((share, filter)) = filter.shared() {
            let partition = crate::groups::group_partition(tenant, share, filter.as_str());
            let group = GroupName { tenant, share, filter: filter.as_str() };
            let membership = Rc::new(Membership::new(group, partition, MemberOptions { options, subscription_id }));
            restoring.memberships.push(Rc::clone(&membership));
            self.rejoin_group(now, key, &membership);
        } else {
            let options = SubscriberOptions::from_bits(options);
            let subscriber = Subscriber { session: key, options, subscription_id };
            self.adopt_subscription(now, tenant, filter.as_str(), subscriber);
        }
        Ok(())
    }
}
