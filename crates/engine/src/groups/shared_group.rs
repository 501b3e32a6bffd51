//! The choice of the member of a shared group that gets the next message.

use crate::settings::SharedStrategy;

/// A member of a shared group.
#[derive(Clone, Debug)]
pub(crate) struct Member<R, O> {
    /// The receiver of the messages, by which the member is also found.
    pub(crate) receiver: R,
    /// How the member wants its messages.
    pub(crate) options: O,
    /// A number that stays with the member wherever it connects, such as the hash of its client id: hashing strategies
    /// deal by it, so that the same member gets the same messages after it was away.
    pub(crate) identity: u64,
}

/// The members of a shared group, and the next one to deal to.
///
/// Members that are online come before the others, and get messages first: one that is away gets them only when all
/// that are online are excluded.
#[derive(Clone, Debug)]
pub(crate) struct Group<R, O> {
    /// Online members first.
    members: Vec<Member<R, O>>,
    online: usize,
    strategy: SharedStrategy,
    /// The member with the next turn, or for the sticky strategy the favourite; taken modulo the number of candidates.
    next: usize,
}

impl<R: PartialEq, O> Group<R, O> {
    /// A group without members.
    pub(crate) fn new(strategy: SharedStrategy) -> Self {
        Self { members: Vec::new(), online: 0, strategy, next: 0 }
    }

    /// Number of members.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Number of members that are online.
    pub(crate) fn online(&self) -> usize {
        self.online
    }

    /// The only member, if it is online: a choice of one needs no strategy.
    #[inline]
    pub(crate) fn sole_online(&self) -> Option<&R> {
        match &self.members[..] {
            [only] if self.online == 1 => Some(&only.receiver),
            _ => None,
        }
    }

    /// All members, online ones first, in the order of the places that [`Group::pick`] returns.
    pub(crate) fn members(&self) -> &[Member<R, O>] {
        &self.members
    }

    /// Adds a member, or replaces the one with the same receiver. Returns whether it is new.
    pub(crate) fn join(&mut self, member: Member<R, O>, online: bool) -> bool {
        let known = self.place_of(&member.receiver);
        let Some(place) = known else {
            self.members.push(member);
            if online {
                self.move_online(self.members.len() - 1);
            }
            return true;
        };
        self.put_online(place, online);
        if let Some(place) = self.place_of(&member.receiver) {
            self.members[place] = member;
        }
        false
    }

    /// The options of a member, to be changed.
    pub(crate) fn options_mut(&mut self, receiver: &R) -> Option<&mut O> {
        let place = self.place_of(receiver)?;
        self.members.get_mut(place).map(|member| &mut member.options)
    }

    /// Removes a member.
    pub(crate) fn leave(&mut self, receiver: &R) -> Option<Member<R, O>> {
        let place = self.place_of(receiver)?;
        Some(self.take(place))
    }

    /// Notes whether a member is online; returns whether that is news.
    pub(crate) fn set_online(&mut self, receiver: &R, online: bool) -> bool {
        self.place_of(receiver).is_some_and(|place| self.put_online(place, online))
    }

    /// The place of the member that gets the next message, or `None` when all are excluded.
    ///
    /// `publisher_hash` and `topic_hash` decide if the strategy hashes: a member that comes or goes then changes only
    /// its own share. Hashing looks once at each candidate; other strategies look once in all, beside the members that
    /// `exclude` refuses.
    pub(crate) fn pick(
        &mut self,
        publisher_hash: u64,
        topic_hash: u64,
        exclude: impl Fn(&Member<R, O>) -> bool,
    ) -> Option<usize> {
        let parts = [(0, self.online), (self.online, self.members.len())];
        parts.into_iter().find_map(|part| self.pick_of(part, publisher_hash, topic_hash, &exclude))
    }

    /// The same among online members only.
    pub(crate) fn pick_online(
        &mut self,
        publisher_hash: u64,
        topic_hash: u64,
        exclude: impl Fn(&Member<R, O>) -> bool,
    ) -> Option<usize> {
        self.pick_of((0, self.online), publisher_hash, topic_hash, &exclude)
    }

