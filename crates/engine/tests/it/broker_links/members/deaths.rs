//! A member dies: others take over its sessions, and its connections to brokers.

use std::sync::Arc;

use tidegate_engine::{
    BrokerLinkImage, Brought, Continued, Engine, OrchestratorMoves, PartitionImage, Partitions, Settings, Settling,
    ShardPosition, Snapshot,
};

use super::{BROKERS, MEMBERS, Run, options, partitions_of};
use crate::harness::*;

/// A connection of a dead member to a broker, which another member works off.
pub(super) struct Line {
    name: String,
    broker: usize,
    of: usize,
    at: usize,
    transfer: u64,
    /// Readers that had left the dead member and for which it forwarded messages.
    left: Vec<usize>,
    held: Vec<usize>,
    /// Readers that the member has taken over with the connection.
    here: Vec<usize>,
    /// The broker is not in the fleet of the member yet.
    is_missing: bool,
    settling: Option<Settling>,
    /// The messages whose answers have not come, with the readers that still have to get them, and whether they are the
    /// last ones.
    piece: Option<(Brought, Vec<usize>, bool)>,
}

impl Line {
    pub(super) fn is_of(&self, member: usize) -> bool {
        self.of == member
    }
}

/// The images that other members find in the store of a dead member.
struct Remains {
    images: Vec<PartitionImage>,
    broker_links: Vec<BrokerLinkImage>,
    had: Vec<u8>,
}

/// As `images_of` of the crate `node` makes them for one successor. The attachments of the first image of a set belong
/// to all of the set, so each successor has its own set.
fn remains_of(world: &World, partitions: Partitions) -> Remains {
    let (now, pairs) = (world.now(), world.swept());
    let mut settings: Settings = world.settings();
    settings.queue.memory_bytes = u64::MAX;
    let mut engine = Engine::new(Arc::new(settings), ShardPosition::ALONE, 0, now);
    engine.store().restore_for_others();
    restore(std::slice::from_mut(&mut engine), now, &pairs).expect("what engines wrote can be taken in");
    engine.moves().hold_partitions(now, partitions, None);
    let Ok(Snapshot::Taken(images)) = engine.moves().snapshot_of_dead(now, partitions, u64::MAX) else {
        panic!("all of it is in memory");
    };
    let moves = OrchestratorMoves::of(&mut engine);
    Remains { images, broker_links: moves.broker_link_images(now), had: moves.messages_of(partitions) }
}

impl Run {
    /// A member dies, if the others can go on.
    pub(super) fn die(&mut self, dead: usize) {
        let others: Vec<usize> = self.living().into_iter().filter(|member| *member != dead).collect();
        if self.has_lines(dead) {
            return;
        }
        if others.is_empty() {
            return self.die_last(dead);
        }
        if others.len() == 1 && self.members.len() > 2 {
            return;
        }
        self.fall(dead);
        self.tell_rosters();
        for other in others {
            self.set_clock(other, dead);
            let steps = self.random.below(30);
            self.members[other].world.run_some(steps);
            self.spread();
        }
        let heirs = self.takers();
        self.bequeath(dead, &heirs);
    }

    /// One of two members dies before the other one is back, which takes over everything then.
    fn die_last(&mut self, dead: usize) {
        let first = 1 - dead;
        self.take_all_late(first);
        self.fall(dead);
        self.members[first].world.note("comes back alone".to_owned());
        self.set_clock(first, dead);
        self.begin_again(first);
        self.bequeath(dead, &[first]);
        self.tell_homes();
        self.reach_brokers();
        self.run(first);
    }

    /// The process of a member ends for good.
    fn fall(&mut self, dead: usize) {
        self.members[dead].world.note("dies".to_owned());
        self.crash(dead);
        self.lose_links_of(dead);
        self.part_guests();
        self.members[dead].is_dead = true;
        self.open.retain(|(home, _), _| *home != dead);
    }

