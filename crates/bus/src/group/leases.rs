//! Whether the members of a group have the same lease: each gives the others up by its own.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Member;

/// Most members whose lease is remembered as logged; further ones are not logged.
const MAX_TOLD: usize = 1_024;

/// The other members whose lease differs from this one, as far as it was logged.
#[derive(Default)]
pub(super) struct Leases(BTreeMap<String, Duration>);

impl Leases {
    /// Tells the log of members with another lease, of each once.
    pub(super) fn look(&mut self, group: &str, own: (&str, Duration), members: &[Member]) {
        let (member, lease) = own;
        for (other, others_lease) in self.news(own, members) {
            tracing::warn!(
                group,
                member,
                ?lease,
                other,
                ?others_lease,
                "two members have different leases, and each gives the other up by its own: the one with the longer lease may be given up while it \
                 works. Set the same for all and start them again: `cluster.lease` of nodes, `context.lease` of services and gateways"
            );
        }
    }

    /// The members to log now. A member without a lease, as in earlier builds, is not judged.
    fn news<'a>(&mut self, (own, lease): (&str, Duration), members: &'a [Member]) -> Vec<(&'a str, Duration)> {
        let mut news = Vec::new();
        for member in members.iter().filter(|member| member.name.as_str() != own) {
            let (name, Some(theirs)) = (member.name.as_str(), member.lease) else { continue };
            if theirs == lease {
                // If it differs once more, that is news.
                self.0.remove(name);
            } else if self.0.get(name) != Some(&theirs) && (self.0.len() < MAX_TOLD || self.0.contains_key(name)) {
                self.0.insert(name.to_owned(), theirs);
                news.push((name, theirs));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberName;

    fn members(leases: &[(&str, Option<u64>)]) -> Vec<Member> {
        let member = |(name, lease): &(&str, Option<u64>)| Member {
            name: MemberName::new(name).unwrap(),
            incarnation: 1,
            lease: lease.map(Duration::from_secs),
        };
        leases.iter().map(member).collect()
    }

    #[test]
    fn a_member_with_another_lease_is_logged_once() {
        let mut leases = Leases::default();
        let mut news = |others: &[(&str, Option<u64>)]| -> Vec<(String, u64)> {
            let members = members(others);
            let told = leases.news(("me", Duration::from_secs(10)), &members);
            told.into_iter().map(|(name, lease)| (name.to_owned(), lease.as_secs())).collect()
        };
        let one = |name: &str, lease| (name.to_owned(), lease);
        assert_eq!(
            news(&[("me", Some(7)), ("same", Some(10)), ("silent", None)]),
            [],
            "the record of oneself may be an old one"
        );
        assert_eq!(news(&[("b", Some(2)), ("c", Some(30))]), [one("b", 2), one("c", 30)]);
        assert_eq!(news(&[("b", Some(2)), ("c", Some(30))]), []);
        // The member left, or a member without leases rewrote its entry, and it has joined again.
        assert_eq!(news(&[("c", None)]), []);
        assert_eq!(news(&[("b", Some(2)), ("c", Some(30))]), []);
        assert_eq!(news(&[("b", Some(3)), ("c", Some(10))]), [one("b", 3)]);
        assert_eq!(news(&[("c", Some(30))]), [one("c", 30)]);
    }

    #[test]
    fn members_beyond_the_limit_are_not_remembered() {
        let mut leases = Leases::default();
        let names: Vec<String> = (0..=MAX_TOLD).map(|number| format!("m{number}")).collect();
        let all: Vec<(&str, Option<u64>)> = names.iter().map(|name| (name.as_str(), Some(1))).collect();
        assert_eq!(leases.news(("me", Duration::from_secs(10)), &members(&all)).len(), MAX_TOLD);
        assert_eq!(leases.news(("me", Duration::from_secs(10)), &members(&all)), []);
    }
}
