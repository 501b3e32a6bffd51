//! Members of a shared group whose sessions end with their connections.

use tidegate_engine::TenantId;
use tidegate_mqtt::{QoS, SubscriptionOptions};

use super::{Run, SHARED, settle};
use crate::harness::*;

/// A client whose session ends with its connection.
pub(super) struct Guest {
    pub(super) device: Device,
    home: usize,
}

impl Run {
    /// Adds guests, which are not connected yet.
    pub(super) fn invite(&mut self, count: usize) {
        let guest = |number| Guest { device: Device::new(&self.members[0].world, &format!("guest-{number}")), home: 0 };
        self.guests = (0..count).map(guest).collect();
    }

    /// A guest connects and joins the group, takes its messages, or its connection breaks.
    pub(super) fn visit(&mut self) {
        let at = self.random.below(self.guests.len());
        let name = self.guests[at].device.name.clone();
        let partition = tidegate_engine::partition_of(TenantId::DEFAULT, &name);
        let home = self.homes()[usize::from(partition.0)];
        let (survives, steps) = (self.random.pick(&[0, 7, usize::MAX]), self.random.below(12));
        let cuts = self.random.percent(40);
        self.guests[at].device.notice_close();
        if self.guests[at].device.client().is_none() {
            if self.members[home].is_dead {
                return;
            }
            let world = self.members[home].world.clone();
            let guest = &mut self.guests[at];
            guest.home = home;
            guest.device.move_to(&world);
            guest.device.connect(v5(""));
            settle(&world, &mut guest.device);
            guest.device.subscribe(SHARED.0, SubscriptionOptions::new(QoS::AtLeastOnce), None);
            world.run_some(steps);
            guest.device.process();
        } else if cuts {
            self.guests[at].device.cut(survives);
        } else {
            self.members[self.guests[at].home].world.run_some(steps);
            self.guests[at].device.process();
        }
        self.spread();
    }

    /// The connections of all guests break, since their partitions get other homes.
    pub(super) fn part_guests(&mut self) {
        for guest in &mut self.guests {
            guest.device.notice_close();
            guest.device.cut(0);
        }
    }
}