    /// These members take over the partitions of a dead one, and its connections.
    fn bequeath(&mut self, dead: usize, heirs: &[usize]) {
        let held: Vec<usize> = (0..self.readers.len()).filter(|reader| self.readers[*reader].home == dead).collect();
        let left = self.streams.extract_if(.., |it| it.from == dead).map(|it| it.reader);
        let left: Vec<usize> = left.filter(|reader| !held.contains(reader)).collect();
        let publishers = std::mem::take(&mut self.members[dead].publishers);
        let random = &mut self.random;
        // The new home of some dies before it has them: they wait for another one.
        let dies_too = random.percent(30);
        let early = held.iter().filter(|_| !(dies_too && random.percent(50))).copied().collect::<Vec<_>>();
        let shares: Vec<(usize, usize)> = early.iter().map(|reader| (random.pick(heirs), *reader)).collect();
        let mut publishers: Vec<_> = publishers.into_iter().map(|it| (random.pick(heirs), it)).collect();
        let mut broker_links = Vec::new();
        let its = |heir: usize| shares.iter().filter(move |(of, _)| *of == heir).map(|(_, reader)| *reader);
        // An heir serves its partitions at once, or after the others have taken theirs.
        let at_once = self.random.percent(50);
        for heir in heirs.iter().copied() {
            let own = publishers.iter().filter(|(of, _)| *of == heir).map(|(_, it)| partitions_of(&it.name));
            let own = own.fold(Partitions::NONE, Partitions::with);
            broker_links = self.take_partitions(dead, heir, &its(heir).collect::<Vec<_>>(), own);
            if at_once {
                its(heir).for_each(|reader| self.serve(heir, reader));
                let own = publishers.extract_if(.., |(of, _)| *of == heir).map(|(_, it)| it).collect();
                self.serve_publishers(heir, own);
            }
        }
        for heir in heirs.iter().copied().filter(|_| !at_once) {
            its(heir).for_each(|reader| self.serve(heir, reader));
            let own = publishers.extract_if(.., |(of, _)| *of == heir).map(|(_, it)| it).collect();
            self.serve_publishers(heir, own);
        }
        for image in broker_links {
            let heir = self.random.pick(heirs);
            let transfer = self.transfers + 1 + heir as u64;
            if image.broker.contains('@') {
                self.take_over_again(dead, heir, transfer, image);
            } else {
                self.take_over(dead, heir, transfer, image, (&held, &left));
            }
            // Nothing counts as taken over before it is in the store.
            self.run(heir);
        }
        self.transfers += MEMBERS as u64;
    }

    /// All sessions of a dead member are taken over that no other one has.
    pub(super) fn take_all_late(&mut self, dead: usize) {
        while self.readers.iter().any(|reader| reader.home == dead) {
            self.take_late();
        }
    }

    /// A member takes over a session whose last new home has died before it had it.
    pub(super) fn take_late(&mut self) {
        let late = (0..self.readers.len()).find(|reader| self.members[self.readers[*reader].home].is_dead);
        let Some(reader) = late else { return };
        let (dead, takers) = (self.readers[reader].home, self.takers());
        let heir = self.random.pick(&takers);
        let transfer = self.transfers + 1 + heir as u64;
        self.members[heir].world.note("takes over late".to_owned());
        self.set_clock(heir, dead);
        self.take_partitions(dead, heir, &[reader], Partitions::NONE);
        let lines = std::mem::take(&mut self.lines);
        for mut line in lines {
            if line.of == dead && line.at == heir && !line.here.contains(&reader) {
                line.here.push(reader);
                if !line.is_missing {
                    self.continue_with(&line, transfer);
                }
            }
            self.lines.push(line);
        }
        self.serve(heir, reader);
        self.run(heir);
        self.transfers += MEMBERS as u64;
    }

    /// A member takes over partitions of a dead one. Returns the connections of the dead one to brokers.
    fn take_partitions(
        &mut self,
        dead: usize,
        heir: usize,
        readers: &[usize],
        of_publishers: Partitions,
    ) -> Vec<BrokerLinkImage> {
        let its = readers.iter().map(|reader| self.partitions(*reader)).fold(of_publishers, Partitions::with);
        let remains = remains_of(&self.members[dead].world, its);
        self.arrive(heir, self.transfers + 1 + heir as u64, readers, &remains.images, &remains.had);
        self.run(heir);
        remains.broker_links
    }

    /// A member serves publishers whose partitions it has taken over.
    fn serve_publishers(&mut self, heir: usize, publishers: Vec<Device>) {
        let world = self.members[heir].world.clone();
        for mut publisher in publishers {
            let partitions = partitions_of(&publisher.name);
            world.engine(0, |engine, now| engine.moves().release_partitions(now, partitions));
            publisher.move_to(&world);
            self.members[heir].publishers.push(publisher);
        }
        self.tell_homes();
        self.run(heir);
    }

