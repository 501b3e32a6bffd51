//! Exchanges of shared groups from the time before a restart.

use crate::cluster::exchanges::dealt_before::DealtBefore;
use crate::flows::contexts::Deciding;
use crate::ids::Partitions;
use crate::link::got::Got;

impl Deciding<'_> {
    /// Notes it, and reports it to the present homes of the groups.
    pub(crate) fn adopt_dealt_before(&mut self, all: DealtBefore) {
        let left = Partitions::that(|partition| !self.links.is_taken_over_elsewhere(partition));
        for (name, groups) in all {
            let groups = groups.among(left);
            if !groups.is_empty() {
                self.state.exchanges.put_mark(
                    self.links.place,
                    &mut self.state.journal,
                    name,
                    Got { groups, ..Got::EMPTY },
                );
                self.links.tell_homes(self.state, name, groups);
            }
        }
    }
}
