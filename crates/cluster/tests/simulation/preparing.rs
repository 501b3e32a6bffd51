//! Moves that are prepared: a part of the content comes to the new home ahead of the image.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::Move;

use super::{Content, LEASE, World};

impl World {
    /// Sends messages of prepared moves to the new homes, which take them if their tables have the move.
    pub(super) fn prepare(&mut self, index: usize) {
        let node = &self.nodes[index];
        let of_node = node.table.preparing.iter().filter(|it| it.from == node.name);
        let open: Vec<_> = of_node.filter(|it| !node.sent_ahead.contains_key(&it.id)).cloned().collect();
        for it in open {
            let to = self.nodes.iter().position(|node| node.name == it.to).unwrap();
            let receiver = &self.nodes[to];
            let runs = receiver.alive && receiver.stopped_until <= self.now;
            let knows = receiver.table.open_moves().any(|known| known.id == it.id && known.from == it.from);
            if self.random.below(10) != 0 || !runs || !knows {
                continue;
            }
            let content = it
                .partitions
                .iter()
                .map(|partition| (*partition, self.nodes[index].content.get(partition).cloned().unwrap_or_default()));
            let content: Content = content.collect();
            self.nodes[to].ahead.insert(it.id, content.clone());
            // The answer may be lost.
            if self.random.below(4) != 0 {
                self.nodes[index].sent_ahead.insert(it.id, content);
            }
        }
    }
}

/// Takes messages out that were sent ahead. Returns the first of each partition that is still owed.
pub(super) fn without_those_sent(content: &mut Content, sent: &Content) -> BTreeMap<u16, u64> {
    let mut first = BTreeMap::new();
    for (partition, messages) in content {
        let last = sent.get(partition).and_then(|sent| sent.last()).copied().unwrap_or(0);
        if let Some(oldest) = messages.first().copied().filter(|oldest| *oldest <= last) {
            first.insert(*partition, oldest);
            messages.retain(|message| *message > last);
        }
    }
    first
}

/// Puts messages that came ahead before the others.
pub(super) fn behind_those_sent(content: Content, first: &BTreeMap<u16, u64>, came: &Content) -> Content {
    let whole = content.into_iter().map(|(partition, rest)| {
        let Some(first) = first.get(&partition) else { return (partition, rest) };
        let before = came[&partition].iter().copied().filter(|message| message >= first);
        (partition, before.chain(rest).collect())
    });
    whole.collect()
}

/// Moves are prepared while nodes die, stop and are cut off: an image may leave out only messages that the new home has.
#[test]
fn prepared_moves_lose_nothing_and_begin_when_prepared() {
    let (mut shortened, mut called_off) = (0, 0);
    for seed in super::seeds(500..506) {
        let mut world = World::new(seed);
        world.nodes.iter_mut().for_each(|node| node.durable = true);
        world.prepares = true;
        for _ in 0..80 {
            world.disturb();
            let pause = world.random.below(2 * LEASE);
            world.run(pause);
        }
        world.settle();
        assert_eq!((world.begun_empty, world.ended), (0, 0), "seed {seed}");
        let words = world.adverts.values().flatten();
        let prepared: BTreeSet<u64> = words.flat_map(|(_, advert)| advert.prepared.iter().copied()).collect();
        for pair in world.tables.windows(2) {
            let ids = |moves: &[Move]| moves.iter().map(|it| it.id).collect::<BTreeSet<u64>>();
            let [before, after] = [&pair[0], &pair[1]].map(|table| (ids(&table.preparing), ids(&table.moves)));
            assert!(after.1.is_subset(&prepared), "seed {seed}: a move begins before it is prepared");
            let ended = |id: &&u64| !after.0.contains(id) && !after.1.contains(id);
            called_off += before.0.iter().filter(ended).count();
        }
        shortened += world.shortened;
    }
    assert!(shortened > 0 && called_off > 0, "{shortened} images were shortened, {called_off} moves called off");
}