    fn pick_of(
        &mut self,
        (start, end): (usize, usize),
        publisher_hash: u64,
        topic_hash: u64,
        exclude: &impl Fn(&Member<R, O>) -> bool,
    ) -> Option<usize> {
        match self.strategy {
            SharedStrategy::RoundRobin | SharedStrategy::Sticky => self.pick_in_turn(start, end, exclude),
            SharedStrategy::HashClient => self.pick_by_hash(start, end, publisher_hash, exclude),
            SharedStrategy::HashTopic => self.pick_by_hash(start, end, topic_hash, exclude),
        }
    }

    /// The place of the member that a topic's hash picks, whatever the strategy is: among online members, or among all
    /// if no member is online. Members that `exclude` refuses are left out.
    pub(crate) fn pick_by_topic(&self, topic_hash: u64, exclude: impl Fn(&Member<R, O>) -> bool) -> Option<usize> {
        let end = if self.online > 0 { self.online } else { self.members.len() };
        self.pick_by_hash(0, end, topic_hash, exclude)
    }

    /// The place of the online member with the least `load`, or of any member if all are offline. Members that
    /// `exclude` refuses are considered only if there is no other.
    pub(crate) fn least<L: Ord>(
        &self,
        load: impl Fn(&Member<R, O>) -> L,
        exclude: impl Fn(&Member<R, O>) -> bool,
    ) -> Option<usize> {
        let candidates = if self.online > 0 { self.online } else { self.members.len() };
        (0..candidates).min_by_key(|place| {
            let member = &self.members[*place];
            (exclude(member), load(member))
        })
    }

    fn pick_in_turn(&mut self, start: usize, end: usize, exclude: impl Fn(&Member<R, O>) -> bool) -> Option<usize> {
        let candidates = end - start;
        for tried in 0..candidates {
            let turn = (self.next.checked_rem(candidates)? + tried) % candidates;
            let place = start + turn;
            if exclude(&self.members[place]) {
                continue;
            }
            self.next = match self.strategy {
                // The favourite stays, although it was passed over once.
                SharedStrategy::Sticky if tried > 0 => self.next,
                SharedStrategy::Sticky => turn,
                _ => turn + 1,
            };
            return Some(place);
        }
        None
    }

    /// Each member draws a number for the hash, and the highest wins.
    fn pick_by_hash(
        &self,
        start: usize,
        end: usize,
        hash: u64,
        exclude: impl Fn(&Member<R, O>) -> bool,
    ) -> Option<usize> {
        let candidates = (start..end).filter(|place| !exclude(&self.members[*place]));
        candidates.max_by_key(|place| draw(hash, self.members[*place].identity))
    }

    fn place_of(&self, receiver: &R) -> Option<usize> {
        self.members.iter().position(|member| member.receiver == *receiver)
    }

    fn put_online(&mut self, place: usize, online: bool) -> bool {
        if (place < self.online) == online {
            return false;
        }
        if online {
            self.move_online(place);
        } else {
            self.move_offline(place);
        }
        true
    }

    fn take(&mut self, place: usize) -> Member<R, O> {
        if place < self.online {
            self.move_offline(place);
            let place = self.online;
            return self.members.swap_remove(place);
        }
        self.members.swap_remove(place)
    }

    /// Moves a member to the end of the online members.
    fn move_online(&mut self, place: usize) {
        self.members.swap(place, self.online);
        self.online += 1;
    }

    /// Moves a member to the front of the offline members. Keeps the order of the others and the turn.
    fn move_offline(&mut self, place: usize) {
        self.members[place..self.online].rotate_left(1);
        self.online -= 1;
        if self.next > place {
            self.next -= 1;
        }
    }
}

/// The weight of a member for a hash: evenly spread and the same everywhere.
#[inline]
fn draw(hash: u64, identity: u64) -> u64 {
    let mut mixed = hash ^ identity.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
