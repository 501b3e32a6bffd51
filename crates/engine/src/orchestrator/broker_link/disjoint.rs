//! Filters without overlap that match all topics of the wanted filters: each topic matches one of them at most.
//!
//! Some brokers of MQTT 3.1.1, as NATS, send a copy of a message for each filter that matches it (section 3.3.5 allows that),
//! and the copies carry nothing by which they are recognised. Such a broker is asked for common filters: a filter that another one
//! covers is left out, and filters that overlap are replaced by the narrowest filter that covers them all.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Wanted filters, each behind the one common filter that covers it.
#[derive(Debug, Default)]
pub(crate) struct Disjoint {
    /// The common filters, each with the number of wanted ones that it covers.
    common: BTreeMap<Box<str>, u64>,
}

/// A change of the common filters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommonChange {
    /// Common filters that are new.
    pub(crate) begun: Vec<Box<str>>,
    /// Common filters that are none any more.
    pub(crate) ended: Vec<Box<str>>,
}

impl Disjoint {
    /// The common filters.
    pub(crate) fn common(&self) -> &BTreeMap<Box<str>, u64> {
        &self.common
    }

    /// One more filter is wanted.
    pub(crate) fn add(&mut self, filter: &str) -> CommonChange {
        let (mut joined, mut count, mut ended) = (filter.to_owned(), 1, Vec::new());
        loop {
            let overlapping = overlapping(&self.common, &joined);
            if overlapping.is_empty() {
                break;
            }
            if let [only] = &*overlapping
                && covers(only, &joined)
                && let Some(wanted) = self.common.get_mut(only)
            {
                *wanted += count;
                return CommonChange { begun: Vec::new(), ended };
            }
            for other in overlapping {
                count += self.common.remove(&other).unwrap_or_default();
                joined = join(&joined, &other);
                ended.push(other);
            }
        }
        self.common.insert(joined.clone().into(), count);
        CommonChange { begun: vec![joined.into()], ended }
    }

    /// A filter is wanted no more; `wanted` are the filters that are.
    pub(crate) fn remove(&mut self, wanted: &BTreeMap<Box<str>, u64>, filter: &str) -> CommonChange {
        let Some(common) = overlapping(&self.common, filter).into_iter().find(|common| covers(common, filter)) else {
            return CommonChange::default();
        };
        if let Some(count) = self.common.get_mut(&common)
            && *common != *filter
            && wanted.contains_key(&common)
        {
            *count = count.saturating_sub(1);
            return CommonChange::default();
        }
        self.common.remove(&common);
        // The narrowest filters for the remaining members.
        let mut left = Self::default();
        for member in overlapping(wanted, &common) {
            left.add(&member);
        }
        let is_kept = left.common.contains_key(&common);
        let begun = left.common.keys().filter(|it| **it != common).cloned().collect();
        self.common.extend(left.common);
        CommonChange { begun, ended: if is_kept { Vec::new() } else { vec![common] } }
    }
}

/// The filters among `filters` that match a topic which `filter` matches, too. Only filters are looked at that begin as `filter`
/// does, or have a wildcard where it has none.
fn overlapping(filters: &BTreeMap<Box<str>, u64>, filter: &str) -> Vec<Box<str>> {
    let mut found = Vec::new();
    let mut look = |beginning: &str, whole: bool| {
        let from = (Bound::Included(beginning), Bound::Unbounded);
        let begins_so = filters.range::<str, _>(from).map(|(it, _)| it).take_while(|it| it.starts_with(beginning));
        found
            .extend(begins_so.take_while(|it| !whole || ***it == *beginning).filter(|it| overlap(it, filter)).cloned());
    };
    let mut begun = String::with_capacity(filter.len() + 2);
    for level in filter.split('/') {
        if level == "#" && !begun.is_empty() {
            // It matches its parent, too.
            look(&begun[..begun.len() - 1], true);
        }
        if matches!(level, "+" | "#") {
            look(&begun, false);
            return found;
        }
        for wildcard in ['#', '+'] {
            begun.push(wildcard);
            look(&begun, wildcard == '#');
            begun.pop();
        }
        begun.push_str(level);
        begun.push('/');
    }
    look(filter, true);
    begun.push('#');
    look(&begun, true);
    found
}

/// Whether one of two filters begins with a wildcard, which matches no topic that begins with `$` (section 4.7.2), and the
/// other one with `$`.
fn is_hidden(wide: &str, other: &str) -> bool {
    wide.starts_with(['+', '#']) && other.starts_with('$')
}

/// Whether a topic matches both filters.
fn overlap(one: &str, other: &str) -> bool {
    if is_hidden(one, other) || is_hidden(other, one) {
        return false;
    }
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(a), Some(b)) if a == b || a == "+" || b == "+" => {}
            _ => return false,
        }
    }
}

