//! A process with all that descend from it.

use std::collections::BTreeMap;

use tidegate_proc::Stat;

use super::process::children;

/// The processes below these, and they themselves. Only they are looked at, since the time that a look takes is the
/// generator's: on a busy machine there are hundreds of others. Where the kernel does not say who the children are, all
/// are looked at.
pub(super) fn processes(roots: &[u32]) -> BTreeMap<u32, Stat> {
    below(roots).unwrap_or_else(all)
}

fn below(roots: &[u32]) -> Option<BTreeMap<u32, Stat>> {
    let mut known = BTreeMap::new();
    let mut next = roots.to_vec();
    while let Some(pid) = next.pop() {
        if known.contains_key(&pid) {
            continue;
        }
        // A process that has ended meanwhile has neither.
        let Some(stat) = Stat::of(pid) else { continue };
        known.insert(pid, stat);
        next.extend(children(pid)?);
    }
    Some(known)
}

/// All processes that this user can see.
fn all() -> BTreeMap<u32, Stat> {
    tidegate_proc::processes().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect()
}

/// A process and its descendants, but for those below `without`.
pub(super) fn tree(all: &BTreeMap<u32, Stat>, root: u32, without: &[Option<u32>]) -> Vec<u32> {
    let mut members = Vec::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        if without.contains(&Some(pid)) || members.contains(&pid) || !all.contains_key(&pid) {
            continue;
        }
        members.push(pid);
        next.extend(all.iter().filter(|(_, stat)| stat.parent == pid).map(|(child, _)| *child));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_by_its_parent_as_it_is_among_all() {
        let own = std::process::id();
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (few, many) = (processes(&[own]), all());
        assert_eq!((few[&child.id()].parent, many[&child.id()].parent), (own, own));
        assert!(tree(&few, own, &[]).contains(&child.id()));
        assert!(processes(&[u32::MAX]).is_empty(), "there is no such process");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_tree_has_all_descendants_and_not_those_below_another_root() {
        let child_of = |parent| Stat { parent, ..Stat::default() };
        let all = BTreeMap::from([
            (1, child_of(0)),
            (10, child_of(1)),
            (11, child_of(10)),
            (20, child_of(10)),
            (21, child_of(20)),
            (30, child_of(1)),
        ]);
        let sorted = |mut pids: Vec<u32>| {
            pids.sort_unstable();
            pids
        };
        assert_eq!(sorted(tree(&all, 10, &[])), [10, 11, 20, 21]);
        assert_eq!(sorted(tree(&all, 10, &[Some(20)])), [10, 11]);
        assert!(tree(&all, 99, &[]).is_empty());
    }
}
