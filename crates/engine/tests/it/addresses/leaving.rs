//! Nodes that leave and return at random, under messages to one, to groups and to all.

use std::collections::BTreeMap;

use super::*;

/// A node as a test follows it.
struct Follower {
    id: String,
    client: Option<Client>,
    /// The received messages by sender, in the order in which each came first.
    got: BTreeMap<char, Vec<usize>>,
    owed: BTreeMap<char, Vec<usize>>,
}

impl Follower {
    fn read(&mut self) {
        let Some(client) = &self.client else { return };
        while let Some(arrival) = client.take_arrival() {
            let Some(message) = arrival.delivered() else { continue };
            let text = message.text();
            let (sender, number) = text.split_at(1);
            let of_sender = self.got.entry(sender.chars().next().unwrap()).or_default();
            let number = number.parse().unwrap();
            if !of_sender.contains(&number) {
                of_sender.push(number);
            }
        }
    }
}

fn connecting(random: &mut Random, id: &str) -> Connecting {
    match random.below(4) {
        0 => v311(id),
        1 => v311(id).lasting(),
        2 => v5(id),
        _ => v5(id).lasting(),
    }
}

fn play(world: &World, random: &mut Random) {
    let senders = [('a', world.connect(v5("sender a"))), ('b', world.connect(v311("sender b")))];
    let mut nodes: Vec<Follower> = (0..5)
        .map(|number| {
            let id = format!("n{number}");
            let client = Some(world.connect(connecting(random, &id)));
            Follower { id, client, got: BTreeMap::new(), owed: BTreeMap::new() }
        })
        .collect();
    for number in [1, 3] {
        assert_eq!(change(world, &format!("n{number}"), &["odd"], &[]), MembershipOutcome::Done);
    }
    for number in 0..120 {
        let at = random.below(5);
        match random.below(8) {
            0 | 1 => {
                // In the middle of whatever is under way.
                world.run_some(random.below(30));
                if let Some(client) = &nodes[at].client {
                    client.cut(random.below(40));
                    world.run();
                }
                nodes[at].read();
                nodes[at].client = None;
            }
            2 | 3 if nodes[at].client.is_none() => {
                let id = nodes[at].id.clone();
                nodes[at].client = Some(world.connect(connecting(random, &id)));
            }
            _ => {
                let (name, sender) = &senders[random.below(2)];
                let (topic, to): (String, Vec<usize>) = match random.below(3) {
                    0 => (format!("ctx/to/node/n{at}"), vec![at]),
                    1 => ("ctx/to/group/odd".to_owned(), vec![1, 3]),
                    _ => ("ctx/to/all".to_owned(), (0..5).collect()),
                };
                let qos = if random.below(2) == 0 { AtLeastOnce } else { ExactlyOnce };
                sender.send_publish(message(&topic, format!("{name}{number}")).qos(qos));
                // The message is taken; its delivery may be under way.
                for node in to {
                    nodes[node].owed.entry(*name).or_default().push(number);
                }
                if random.below(3) > 0 {
                    world.run();
                }
            }
        }
    }
    world.run();
    for node in &mut nodes {
        if node.client.is_none() {
            node.client = Some(world.connect(v311(&node.id)));
        }
        world.run();
        node.read();
        assert_eq!(node.got, node.owed, "{}", node.id);
    }
}

#[test]
fn everything_owed_is_delivered_in_the_order_of_its_sender() {
    for seed in 1..=20 {
        for shards in [1, 3] {
            let world = World::seeded(shards, seed, &format!("leaving, {shards} shards, seed {seed}"), open);
            play(&world, &mut Random::salted(seed, 7));
        }
    }
}