/// Whether a filter matches all topics of another one.
fn covers(wide: &str, filter: &str) -> bool {
    if is_hidden(wide, filter) {
        return false;
    }
    let (mut wide, mut levels) = (wide.split('/'), filter.split('/'));
    loop {
        match (wide.next(), levels.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(level)) if level != "#" => {}
            (Some(level), Some(other)) if level == other => {}
            _ => return false,
        }
    }
}

/// The narrowest filter that covers both.
fn join(one: &str, other: &str) -> String {
    let mut joined: Vec<&str> = Vec::new();
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (None, None) => break,
            (Some("#") | None, _) | (_, Some("#") | None) => {
                joined.push("#");
                break;
            }
            (Some(a), Some(b)) => joined.push(if a == b { a } else { "+" }),
        }
    }
    joined.join("/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tidegate_mqtt::{TopicFilter, TopicName};

    use super::*;

    fn matches(filter: &str, topic: &str) -> bool {
        TopicFilter::new(filter).unwrap().matches(TopicName::new(topic).unwrap())
    }

    #[test]
    fn covered_filters_are_left_out_and_overlapping_ones_joined() {
        for (wanted, common) in [
            (&["a/b", "a/c"][..], &["a/b", "a/c"][..]),
            (&["a/+", "#", "b"][..], &["#"][..]),
            (&["a/+/c", "a/b/+"][..], &["a/+/+"][..]),
            (&["a", "a/#", "b/c"][..], &["a/#", "b/c"][..]),
            (&["a/b/#", "a/+", "x/y"][..], &["a/+/#", "x/y"][..]),
            (&["$s/a", "#", "$s/+"][..], &["#", "$s/+"][..]),
            (&["+/x", "a/+", "b/y"][..], &["+/+"][..]),
        ] {
            let mut disjoint = Disjoint::default();
            for filter in wanted {
                disjoint.add(filter);
            }
            let found: Vec<&str> = disjoint.common().keys().map(|filter| &**filter).collect();
            assert_eq!(found, common, "{wanted:?}");
        }
    }

    #[test]
    fn a_wide_filter_that_ends_leaves_the_narrow_ones() {
        let mut wanted = BTreeMap::new();
        let mut disjoint = Disjoint::default();
        for filter in ["a/b", "a/c", "#"] {
            wanted.insert(filter.into(), 1);
            disjoint.add(filter);
        }
        wanted.remove("#");
        let change = disjoint.remove(&wanted, "#");
        assert_eq!(change, CommonChange { begun: vec!["a/b".into(), "a/c".into()], ended: vec!["#".into()] });
        wanted.remove("a/b");
        assert_eq!(disjoint.remove(&wanted, "a/b").ended, ["a/b".into()]);
    }

    fn filter() -> impl Strategy<Value = String> {
        let level = prop_oneof![4 => Just("a"), 2 => Just("b"), 1 => Just("$s"), 1 => Just(""), 3 => Just("+")];
        let levels = prop::collection::vec(level, 1..4);
        let narrow = levels.prop_map(|levels| levels.join("/")).prop_filter("a filter", |it| !it.is_empty());
        let wide = narrow.clone().prop_map(|filter| format!("{filter}/#"));
        prop_oneof![6 => narrow, 3 => wide, 1 => Just("#".to_owned())]
    }

    /// All topics of up to four levels of these.
    fn topics() -> Vec<String> {
        let mut topics: Vec<String> = Vec::new();
        let mut longest: Vec<String> = ["a", "b", "c", "$s", ""].map(str::to_owned).to_vec();
        for _ in 0..4 {
            topics.extend(longest.iter().filter(|topic| !topic.is_empty()).cloned());
            let next = longest.iter().flat_map(|topic| ["a", "b", "c", ""].map(|level| format!("{topic}/{level}")));
            longest = next.collect();
        }
        topics
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn each_wanted_topic_matches_one_common_filter(steps in prop::collection::vec((filter(), any::<bool>()), 1..14)) {
            let (mut disjoint, mut wanted) = (Disjoint::default(), BTreeMap::<Box<str>, u64>::new());
            // The filters that a broker holds which follows each change.
            let mut held = BTreeSet::new();
            let topics = topics();
            for (filter, adds) in steps {
                let change = if adds && wanted.insert((&*filter).into(), 1).is_none() {
                    disjoint.add(&filter)
                } else if let Some(gone) = wanted.keys().next().cloned().filter(|_| !adds) {
                    wanted.remove(&gone);
                    disjoint.remove(&wanted, &gone)
                } else {
                    continue;
                };
                held.extend(change.begun);
                for ended in change.ended {
                    prop_assert!(held.remove(&ended), "{ended}");
                }
                prop_assert!(held.iter().eq(disjoint.common().keys()));
                prop_assert_eq!(disjoint.common().values().sum::<u64>(), wanted.len() as u64);
                for topic in &topics {
                    let by = disjoint.common().keys().filter(|it| matches(it, topic)).count();
                    prop_assert!(by <= 1, "{topic} matches {by} of {:?}", disjoint.common());
                    prop_assert!(by == 1 || !wanted.keys().any(|it| matches(it, topic)), "{topic}");
                }
            }
        }
    }
}
