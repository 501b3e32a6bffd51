//! Groups: who is there, and who has which partition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tidegate_bus::{GroupName, MemberName, Membership, MembershipEvent, NameUse, NameWatch, Partition};

use crate::client::{Client, bell, until};
use crate::{Deployment, settings};

type Joined = (Membership, Receiver<()>);

/// Releases partitions on request.
fn obey(membership: &Membership) {
    for event in membership.take() {
        if let MembershipEvent::Losing(partition) = event {
            membership.release(partition);
        }
    }
}

fn names(membership: &Membership) -> Vec<String> {
    membership.members().iter().map(|member| member.name.to_string()).collect()
}

/// Waits until each member has its number of partitions, and all members together have every partition.
fn settled(members: &[&Joined], shares: &[usize]) {
    until(&members[0].1, "a fair share", || {
        for (membership, _) in members {
            obey(membership);
        }
        let held: Vec<_> = members.iter().map(|(membership, _)| membership.held()).collect();
        (held.iter().map(Vec::len).collect::<Vec<_>>() == shares).then_some(())
    });
    // News since the last call is taken, so that no change can be lost.
    for (membership, _) in members {
        obey(membership);
    }
    let all: BTreeSet<Partition> = members.iter().flat_map(|(membership, _)| membership.held()).collect();
    assert_eq!(all.len(), shares.iter().sum::<usize>());
}

pub(crate) fn members_know_each_other_and_share_partitions<D: Deployment>(deployment: &mut D) {
    let (one, two) = (Client(deployment.bus()), Client(deployment.bus()));
    let a = one.join("homes", "a", 7);
    settled(&[&a], &[7]);
    assert_eq!(names(&a.0), ["a"]);
    let b = two.join("homes", "b", 7);
    settled(&[&a, &b], &[4, 3]);
    let leases = |membership: &Membership| membership.members().iter().map(|member| member.lease).collect::<Vec<_>>();
    until(&a.1, "the other's lease", || (leases(&a.0) == [Some(settings().lease); 2]).then_some(()));
    until(&a.1, "the other's name", || (names(&a.0) == ["a", "b"] && names(&b.0) == ["a", "b"]).then_some(()));
    // A group that shares nothing still knows who is there.
    let watcher = two.join("nodes", "b", 0);
    until(&watcher.1, "its own name", || (names(&watcher.0) == ["b"]).then_some(()));
    assert_eq!(watcher.0.held(), []);
    drop(a.0);
    settled(&[&b], &[7]);
    until(&b.1, "the other's leaving", || (names(&b.0) == ["b"]).then_some(()));
}

pub(crate) fn a_name_is_taken_until_its_member_leaves<D: Deployment>(deployment: &mut D) {
    let (member, other) = (Client(deployment.bus()), deployment.bus());
    let watch = |name: &str| other.watch_name(&GroupName::new("homes").unwrap(), &MemberName::new(name).unwrap());
    let (mut a, mut b) = (watch("a"), watch("b"));
    let (_, bell) = bell();
    let awaited = |watch: &mut NameWatch, wanted| {
        until(&bell, "the use of the name", || (watch.look(Instant::now()).unwrap() == wanted).then_some(()));
    };
    awaited(&mut a, NameUse::Free);
    let joined = member.join("homes", "a", 1);
    awaited(&mut a, NameUse::Taken);
    awaited(&mut b, NameUse::Free);
    drop(joined);
    awaited(&mut a, NameUse::Free);
}

pub(crate) fn a_partition_is_never_two_members<D: Deployment>(deployment: &mut D) {
    // Each member keeps a common book of all partitions; a member that finds its gain taken has found a fault.
    let book: Arc<Mutex<BTreeMap<Partition, String>>> = Arc::default();
    let note = |name: &str, membership: &Membership| {
        for event in membership.take() {
            let mut book = book.lock().unwrap();
            match event {
                MembershipEvent::Gained(partition) => {
                    let before = book.insert(partition, name.to_owned());
                    assert_eq!(before, None, "{partition:?} is {name}'s, too");
                }
                MembershipEvent::Losing(partition) => {
                    assert_eq!(book.remove(&partition).as_deref(), Some(name));
                    drop(book);
                    membership.release(partition);
                }
                MembershipEvent::Lost(partition) => {
                    if book.get(&partition).is_some_and(|owner| owner == name) {
                        book.remove(&partition);
                    }
                }
            }
        }
    };
    let clients: Vec<Client> = (0..4).map(|_| Client(deployment.bus())).collect();
    let mut members: BTreeMap<String, Joined> = BTreeMap::new();
    for turn in 0..6 {
        let name = format!("m{}", turn % 4);
        if let Some((membership, _)) = members.remove(&name) {
            // It stops its work before it goes.
            book.lock().unwrap().retain(|_, owner| *owner != name);
            drop(membership);
        } else {
            members.insert(name.clone(), clients[turn % 4].join("homes", &name, 9));
        }
        let bell = &members.values().next().unwrap().1;
        until(bell, "a fair share", || {
            for (name, (membership, _)) in &members {
                note(name, membership);
            }
            let held: Vec<usize> = members.values().map(|(membership, _)| membership.held().len()).collect();
            let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
            (held.iter().sum::<usize>() == 9 && most - least <= 1 && book.lock().unwrap().len() == 9).then_some(())
        });
    }
}

pub(crate) fn a_process_takes_the_place_of_another_by_its_name<D: Deployment>(deployment: &mut D) {
    let (old, new) = (Client(deployment.bus()), Client(deployment.bus()));
    let old = old.join("homes", "a", 4);
    settled(&[&old], &[4]);
    let incarnation = old.0.members()[0].incarnation;
    let new = new.join("homes", "a", 4);
    settled(&[&new], &[4]);
    assert_ne!(new.0.members()[0].incarnation, incarnation);
    until(&old.1, "lost partitions", || old.0.held().is_empty().then_some(()));
    let lost: Vec<_> = old.0.take();
    assert_eq!(lost.iter().filter(|event| matches!(event, MembershipEvent::Lost(_))).count(), 4, "{lost:?}");
    // That the old one goes takes nothing from the new one.
    drop(old.0);
    let other = Client(deployment.bus()).join("homes", "b", 4);
    settled(&[&new, &other], &[2, 2]);
}