    /// A member connects to a broker as the dead one.
    fn take_over(
        &mut self,
        dead: usize,
        heir: usize,
        transfer: u64,
        mut image: BrokerLinkImage,
        (held, left): (&[usize], &[usize]),
    ) {
        let broker = BROKERS.iter().position(|name| *name == image.broker).expect("a broker");
        let name = format!("{}@m{dead}", image.broker);
        let world = self.members[heir].world.clone();
        let is_its = |(number, connection): &(usize, Broker)| {
            *number == broker && connection.is_of(&self.members[dead].world) && connection.name() == image.broker
        };
        let at = self.connections.iter().position(is_its).expect("the connection of the dead one");
        self.connections[at].1 = world.take_over_broker(&self.connections[at].1, &name);
        image.forwards = !left.is_empty();
        let here = held.iter().copied().filter(|reader| self.readers[*reader].home == heir).collect();
        let (held, left, is_missing) = (held.to_vec(), left.to_vec(), self.random.percent(25));
        let (of, at, settling, piece) = (dead, heir, None, None);
        let line = Line { name, broker, of, at, transfer, left, held, here, is_missing, settling, piece };
        self.adopt(&line, line.transfer, &image);
        self.lines.push(line);
    }

    /// A member connects with a session that the dead one had taken over from another one.
    fn take_over_again(&mut self, dead: usize, heir: usize, transfer: u64, mut image: BrokerLinkImage) {
        let is_its = |line: &Line| line.at == dead && line.name == image.broker;
        // One that is worked off may be in the store still.
        let Some(at) = self.lines.iter().position(is_its) else { return };
        let mut line = self.lines.swap_remove(at);
        let world = self.members[heir].world.clone();
        let is_its = |(_, connection): &(usize, Broker)| connection.name() == line.name;
        let connection = self.connections.iter().position(is_its).expect("the connection of the dead one");
        self.connections[connection].1 = world.take_over_broker(&self.connections[connection].1, &line.name);
        let others = line.held.iter().chain(&line.left).copied().filter(|reader| !line.here.contains(reader));
        (line.left, line.held) = (others.collect(), line.here.clone());
        line.here.retain(|reader| self.readers[*reader].home == heir);
        (line.at, line.transfer, line.settling, line.piece) = (heir, transfer, None, None);
        line.is_missing = self.random.percent(25);
        BROKERS[line.broker].clone_into(&mut image.broker);
        image.forwards = !line.left.is_empty();
        self.adopt(&line, line.transfer, &image);
        self.lines.push(line);
    }

    fn adopt(&self, line: &Line, transfer: u64, image: &BrokerLinkImage) {
        let of = format!("m{}", line.of);
        self.members[line.at].world.engine(0, |engine, now| {
            let mut moves = OrchestratorMoves::of(engine);
            if line.is_missing {
                assert_eq!(moves.keep_broker_link(now, &of, image).as_deref(), Ok(line.name.as_str()));
            } else {
                let adopted = moves.adopt_broker_link(now, &of, image, transfer, options());
                assert_eq!(adopted.as_deref(), Ok(line.name.as_str()));
            }
        });
    }

    /// The missing broker of a connection comes into the fleet.
    fn find_broker(&mut self, line: &mut Line) {
        line.is_missing = false;
        self.transfers += 1;
        line.transfer = self.transfers;
        self.resume_line(line);
        self.run(line.at);
    }

