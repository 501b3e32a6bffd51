//! A process with all that descend from it.

use std::collections::BTreeMap;
use std::fs;

use super::process::{Stat, stat};

/// All processes that this user can see.
pub(super) fn processes() -> BTreeMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
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