    /// A member continues with the connection of a dead one, whose session it has.
    fn resume_line(&mut self, line: &Line) {
        let here = line.held.iter().copied().filter(|reader| self.readers[*reader].home == line.at);
        let here: Vec<usize> = here.collect();
        let partitions = here.iter().map(|reader| self.partitions(*reader)).fold(Partitions::NONE, Partitions::with);
        for reader in here {
            self.open.entry((line.at, reader)).or_default().push(line.transfer);
        }
        self.members[line.at].world.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).resume_awaiting(now, line.transfer, partitions);
        });
        self.continue_with(line, line.transfer);
    }

    /// A member works off a connection whose session it has for the sessions of a transfer.
    fn continue_with(&self, line: &Line, transfer: u64) {
        let (broker, forwards) = (BROKERS[line.broker].to_owned(), !line.left.is_empty());
        let image = BrokerLinkImage { broker, image: None, forwards, last_copies: Vec::new() };
        self.adopt(line, transfer, &image);
    }

    /// The next life of a member continues with the connections of dead ones.
    pub(super) fn resume_lines(&mut self, member: usize) {
        let mut missing = std::collections::BTreeSet::new();
        let all = std::mem::take(&mut self.lines);
        for mut line in all {
            if line.at == member && line.is_missing {
                missing.insert(line.name.clone());
            } else if line.at == member {
                self.transfers += 1;
                (line.transfer, line.settling, line.piece) = (self.transfers, None, None);
                self.resume_line(&line);
            }
            self.lines.push(line);
        }
        let continued = if missing.is_empty() { Continued::None } else { Continued::Named(missing) };
        self.members[member].world.engine(0, |engine, now| engine.fleet().continue_adopted(now, continued));
    }

    /// The messages that a broker has brought for a dead member go to its sessions.
    pub(super) fn work_off(&mut self, at: usize) {
        let mut line = self.lines.swap_remove(at);
        if line.is_missing {
            if self.random.percent(30) {
                self.find_broker(&mut line);
            }
            return self.lines.push(line);
        }
        if !self.is_worked_off(&mut line) {
            return self.lines.push(line);
        }
        let world = self.members[line.at].world.clone();
        world.note(format!("{} is worked off", line.name));
        let is_back = !self.members[line.of].is_dead;
        let removed = world.engine(0, |engine, now| {
            if is_back {
                OrchestratorMoves::of(engine).hand_back(&line.name);
            }
            engine.fleet().remove_broker_link(now, &line.name, false)
        });
        if removed.is_err() {
            return self.lines.push(line);
        }
        self.run(line.at);
        self.connections.retain(|(_, connection)| is_back || connection.name() != line.name);
        self.reach_brokers();
        if self.lines.is_empty() {
            let open: Vec<(usize, usize)> = self.open.keys().copied().collect();
            for (home, reader) in open {
                let all = self.open[&(home, reader)].clone();
                let of_moves = |id: &u64| self.streams.iter().any(|stream| stream.id == *id);
                for transfer in all.into_iter().filter(|id| !of_moves(id)).collect::<Vec<_>>() {
                    self.end_transfer(home, reader, transfer);
                }
            }
        }
    }

    fn is_worked_off(&mut self, line: &mut Line) -> bool {
        let world = self.members[line.at].world.clone();
        if line.piece.is_none() {
            let know = self.all_brokers_know(line);
            let mut brought = world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_brought(&line.name));
            let has_come = |brought: &Brought| brought.for_members.is_some() || brought.for_left.is_some();
            let mut is_last = false;
            let settling = line.settling.take();
            if know && !has_come(&brought) {
                let name = line.name.clone();
                let is_new = settling.is_none();
                let (settling, is_settled) = world.engine(0, |engine, now| {
                    let mut settling =
                        settling.unwrap_or_else(|| OrchestratorMoves::of(engine).begin_settling_of(now, &name));
                    let is_settled = !is_new && engine.fleet().settle(now, &mut settling);
                    (settling, is_settled)
                });
                line.settling = Some(settling);
                if is_settled {
                    brought = world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_brought(&line.name));
                    is_last = !has_come(&brought);
                }
            }
            let readers = line.held.iter().chain(&line.left).copied().collect();
            line.piece = Some((brought, readers, is_last));
        }
        let Some((brought, mut readers, is_last)) = line.piece.take() else { return false };
        let mut missing = Vec::new();
        for reader in readers.drain(..) {
            let messages = if line.left.contains(&reader) { &brought.for_left } else { &brought.for_members };
            let home = self.readers[reader].home;
            if self.members[home].is_dead {
                missing.push(reader);
                continue;
            }
            let Some(messages) = messages.as_ref().filter(|_| home != line.at) else { continue };
            if !self.give(home, reader, line.transfer, messages) {
                missing.push(reader);
            }
        }
        if !missing.is_empty() {
            line.piece = Some((brought, missing, is_last));
            return false;
        }
        for reader in line.held.iter().chain(&line.left).filter(|reader| self.readers[**reader].home == line.at) {
            let messages = if line.left.contains(reader) { &brought.for_left } else { &brought.for_members };
            let (messages, partitions) = (messages.as_deref(), self.partitions(*reader));
            world.engine(0, |engine, now| {
                let mut moves = OrchestratorMoves::of(engine);
                messages.map(|messages| moves.deliver_brought(now, partitions, messages).expect("messages"));
            });
        }
        self.run(line.at);
        world.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).confirm_brought(now, &line.name, brought.unanswered);
        });
        self.run(line.at);
        is_last && self.all_brokers_know(line)
    }

    /// True if the brokers know the filters of all members that have partitions, but for the dead one, which is back and
    /// connects when this connection has ended.
    fn all_brokers_know(&self, line: &Line) -> bool {
        let mut homes = self.homes();
        homes.extend(self.readers.iter().map(|reader| reader.home));
        let mut living = self.living().into_iter().filter(|member| *member != line.of && homes.contains(member));
        living.all(|member| self.members[member].brokers_know())
    }
}
